"""Strided tiles above loads, epilogs and ops: every access finds its chunks, or the chain is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    Layout,
    Matrix,
    Strided,
    Thread,
    Vector,
    Warp,
    add,
    ldmatrix,
    matmul,
    relu,
    row_sum,
    scale,
    symbol,
    vector,
)

WIDE = Strided((16, 32), (16, 32))
BIAS = Vector(64, "f16", name="bias")
FACTORS = {
    "whole": Matrix(64, 32, "f16", name="factor"),
    "columns": Vector(32, "f16", name="factor"),
    "rows": Matrix(64, 1, "f16", name="factor"),
}
Finish = Callable[[Any], Any]


def tn(m: int, n: int, k: int) -> Any:
    return matmul(m, n, k, "f16", layout="TN", out="f32")


def fragments(chain: Any) -> Any:
    return chain.load(A, FR).load(B, FR).tile(16, 8).unroll().done()


def warps(chain: Any, **load: Any) -> Any:
    return chain.split(16).load(A, SH, **load).load(B, SH, **load).tile(16, 16).to(Warp)


def registers(chain: Any) -> Any:
    return chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()


def staged(chain: Any) -> Any:
    return chain.split(32).load(A, SH).load(B, SH).tile(Strided((16, 32), (32, 32))).to(Warp).split(16).unroll()


def by_ldmatrix(chain: Any) -> Any:
    return chain.load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()


def right(schedule: Any, *extra: Any, make: Callable[..., Any] | None = None) -> None:
    """Compare with NumPy; sums of small integers are exact."""
    rng = np.random.default_rng(0)
    spec = schedule.matmul
    m, n, k = (size for _, size in spec.sizes)
    kind = spec.A.dtype.numpy
    a, b = rng.integers(-3, 4, (m, k)).astype(kind), rng.integers(-3, 4, (k, n)).astype(kind)
    given = b.T.copy() if spec.B.order is ColMajor else b
    result = schedule.simulate(a, given, *extra)
    wide = a.astype(np.float64), b.astype(np.float64)
    expected = wide[0] @ wide[1] if make is None else make(*wide)
    out = result.out[0] if isinstance(result.out, tuple) else result.out
    np.testing.assert_array_equal(out, expected)


LOADS: dict[str, Finish] = {
    "warps, rows": lambda: fragments(
        tn(64, 8, 16).tile(64, 8).to(Block).epilog(memory=FR).split(16).tile(Strided((16, 32), (8, 8))).to(Warp)
    ),
    "warps, columns": lambda: fragments(
        tn(16, 64, 16).tile(16, 64).to(Block).epilog(memory=FR).split(16).tile(Strided((16, 16), (8, 16))).to(Warp)
    ),
    "loops": lambda: fragments(
        tn(64, 8, 16).tile(64, 8).to(Block).tile(64, 8).to(Warp).epilog(memory=FR)
        .split(16).tile(Strided((16, 32), (8, 8))).unroll()
    ),
    "thread registers": lambda: registers(
        matmul(64, 64, 16).tile(64, 64).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
        .tile(Strided((4, 32), (4, 16))).to(Thread)
    ),
    "ldmatrix": lambda: by_ldmatrix(
        staged(matmul(64, 64, 32, "f16").tile(64, 64).to(Block).epilog(memory=FR))
    ),
}  # fmt: skip


def threads(rows: Any, columns: Any, warp: Any = None) -> Any:
    chain: Any = matmul(64, 64, 32).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
    chain = chain if warp is None else chain.tile(*warp).to(Warp)
    return registers(chain.tile(rows, columns).to(Thread))


POSITIONS: dict[str, Finish] = {
    "two runs": lambda: threads(Layout((2, 2), (1, 16)), Layout((2, 2), (1, 8))),
    "three strides": lambda: threads(Layout((2, 2, 2), (1, 4, 16)), 4),
    "nested": lambda: threads(Layout(((2, 2), 2), ((1, 4), 16)), 4),
    "another order": lambda: threads(Layout((2, 2), (16, 1)), Layout((2, 2), (8, 1))),
    "a tile of a tile": lambda: threads(Layout(2, 2), Layout(2, 4), (Layout((4, 4), (1, 8)), Layout((2, 4), (1, 4)))),
    "blocks, by names": lambda: registers(
        matmul(64, 64, 32).tile(m=Layout((16, 2), (1, 32)), n=32).to(Block).epilog(memory=RF).split(8)
        .load(A, SH).load(B, SH).tile(4, 4).to(Thread)
    ),
    "tensor cores": lambda: by_ldmatrix(
        tn(64, 64, 32).tile(64, 64).to(Block).epilog(memory=FR).split(32).load(A, SH).load(B, SH)
        .tile(Layout((16, 2), (1, 32)), Layout((8, 2, 2), (1, 16, 32))).to(Warp).split(16).unroll()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIONS)
def test_a_tile_of_positions(name: str) -> None:
    """Graphene's tile sizes: a layout for each dimension."""
    right(POSITIONS[name]())


@pytest.mark.parametrize(
    ("positions", "why"),
    [
        (Layout((2, 2), (1, 3)), "stride 3 is no multiple of the 2 offsets below it"),
        (Layout((2, 2), (1, 1)), "two of its coordinates share an offset"),
        (Layout(2, 0), "two of its coordinates share an offset"),
        (Layout((2, 2), (1, 12)), "do not cover the 32 elements along M"),
        (Layout(64, 1), "do not cover the 32 elements along M"),
    ],
    ids=str,
)
def test_tiles_of_positions_that_do_not_cover_the_rows_are_refused(positions: Layout, why: str) -> None:
    with pytest.raises(FireironError) as caught:
        threads(positions, 4)
    assert caught.value.code == "tile-gaps"
    assert why in caught.value.message


def test_positions_of_unknown_rows_are_refused() -> None:
    with pytest.raises(FireironError, match="tile-gaps"):
        matmul(symbol("M"), 64, 32).tile(Layout(2, 4), 64)


@pytest.mark.parametrize("name", LOADS)
def test_a_register_load_below_a_strided_tile(name: str) -> None:
    right(LOADS[name]())


@pytest.mark.parametrize("shape", FACTORS)
@pytest.mark.parametrize("load", [by_ldmatrix, fragments])
def test_a_prolog_below_a_strided_tile(shape: str, load: Finish) -> None:
    """The prolog's tensor is read at the elements' own places, above ldmatrix as above conform()."""
    factor = FACTORS[shape]
    values = np.random.default_rng(1).integers(1, 4, factor.shape).astype(np.float16)
    spec = matmul(64, 64, 32, "f16").prolog(A, scale(factor))
    schedule = load(staged(spec.tile(64, 64).to(Block).epilog(memory=FR)))
    right(schedule, values, make=lambda a, b: (a * values) @ b)


@pytest.mark.parametrize("shape", FACTORS)
def test_a_prolog_of_a_shared_load_below_a_strided_tile(shape: str) -> None:
    factor = FACTORS[shape]
    values = np.random.default_rng(1).integers(1, 4, factor.shape).astype(np.float16)
    outer = matmul(64, 64, 32, "f16").prolog(A, scale(factor)).tile(64, 64).to(Block).tile(WIDE).unroll()
    chain = outer.epilog(memory=FR).split(16).load(A, SH, vector()).load(B, SH, vector()).tile(16, 16).to(Warp)
    right(fragments(chain), values, make=lambda a, b: (a * values) @ b)


@pytest.mark.parametrize("tile", [WIDE, Strided((16, 32), (1, 2)), Strided((2, 4), (8, 16))], ids=str)
@pytest.mark.parametrize("ops", [(), (relu,), (add(BIAS), relu)], ids=["none", "relu", "bias"])
def test_an_epilog_below_a_strided_tile(tile: Strided, ops: Any) -> None:
    """Stores go to the chunks, and ops read their tensors there."""
    chain = matmul(64, 64, 16, "f16").tile(64, 64).to(Block).tile(tile).unroll().epilog(*ops, memory=FR)
    bias = np.random.default_rng(2).integers(-3, 4, 64).astype(np.float16)
    given = (bias,) if len(ops) == 2 else ()
    make: Any = {0: lambda a, b: a @ b, 1: lambda a, b: np.maximum(a @ b, 0)}.get(
        len(ops), lambda a, b: np.maximum(a @ b + bias, 0)
    )
    right(fragments(warps(chain)), *given, make=make)


def test_an_epilog_of_threads_below_a_strided_tile() -> None:
    chain = matmul(64, 64, 16).tile(64, 64).to(Block).tile(WIDE).unroll().epilog(memory=RF).split(8)
    right(registers(chain.load(A, SH).load(B, SH).tile(8, 8).to(Thread)))


def test_row_sums_below_a_strided_tile_of_rows() -> None:
    spec = matmul(64, 64, 16, "f16", out="f32")
    sums = Matrix(64, 1, "f32", name="sums")
    chain = spec.tile(64, 64).to(Block).tile(Strided((16, 32), (64, 64))).unroll().epilog(row_sum(sums), memory=FR)
    schedule = fragments(warps(chain))
    a, b = np.ones((64, 16), np.float16), np.ones((16, 64), np.float16)
    a *= np.arange(64)[:, None]
    result = schedule.simulate(a, b)
    np.testing.assert_array_equal(result.arrays["sums"][:, 0], np.arange(64) * 16 * 64)


def test_row_sums_of_chunks_of_columns_are_refused() -> None:
    spec = matmul(64, 64, 16, "f16", out="f32")
    sums = Matrix(64, 2, "f32", name="sums")
    chain = spec.tile(64, 64).to(Block).tile(WIDE).unroll().epilog(row_sum(sums), memory=FR)
    with pytest.raises(FireironError, match="epilog-rows"):
        fragments(warps(chain))
