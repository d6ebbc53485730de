"""K split over warps and blocks on the GPU: right, the same bits in every run, in graphs, on streams side by side."""

from __future__ import annotations

import numpy as np
import pytest
from verified import verified

from fireiron import RF, SH, A, B, Block, Group, Thread, Warp, by_atomics, matmul, relu, scale, staged, symbol
from fireiron.jit.interface import Interface
from fireiron.schedules import ampere, simt
from fireiron.verify.random_data import random_arrays


def compared(schedule, seed=1, **sizes):
    """Run a finished schedule on whole numbers, then on random ones, compare with f64, and return these."""
    kinds = schedule.matmul
    arrays = random_arrays(Interface.of(schedule.lowered()), sizes, seed=seed)
    a, b = (
        x if t.storage == tuple(range(len(t.shape))) else x.swapaxes(-1, -2)
        for t, x in ((t, arrays[t.name].astype("f8")) for t in (kinds.A, kinds.B))
    )
    kernel = schedule.compile()
    verified(schedule, kernel=kernel, kinds=("exact",), **sizes)
    got = np.array(kernel(arrays["A"], arrays["B"], out=arrays["C"]))
    room = (a.shape[-1] + 4) * kinds.accumulator.epsilon * (np.abs(a) @ np.abs(b))
    room = room + kinds.C.dtype.epsilon * np.abs(a @ b)
    assert (np.abs(got.astype("f8") - a @ b) <= room).all()
    return got


def over_blocks(spec, ways, reduce=None, *ops):
    return (
        spec.tile(64, 64).to(Block).epilog(*ops, memory=RF)
        .split(ways=ways, multiple_of=8).parallel(Block, reduce=reduce)
        .split(8).pipeline(2).load(A, SH, staged()).load(B, SH, staged())
        .tile(32, 32).to(Warp).tile(8, 4).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def over_lanes(spec, ways, level, outer, own):
    return (
        spec.tile(8, 8).to(Block).epilog(relu, memory=RF).split(64)
        .tile(2, 8).to(outer).split(ways=ways).parallel(level).tile(*own).to(Thread)
        .split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize(
    ("ways", "level", "outer"), [(16, Group(Thread, 2), Warp), (4, Group(Thread, 2), Group(Thread, 8))], ids=str
)
def test_lanes(dtype, ways, level, outer):
    for shape in ((64, 72, 512), (61, 45, 333)):
        verified(over_lanes(matmul(*shape, dtype), ways, level, outer, (1, 8)), repeats=3)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("ways", "split_k"), [(2, 1), (4, 1), (1, 3), (2, 4)])
def test_ampere(layout, ways, split_k):
    small = {"m": 64, "n": 64, "warp": (32, 32), "stages": 3}
    for shape in ((256, 384, 1024), (130, 76, 520), (61, 45, 33)):
        compared(ampere.gemm(matmul(*shape, "f16", layout=layout), ways=ways, split_k=split_k, **small))


@pytest.mark.parametrize(("ways", "split_k"), [(2, 1), (4, 1), (8, 1), (1, 4), (2, 3)])
def test_ampere_as_it_comes(ways, split_k):
    # Flowing fragments, the sums of the ways and whole lines over the dead ring.
    for layout, shape in (("TN", (512, 768, 4096)), ("NN", (300, 264, 1000)), ("TN", (128, 256, 8))):
        schedule = ampere.gemm(matmul(*shape, "f16", layout=layout), ways=ways, split_k=split_k)
        first = compared(schedule)
        assert all((compared(schedule) == first).all() for _ in range(3))


def test_ampere_scales_and_saturates_the_whole_sum():
    spec = matmul(256, 384, 2048, "i8", layout="TN", out="i8")
    one, split = (ampere.gemm(spec, ops=(scale(0.05),), **more) for more in ({}, {"ways": 2, "split_k": 3}))
    arrays = random_arrays(Interface.of(one.lowered()), {}, seed=3)
    first, second = (np.array(s.compile()(arrays["A"], arrays["B"], out=arrays["C"].copy())) for s in (one, split))
    assert (first == second).all()
    assert len(np.unique(first)) > 20


@pytest.mark.parametrize("dtype", ["bf16", "i8", "f64"])
def test_ampere_dtypes(dtype):
    compared(ampere.gemm(matmul(192, 136, 520, dtype), ways=2, split_k=2))


@pytest.mark.parametrize(("ways", "split_k"), [(2, 1), (1, 4), (2, 3)])
def test_sgemm(ways, split_k):
    for shape in ((512, 384, 1000), (130, 76, 50)):
        compared(simt.sgemm(matmul(*shape), ways=ways, split_k=split_k))


@pytest.mark.parametrize("reduce", [None, by_atomics()], ids=["in order", "by atomics"])
@pytest.mark.parametrize("ways", [2, 5, 16])
def test_many_blocks(ways, reduce):
    # More blocks than fit at once: none may wait for another.
    compared(over_blocks(matmul(1024, 960, 700), ways, reduce))
    compared(over_blocks(matmul(symbol("M"), symbol("N"), symbol("K")), ways, reduce), M=129, N=70, K=333)


@pytest.mark.parametrize("reduce", [None, by_atomics()], ids=["in order", "by atomics"])
def test_the_workspace_serves_call_after_call(reduce):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = over_blocks(matmul(symbol("M"), 128, 512), 4, reduce, relu).compile()
    b = torch.randn(512, 128, device="cuda")
    for m in (64, 512, 64, 1024, 1):  # grows in between
        a = torch.randn(m, 512, device="cuda")
        out = torch.empty(m, 128, device="cuda")
        for _ in range(20):
            out.fill_(float("nan"))
            kernel(a, b, out=out)
            torch.testing.assert_close(out.double(), (a.double() @ b.double()).relu(), rtol=0, atol=1e-3)


def test_the_same_bits_in_every_run():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = over_blocks(matmul(512, 512, 2048), 7).compile()
    a, b = torch.randn(512, 2048, device="cuda"), torch.randn(2048, 512, device="cuda")
    first = kernel(a, b)
    for _ in range(200):
        assert torch.equal(kernel(a, b), first)


@pytest.mark.parametrize("reduce", [None, by_atomics()], ids=["in order", "by atomics"])
@pytest.mark.parametrize("warm", [True, False])
def test_a_graph_holds_it(reduce, warm):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = over_blocks(matmul(256, 256, 1024), 4, reduce).compile()
    a, b = torch.randn(256, 1024, device="cuda"), torch.randn(1024, 256, device="cuda")
    out = torch.empty(256, 256, device="cuda")
    if warm:
        kernel(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, out=out)
    for _ in range(50):
        a.normal_()
        out.zero_()
        graph.replay()
        torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=0, atol=2e-3)


def test_streams_side_by_side():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = over_blocks(matmul(256, 256, 1024), 8).compile()
    streams = [torch.cuda.Stream() for _ in range(4)]
    pairs = [(torch.randn(256, 1024, device="cuda"), torch.randn(1024, 256, device="cuda")) for _ in streams]
    outs = [torch.empty(256, 256, device="cuda") for _ in streams]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, (a, b), out in zip(streams, pairs, outs, strict=True):
            with torch.cuda.stream(stream):
                kernel(a, b, out=out)
    torch.cuda.synchronize()
    for (a, b), out in zip(pairs, outs, strict=True):
        torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=0, atol=2e-3)


def test_tall_k_gains():
    # Four tiles cannot fill a GPU; a part of K for each of eight times as many blocks can.
    spec = matmul(256, 256, 16384, "f16", layout="TN")
    one, eight = (ampere.gemm(spec, split_k=n).time().median_us for n in (1, 8))
    assert eight < one / 2
