"""`epilog(behind=True)`: ops run behind the exchange in shared memory, where a thread holds neighbours of a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    MatMul,
    Matrix,
    Thread,
    Vector,
    Warp,
    add,
    dropout,
    gelu,
    ldmatrix,
    matmul,
    maximum,
    relu,
    scale,
    staged,
    symbol,
    through_shared,
)
from fireiron.kernel.analysis.access import accesses
from fireiron.schedules import volta

SMALL: dict[str, Any] = {"m": 64, "n": 64, "k": 32, "warp": (32, 32), "behind": True}
EXCHANGE = through_shared(pad=4, order=None, dtype="f32")


def held(schedule: Any, **sizes: Any) -> None:
    found = schedule.simulate(**sizes).comparison
    assert found is not None
    assert found.passed, str(found)


def ops(m: Any, n: Any, order: Any = None) -> tuple[Any, ...]:
    full = Matrix(m, n, "f16", name="w") if order is None else Matrix(m, n, "f16", order, name="w")
    return scale(full), add(Vector(n, "f16", name="bias")), relu


def blocks(spec: Any, *its: Any, **options: Any) -> Any:
    """Give a block 32x32 elements, which CUDA cores compute."""
    chain = (
        spec.tile(32, 32, batch=spec.batch).to(Block).epilog(*its, memory=RF, store=EXCHANGE, behind=True, **options)
    )
    chain = chain.split(8).pipeline(2).load(A, SH, staged()).load(B, SH, staged())
    chain = chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def test_a_thread_works_on_8_neighbours(golden: Callable[[str, str], None]) -> None:
    schedule = volta.gemm(matmul(64, 64, 32, "f16", layout="TN").then(*ops(64, 64)), **SMALL)
    held(schedule)
    text = schedule.cuda("sm_70")
    assert re.findall(r"(copy_\w+)\(&(?:w|bias)_vec\[0\]", text) == ["copy_16B", "copy_16B"]
    assert re.findall(r"(copy_\w+)\(&C\[", text) == ["copy_16B"]
    assert {row.conflicts for row in accesses(schedule.lowered("sm_70")) if row.buffer == "acc_sh"} == {1.0}
    golden(text, "kernel/ops_behind.cu")


@pytest.mark.parametrize("acc", ["f32", "f16"])
@pytest.mark.parametrize("out", ["f16", "f32"])
@pytest.mark.parametrize(("size", "ways"), [((64, 64), 2), ((61, 44), 1), ((61, 45), 1)])
def test_types_and_ragged_sizes(acc: str, out: str, size: tuple[int, int], ways: int) -> None:
    spec = matmul(*size, 64, "f16", layout="TN", out=out, acc=acc).then(*ops(*size))
    held(volta.gemm(spec, ways=ways, **SMALL))


def test_sums_are_not_rounded_ahead_of_the_ops() -> None:
    """1 + 2^-11 in f32 would be 1 in f16, of which nothing is left behind the subtraction."""
    import numpy as np

    spec = matmul(64, 64, 16, "f16", layout="TN").then(lambda x: (x - 1) * 2048)
    a, b = np.zeros((64, 16), np.float16), np.zeros((64, 16), np.float16)  # columns of B are contiguous
    a[:, 0], a[:, 1], b[:, :2] = 1, 2.0**-11, 1
    assert (volta.gemm(spec, **SMALL).simulate(a, b).out == 1).all()


@pytest.mark.parametrize("size", [(64, 64, 32), (45, 36, 20), (45, 37, 19)])
def test_cuda_cores(size: tuple[int, int, int]) -> None:
    m, n, _ = size
    held(blocks(matmul(*size), *ops(m, n)))
    held(blocks(matmul(*size), *ops(m, n, ColMajor), gelu, dropout(Matrix(m, n, "u8", name="mask"), 0.5)))
    held(blocks(matmul(*size).swap(), *ops(m, n)))
    held(blocks(matmul(*size, batch=2), *ops(m, n)))
    held(blocks(matmul(*size), add(Vector(n, name="bias")), relu, addends=True))
    spec = MatMul(Matrix(m, size[2]), Matrix(size[2], n), Matrix(m, n, "f16", ColMajor), alpha=0.5, beta=2.0)
    held(blocks(spec, relu))


def test_symbols_and_fragments() -> None:
    m, n = symbol("M", multiple_of=8), symbol("N", multiple_of=8)
    spec = matmul(m, n, 32, "f16", layout="TN").then(*ops(m, n), lambda x: maximum(x, 0.5))
    chain = spec.tile(64, 64).to(Block).epilog(memory=FR, store=through_shared(dtype="f32", reuse=True), behind=True)
    chain = chain.split(32).load(A, SH, staged()).pad(8).load(B, SH, staged()).pad(8).tile(32, 32).to(Warp).split(16)
    chain = chain.unroll().load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll()
    held(chain.done(), M=72, N=40)
