"""Hopper kernels that share out K on the GPU: right, exact where sums are, the same bits in every run, in graphs."""

from __future__ import annotations

import gc

import attrs
import numpy as np
import pytest
from verified import verified

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    Warpgroup,
    by_atomics,
    by_tma,
    matmul,
    relu,
    stmatrix,
    stream_k,
    through_shared,
    tma,
)  # fmt: skip
from fireiron.jit.driver import driver
from fireiron.jit.interface import Interface
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.verify.random_data import random_arrays

PLANS = [
    Plan(m=64, n=64, consumers=1, ways=3),
    Plan(m=64, n=64, consumers=1, ways=2, panels=2),
    Plan(m=128, n=128, ways=4),
    Plan(m=128, n=64, ways=2, cluster=(2, 1)),
    Plan(m=128, n=192, pingpong=True, swapped=True, ways=3),
    Plan(m=192, n=128, consumers=3, ways=2),
    Plan(m=64, n=64, consumers=1, stream=True),
    Plan(m=128, n=256, stream=True),
    Plan(m=128, n=192, swapped=True, stream=True),
    Plan(m=128, n=128, stream=True, cluster=(2, 1)),
    Plan(m=128, n=128, stream=True, cluster=(1, 2)),
    Plan(m=64, n=64, consumers=1, ways=3, through="cluster"),
    Plan(m=64, n=64, consumers=1, ways=8, through="cluster"),
    Plan(m=128, n=128, ways=4, through="cluster"),
    Plan(m=128, n=96, pingpong=True, ways=2, through="cluster"),
    Plan(m=64, n=128, consumers=1, swapped=True, ways=4, through="cluster"),
]
SHARED = [  # whose blocks all run at once, for 136 rows and 72 columns
    Plan(m=64, n=64, consumers=1, ways=8, through="grid"),
    Plan(m=128, n=72, ways=24, through="grid"),
    Plan(m=64, n=64, consumers=1, ways=5, through="grid", cluster=(2, 1)),
    Plan(m=64, n=136, consumers=1, swapped=True, ways=31, through="grid"),
]
SIZES = [(1024, 768, 1024), (1000, 1016, 1032), (2176, 2176, 1088), (136, 72, 4104)]


@pytest.fixture(autouse=True)
def _on_hopper():
    if driver().compute_capability(0) != 90:
        pytest.skip("wgmma runs on Hopper alone")


def drawn(schedule, exact):
    """Draw arrays; `exact`: of small integers, whose products and sums no type rounds."""
    arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=3)
    if exact:
        rng = np.random.default_rng(3)
        for name in ("A", "B"):
            arrays[name][...] = (rng.random(arrays[name].shape) < 0.1).astype(arrays[name].dtype)
    return arrays


def operands(spec, arrays):
    """Give A and B in f64 as the product takes them, however they are stored."""
    plain = ((t, arrays[t.name].astype("f8")) for t in (spec.matmul.A, spec.matmul.B))
    return [x if t.storage == (0, 1) else x.T for t, x in plain]


def check(spec, schedule, exact=False, repeats=True, f=lambda x: x):
    arrays = drawn(schedule, exact)
    a, b = operands(spec, arrays)
    kernel, results = schedule.compile(), []
    verified(schedule, kernel=kernel, kinds=("exact",), repeats=3)
    for _ in range(3):
        out = np.full_like(arrays["C"], 77)
        results.append(np.array(kernel(arrays["A"], arrays["B"], out=out)).astype("f8"))
    expected = f(a @ b)
    if exact:
        rounded = expected.astype(arrays["C"].dtype).astype("f8")  # once, as the kernel does
        np.testing.assert_array_equal(results[0], rounded)
    else:
        room = (a.shape[1] + 4) * 2**-23 * (np.abs(a) @ np.abs(b)) + spec.matmul.C.dtype.epsilon * np.abs(expected)
        assert (np.abs(results[0] - expected) <= room).all()
    for again in results[1:] if repeats or exact else ():
        np.testing.assert_array_equal(again, results[0])


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "bound"])
@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_plans(plan, size, exact):
    *sides, k = size
    spec = matmul(*sides, k if plan.ways < 8 else 4104, "bf16", layout="TN")  # each block of a cluster has some of K
    check(spec, hopper.gemm(spec, plan), exact)


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "bound"])
@pytest.mark.parametrize("plan", SHARED, ids=str)
def test_shares(plan, exact):
    spec = matmul(136, 72, 24640, "bf16", layout="TN")
    check(spec, hopper.gemm(spec, plan), exact)


@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("plan", [Plan(m=64, n=64, consumers=1, ways=3), Plan(m=128, n=128, stream=True)], ids=str)
def test_layouts(plan, dtype, layout):
    spec = matmul(1000, 520, 1544, dtype, layout=layout)
    check(spec, hopper.gemm(spec, plan))


@pytest.mark.parametrize(
    "plan",
    [
        Plan(m=128, n=128, ways=3),
        Plan(m=128, n=128, stream=True),
        Plan(m=128, n=128, ways=4, through="cluster"),
    ],
    ids=str,
)
def test_integers(plan):
    spec = matmul(640, 384, 2048, "i8", layout="TN")
    check(spec, hopper.gemm(spec, plan), exact=True)


@pytest.mark.parametrize("weights", [(4096, 4096), (6144, 4096), (4096, 14336)], ids=str)
@pytest.mark.parametrize("rows", [1, 16, 64, 128])
def test_few_rows(rows, weights):
    n, k = weights
    spec = matmul(rows, n, k, "bf16", layout="TN")
    width = max(8, rows)
    for plan in (
        None,
        Plan(m=64, n=width, consumers=1, ways=2),
        Plan(m=128, n=width, consumers=2, ways=4),
        Plan(m=64, n=width, consumers=1, ways=4, through="cluster"),
        Plan(m=128, n=width, consumers=2, ways=8, through="cluster"),
        Plan(m=64, n=width, consumers=1, panels=2, stream=True),
        Plan(m=64, n=width, consumers=1, stream=True),
    ):
        check(spec, hopper.skinny(spec, plan))


def test_the_models_own_choice():
    for size in ((128, 128, 16384), (512, 512, 8192), (2176, 2176, 1024), (16, 4096, 4096)):
        spec = matmul(*size, "bf16", layout="TN")
        check(spec, hopper.gemm(spec))


def test_atomics_then_ops():
    spec = matmul(520, 264, 2048, "bf16", layout="TN")
    schedule = (
        spec.tile(64, 128).to(Block).persistent().epilog(relu, memory=FR)
        .split(ways=5, multiple_of=64).parallel(Block, reduce=by_atomics())
        .split(64).pipeline(4, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    check(spec, schedule, repeats=False, f=lambda x: np.maximum(x, 0))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("ways", [1, 3, 8])
def test_bulk_stores_add_to_c(ways, dtype):
    spec = matmul(264, 328, 2048, dtype, layout="TN", beta=1.0)
    schedule = (
        spec.tile(64, 64).to(Block).persistent()
        .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup))
        .split(ways=ways, multiple_of=64).parallel(Block, reduce=by_tma())
        .split(64).pipeline(4, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 64).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    verified(schedule, kernel=schedule.compile(), kinds=("exact",))
    arrays = drawn(schedule, exact=True)
    a, b = operands(spec, arrays)
    old = np.random.default_rng(4).integers(-50, 50, arrays["C"].shape)
    got = schedule.compile()(arrays["A"], arrays["B"], out=old.astype(arrays["C"].dtype))
    np.testing.assert_array_equal(np.array(got).astype("f8"), a @ b + old)


@pytest.mark.parametrize("units", [1, 7, 40, 132])
def test_any_number_of_units_shares_the_work(units):
    spec = matmul(520, 776, 1024, "bf16", layout="TN")
    schedule = (
        spec.tile(64, 128).to(Block).persistent(share=stream_k(units)).epilog(memory=FR)
        .split(64).pipeline(4, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    check(spec, schedule)


@pytest.mark.parametrize("plan", [Plan(m=128, n=64, ways=3), Plan(m=128, n=64, stream=True)], ids=str)
def test_workspaces_serve_streams_and_graphs(plan):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec = matmul(640, 640, 2048, "bf16", layout="TN")
    kernel = hopper.gemm(spec, plan).compile()
    a = torch.randint(-1, 2, (640, 2048), device="cuda").bfloat16()
    b = torch.randint(-1, 2, (640, 2048), device="cuda").bfloat16()
    expected = (a.double() @ b.double().t()).bfloat16()
    streams, outs = [torch.cuda.Stream() for _ in range(3)], []
    torch.cuda.synchronize()
    for i in range(30):
        with torch.cuda.stream(streams[i % 3]):
            out = torch.empty(640, 640, device="cuda", dtype=torch.bfloat16)
            kernel(a, b, out=out, stream=streams[i % 3].cuda_stream)
            outs.append(out)
    torch.cuda.synchronize()
    assert all(torch.equal(out, expected) for out in outs)
    out, graph = torch.zeros(640, 640, device="cuda", dtype=torch.bfloat16), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, out=out, stream=torch.cuda.current_stream().cuda_stream)
    for _ in range(5):
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, expected)


@pytest.mark.parametrize("plan", [Plan(m=128, n=64, ways=3), Plan(m=128, n=64, stream=True)], ids=str)
def test_a_graph_outlives_the_kernel_that_it_captured(plan):
    """The memory of the sums stays; else other arrays would lie there, and a replay would write into them."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec = matmul(640, 640, 2048, "bf16", layout="TN")
    kernel = hopper.gemm(spec, plan).compile()
    a = torch.randint(-1, 2, (640, 2048), device="cuda").bfloat16()
    b = torch.randint(-1, 2, (640, 2048), device="cuda").bfloat16()
    expected = (a.double() @ b.double().t()).bfloat16()
    kernel(a, b)
    out, graph = torch.zeros(640, 640, device="cuda", dtype=torch.bfloat16), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, out=out)
    del kernel
    gc.collect()
    others = [hopper.gemm(spec, attrs.evolve(plan, m=64, n=n, consumers=1)).compile() for n in (32, 64, 96)]
    found = [other(a, b) for other in others]  # their memory may lie where that of the first was
    for _ in range(5):
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, expected)
    assert all(torch.equal(one, expected) for one in (*found, *(other(a, b) for other in others)))


def test_a_plan_is_its_degrees_of_freedom():
    spec = matmul(512, 512, 4096, "bf16", layout="TN")
    split = hopper.split_k(spec, Plan(m=128, n=128, ways=8))
    streamed = hopper.stream_k(spec, attrs.evolve(Plan(m=128, n=128), stages=3))
    check(spec, split, exact=True)
    check(spec, streamed, exact=True)
