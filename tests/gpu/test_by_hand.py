"""On the GPU: operands that lie in memory, Moves by hand, packed elements, reads of other lanes, folds by Reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiling import compiled
from verified import verified

import fireiron as fi
from fireiron import FR, RF, SH, A, B, Block, Matrix, Reduction, Thread, Vector, Warp, by_hand, matmul, vector
from fireiron.schedules import pointwise, reductions, rows


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16"])
def test_all_operands_in_global_memory(gpu: int, dtype: str) -> None:
    spec = matmul(100, 90, 40, dtype, acc=dtype)
    verified(spec.tile(32, 32).to(Block).tile(4, 4).to(Thread).tile(1, 1).split(1).done())


def columns(src: Any, dst: Any, warp: Any) -> Any:
    groups = warp.tile(8).reshape(0, (2, 2))
    (gm, gn), lane = groups.indices()
    return src.tile(8, 8)[gn, gm].tile(8, 1)[0, lane], dst.tile(1, 2), groups


def test_moves_by_hand(gpu: int) -> None:
    chain = matmul(128, 128, 64, "f16", layout="TN").tile(32, 32).to(Block).epilog(memory=FR).split(32)
    chain = chain.load(A, SH).load(B, SH).tile(16, 16).to(Warp).split(16).unroll().load(A, FR)
    verified(chain.load(B, FR, by_hand(columns, held=(2, 4))).tile(16, 8).unroll().done())


@fi.program(x="m n", scale="m")
def scaled(x: Any, scale: Any) -> Any:
    return x * scale


@pytest.mark.parametrize("dtype", ["i4", "u4", "b1"])
def test_elements_that_share_a_byte(gpu: int, dtype: str) -> None:
    x = Matrix(77, 2048, dtype, name="x")
    verified(pointwise.pointwise(scaled(x, Vector(77, "f16", name="scale"), out="f32")))
    verified(rows.row(Reduction("add", x, Vector(77, "i32", name="y"))))
    verified(reductions.reduction(Reduction("add", Matrix(3, 65536, dtype, name="x"), Vector(3, "i32", name="y"))))


@fi.program(x="m n")
def turned(x: Any, size: int, by: int) -> Any:
    n = fi.index("n")
    s = (x * x).named("s")
    return s - s[:, n // size * size + (n + by) % size]


@pytest.mark.parametrize(("size", "by"), [(2, 1), (8, 3), (32, 5)])
def test_results_that_lanes_pass_on(gpu: int, size: int, by: int) -> None:
    chain = turned(Matrix(61, 256, name="x"), size, by).tile(m=4).to(Block).tile(m=1).to(Warp)
    verified(chain.load("x", RF, vector(4)).epilog(memory=RF).done())


def test_what_is_no_number_is_found_first(gpu: int) -> None:
    x = np.random.default_rng(0).standard_normal((16, 4000)).astype(np.float32)
    x[3, [7, 3999]], x[5], x[6, 40] = np.nan, -np.inf, np.inf
    values, columns = np.zeros((16, 4), np.float32), np.zeros((16, 4), np.int32)
    compiled(rows.row(rows.top(Matrix(16, 4000, name="x"), 4, out=("f32", "i32"))))(x, out=(values, columns))
    wanted = np.sort(np.where(np.isnan(x), np.inf, x), 1)[:, ::-1][:, :4]
    np.testing.assert_array_equal(np.where(np.isnan(values), np.inf, values), wanted)
    np.testing.assert_array_equal(np.take_along_axis(x, columns, 1), values)
    most = np.zeros(16, np.int32)
    compiled(rows.row(Reduction(fi.argmax, Matrix(16, 4000, name="x"), Vector(16, "i32", name="y"))))(x, out=most)
    np.testing.assert_array_equal(most, x.argmax(1))
