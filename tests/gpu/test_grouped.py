"""Products in batches and in groups of rows on the GPU: right in every layout, rows of other groups left alone."""

from __future__ import annotations

import numpy as np
import pytest
from verified import verified

from fireiron import ColMajor, MatMul, Matrix, RowMajor, matmul, symbol
from fireiron.jit.bind import concrete
from fireiron.jit.interface import Interface
from fireiron.schedules import ampere, hopper, simt
from fireiron.schedules.hopper import Plan

LAYOUTS = ("NN", "NT", "TN", "TT")
# Empty groups first, in the middle and last; a single row; one more and one fewer than tiles; rows behind the last.
ENDS = (0, 0, 1, 128, 257, 257, 512, 704, 1000, 1900, 1900)
PLANS = (
    Plan(128, 256),
    Plan(256, 128),
    Plan(192, 128, consumers=3),
    Plan(64, 256, consumers=1),
    Plan(128, 192, pingpong=True),
    Plan(128, 256, cluster=(2, 1)),
    Plan(128, 128, pingpong=True, swapped=True, cluster=(2, 1)),
    Plan(256, 128, swapped=True),
)


@pytest.fixture
def on_hopper():
    from fireiron.jit.driver import driver

    if driver().compute_capability(0) != 90:
        pytest.skip("this GPU has no wgmma")


def checked(schedule, ends=None, **sizes):
    """Run twice on data of each kind, and compare; rows of no group keep what they held."""
    spec, given = schedule.matmul, {}
    if ends is not None:
        pointers = {p.name: p for p in Interface.of(schedule.lowered()).pointers}
        held = np.empty(concrete(pointers["C"].shape, sizes), spec.C.dtype.numpy)
        held[...] = (np.arange(held.size) % 7).reshape(held.shape)
        given = {"offsets": np.array(ends, np.int32), "C": held}
    verified(schedule, kernel=schedule.compile(), given=given, seed=3, repeats=2, **sizes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_on_cuda_cores(layout):
    checked(simt.sgemm(matmul(1950, 200, 72, groups=len(ENDS), layout=layout)), ENDS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "i8"])
def test_groups_by_mma(layout, dtype):
    checked(ampere.gemm(matmul(1950, 264, 160, dtype, groups=len(ENDS), layout=layout)), ENDS)


def test_groups_share_out_k_too():
    checked(ampere.gemm(matmul(1950, 264, 1024, "f16", groups=len(ENDS)), ways=2, split_k=3), ENDS)


def test_groups_of_any_size():
    sizes = (symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=8))
    schedule = ampere.gemm(matmul(*sizes, "f16", layout="TN", groups=symbol("G")))
    checked(schedule, ENDS, M=1900, N=136, K=72, G=len(ENDS))
    checked(schedule, (1,), M=1, N=8, K=8, G=1)
    checked(schedule, (0, 0), M=5, N=8, K=8, G=2)


@pytest.mark.usefixtures("on_hopper")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_groups_on_hopper(plan, layout):
    for size in ((1950, 512, 384), (1907, 264, 200)):
        checked(hopper.gemm(matmul(*size, "bf16", layout=layout, groups=len(ENDS)), plan), ENDS)


@pytest.mark.usefixtures("on_hopper")
@pytest.mark.parametrize(
    ("dtype", "out"), [("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("i8", "i32"), ("e4m3", "f32")]
)
def test_groups_of_other_types_on_hopper(dtype, out):
    checked(hopper.gemm(matmul(1950, 512, 384, dtype, out=out, layout="TN", groups=len(ENDS)), Plan(128, 128)), ENDS)


@pytest.mark.usefixtures("on_hopper")
@pytest.mark.parametrize("seed", range(8))
def test_many_ragged_groups(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 200, 64) * (rng.random(64) < 0.8)
    ends = np.cumsum(counts)
    rows = int(ends[-1]) + seed
    for plan in (None, *PLANS[:5]):
        checked(hopper.gemm(matmul(rows, 256, 512, "bf16", layout="TN", groups=64), plan), tuple(ends))


@pytest.mark.usefixtures("on_hopper")
def test_more_groups_than_tiles_and_fewer():
    checked(
        hopper.gemm(matmul(40, 256, 128, "bf16", layout="TN", groups=300), Plan(128, 256)), (*range(40), *(40,) * 260)
    )
    checked(hopper.gemm(matmul(4000, 256, 128, "bf16", layout="TN", groups=1), Plan(128, 256)), (3999,))
    checked(hopper.gemm(matmul(40, 256, 128, "bf16", layout="TN", groups=5), Plan(128, 256)), (0,) * 5)


def test_ends_that_go_back_or_beyond_stay_within_the_arrays():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = simt.sgemm(matmul(300, 64, 32, groups=4)).compile()
    a, b = torch.randn(300, 32, device="cuda"), torch.randn(4, 32, 64, device="cuda")
    room = torch.full((1000, 64), 7.0, device="cuda")
    ends = torch.tensor([100, 50, 2**31 - 1, -5], dtype=torch.int32, device="cuda")
    kernel(a, b, ends, out=room[:300])
    expected = torch.cat([a[:100] @ b[0], a[100:] @ b[2]])  # the second and the last are empty
    torch.testing.assert_close(room[:300], expected, rtol=1e-4, atol=1e-3)
    assert (room[300:] == 7).all()


@pytest.mark.usefixtures("on_hopper")
def test_a_graph_replays_with_other_ends():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = hopper.gemm(matmul(1000, 256, 256, "bf16", layout="TN", groups=4), Plan(128, 256)).compile()
    a = torch.randn(1000, 256, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(4, 256, 256, device="cuda", dtype=torch.bfloat16)
    ends, out = torch.zeros(4, dtype=torch.int32, device="cuda"), torch.empty(1000, 256, device="cuda", dtype=a.dtype)
    kernel(a, b, ends, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, ends, out=out)
    for counts in ((250, 250, 250, 250), (1, 0, 999, 0), (300, 400, 3, 297)):
        ends.copy_(torch.cumsum(torch.tensor(counts), 0))
        out.zero_()
        graph.replay()
        expected = torch.cat([x.float() @ w.float().T for x, w in zip(a.split(counts), b, strict=True)])
        torch.testing.assert_close(out.float(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_with_room_between(layout):
    a = Matrix(200, 72, "f16", ColMajor if layout[1] == "T" else RowMajor, batch=3, batch_stride=20000)
    b = Matrix(72, 136, "f16", ColMajor if layout[0] == "T" else RowMajor, batch=3, ld=208, batch_stride=32768)
    checked(ampere.gemm(MatMul(a, b, Matrix(200, 136, "f16", batch=3, batch_stride=32768))))


@pytest.mark.usefixtures("on_hopper")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_batches_on_hopper(plan, layout):
    for size in ((512, 512, 384), (1000, 264, 200)):
        checked(hopper.gemm(matmul(*size, "bf16", layout=layout, batch=7), plan))


@pytest.mark.usefixtures("on_hopper")
def test_batches_with_room_between_on_hopper():
    a = Matrix(200, 72, "bf16", batch=3, batch_stride=20000)
    b = Matrix(72, 136, "bf16", ColMajor, batch=3, ld=208, batch_stride=32768)
    checked(hopper.gemm(MatMul(a, b, Matrix(200, 136, "bf16", batch=3, batch_stride=32768)), Plan(128, 64)))
