"""Dependent launches on the GPU: chains of kernels of which each reads what the one before writes, over and over."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, Swizzle, Warp, conform, cp_async, ldmatrix, matmul
from fireiron.jit.driver import driver
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan

SIZE = 512
PLANS = [
    Plan(m=128, n=64, dependent=True),
    Plan(m=128, n=128, pingpong=True, dependent=True),
    Plan(m=128, n=64, cluster=(2, 1), dependent=True),
    Plan(m=64, n=64, consumers=1, ways=4, dependent=True),
    Plan(m=64, n=64, consumers=1, ways=4, through="cluster", dependent=True),
    Plan(m=64, n=64, consumers=1, stream=True, dependent=True),
]


@pytest.fixture(autouse=True)
def _on_hopper():
    if driver().compute_capability(0) != 90:
        pytest.skip("the presets run on Hopper alone")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def plain():
    return (
        matmul(SIZE, SIZE, SIZE, "bf16", layout="TN").tile(64, 64).to(Block).dependent()
        .epilog(memory=FR, store=conform(4)).split(32).pipeline(3)
        .load(A, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3)).load(B, SH, cp_async(16)).swizzle(Swizzle(2, 3, 3))
        .tile(32, 32).to(Warp).split(16).unroll()
        .load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()
    )  # fmt: skip


def made(plan):
    return plain() if plan is None else hopper.gemm(matmul(SIZE, SIZE, SIZE, "bf16", layout="TN"), plan)


def rotation(torch):
    """Give the second operand of a product that moves the columns of its first one on by one: exact."""
    return torch.roll(torch.eye(SIZE, device="cuda", dtype=torch.bfloat16), 1, 0)


@pytest.mark.parametrize("plan", [None, *PLANS], ids=str)
def test_each_reads_what_the_one_before_wrote(torch, plan):
    kernel = made(plan).compile()
    assert kernel.interface.dependent
    shift = rotation(torch)
    first = torch.randint(-100, 100, (SIZE, SIZE), device="cuda").bfloat16()
    buffers, stream = [first.clone(), torch.empty_like(first)], torch.cuda.Stream()
    torch.cuda.synchronize()
    steps = 200
    for i in range(steps):  # A of a launch is C of the one before; its C is what that one still reads
        kernel(buffers[i % 2], shift, out=buffers[1 - i % 2], stream=stream.cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(buffers[steps % 2], torch.roll(first, steps, 1))


def test_among_launches_that_are_none(torch):
    dependent, other = made(PLANS[0]).compile(), made(Plan(m=128, n=64)).compile()
    a = torch.randint(-3, 4, (SIZE, SIZE), device="cuda").bfloat16()
    shift = rotation(torch)
    x, y, z = (torch.empty_like(a) for _ in range(3))
    for i in range(50):
        x.fill_(i)  # what torch writes is read, and what is read torch writes again
        x.add_(a)
        dependent(x, shift, out=y)
        other(y, shift, out=z)
        dependent(z, shift, out=x)
        want = (a + i).double() @ shift.double().t() @ shift.double().t() @ shift.double().t()
        assert torch.equal(x.double(), want)


def test_in_a_graph(torch):
    kernel = made(PLANS[0]).compile()
    shift = rotation(torch)
    first = torch.randint(-100, 100, (SIZE, SIZE), device="cuda").bfloat16()
    a, b = first.clone(), torch.empty_like(first)
    kernel(a, shift, out=b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        for _ in range(4):
            kernel(a, shift, out=b, stream=stream)
            kernel(b, shift, out=a, stream=stream)
    a.copy_(first)
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(a, torch.roll(first, 40, 1))


def test_numpy_arrays():
    rng = np.random.default_rng(0)
    schedule = made(PLANS[0])
    a, b = (rng.integers(-2, 3, (SIZE, SIZE)).astype(schedule.matmul.A.dtype.numpy) for _ in range(2))
    got = np.array(schedule.compile()(a, b)).astype("f8")
    np.testing.assert_array_equal(got, (a.astype("f8") @ b.astype("f8").T).astype(a.dtype).astype("f8"))
