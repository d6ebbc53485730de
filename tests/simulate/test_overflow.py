"""Integer sums wrap on every path: tensor cores, CUDA cores, and the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import FR, RF, SH, A, B, Block, Thread, Warp, Warpgroup, matmul, tma
from fireiron.algebra.dtypes import i32
from fireiron.atoms.table import TABLE
from fireiron.base.errors import SimulationError
from fireiron.schedules import ampere, simt
from fireiron.verify.reference import reference

NEAR = 2**31 - 1000  # sums start here, so that few products carry them beyond 32 bits
INTEGERS = [row for row in TABLE if row.kind == "MatMul" and row.operand("C").dtype == i32]


def warps(atom: tuple[int, int, int]) -> Any:
    m, n, k = atom
    chain = matmul(16, 16, 64, "i8", layout="TN").tile(16, 16).to(Block).epilog(memory=FR, init=NEAR).split(k)
    return chain.tile(16, 16).to(Warp).load(A, FR).load(B, FR).tile(m, n).unroll().done()


def warpgroups() -> Any:
    chain = matmul(64, 64, 128, "i8", layout="TN", arch="sm_90").tile(64, 64).to(Block).epilog(memory=FR, init=NEAR)
    chain = chain.split(128).specialize().load(A, SH, tma()).load(B, SH, tma())
    return chain.tile(64, 64).to(Warpgroup).split(32).unroll().done()


def threads() -> Any:
    chain = matmul(16, 16, 64, "i8", layout="TN").tile(16, 16).to(Block).epilog(memory=RF, init=NEAR).split(8)
    chain = chain.load(A, SH).load(B, SH).tile(4, 4).to(Thread).split(4).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


PATHS: dict[str, Callable[[], Any]] = {
    "mma.m16n8k32": lambda: warps((16, 8, 32)),
    "mma.m8n8k16": lambda: warps((8, 8, 16)),
    "wgmma": warpgroups,
    "CUDA cores": threads,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_wrap(path: str, sign: int) -> None:
    schedule = PATHS[path]()
    (_, m), (_, n), (_, k) = schedule.matmul.sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 128, (m, k)).astype(np.int8), rng.integers(0, 128, (k, n)).astype(np.int8)
    a *= np.int8(sign)
    given = a, np.ascontiguousarray(b.T)
    out = schedule.simulate(*given).out
    total = NEAR + a.astype(np.int64) @ b.astype(np.int64)
    assert (total > np.iinfo(np.int32).max).any() == (sign > 0)
    np.testing.assert_array_equal(out, total.astype(np.int32))
    if sign < 0:
        np.testing.assert_array_equal(schedule.simulate(*given, overflow="error").out, out)
        return
    with pytest.raises(SimulationError) as caught:
        schedule.simulate(*given, overflow="error")
    assert caught.value.code == "integer-overflow"
    assert caught.value.link is not None


def test_products_and_ops_of_i32_are_found() -> None:
    a, b = np.full((16, 4), 2**15, np.int32), np.full((4, 16), 2**14, np.int32)
    product, scaled = simt.sgemm(matmul(16, 16, 4, "i32")), matmul(16, 16, 4, "i32").then(lambda acc: acc * 2**29)
    for schedule, left, right in ((product, a, b), (simt.sgemm(scaled), a // 2**15, b // 2**14)):
        schedule.simulate(left - left, right, overflow="error")
        with pytest.raises(SimulationError, match="does not fit into 32 bits"):
            schedule.simulate(left, right, overflow="error")


def test_sums_of_microkernels_are_found() -> None:
    spec = matmul(1, 1, 2**17, "i8", layout="TN")
    dot = simt.listing1(spec).links[-1].atom
    schedule = spec.tile(1, 1).to(Block).tile(1, 1).to(Thread).done(dot)  # one thread: the simulator holds all it reads
    a = np.full((1, 2**17), -128, np.int8)
    assert schedule.simulate(a, a.copy()).out[0, 0] == np.int64(2**31).astype(np.int32)
    with pytest.raises(SimulationError, match="2147483648 does not fit into 32 bits"):
        schedule.simulate(a, a.copy(), overflow="error")
    assert schedule.simulate(a, a * 0, overflow="error").out[0, 0] == 0


def test_the_reference_wraps() -> None:
    schedule = ampere.gemm(matmul(16, 16, 2**17, "i8", layout="TN", arch="sm_80"))
    low = {"A": np.full((16, 2**17), -128, np.int8), "B": np.full((16, 2**17), -128, np.int8)}
    expected = reference(schedule, {**low, "C": np.zeros((16, 16), np.int32)}, {})
    assert (expected.value == -(2**31)).all()
    assert (expected.error == 0).all()


@pytest.mark.parametrize("row", INTEGERS, ids=lambda row: row.name)
def test_no_row_asks_for_saturation(row: Any) -> None:
    assert "satfinite" not in row.cuda
    assert ".sat" not in row.cuda
