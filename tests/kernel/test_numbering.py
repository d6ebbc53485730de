"""Orders of tiles: every tile once, whatever their number; along a Hilbert curve neighbours follow each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fireiron import Block, ColMajor, Grouped, Hilbert, RowMajor, Serpentine, matmul, symbol
from fireiron.algebra.expr import Expr, FloorDiv, Mod, Var, as_expr, as_int, evaluate
from fireiron.algebra.index.nodes import operands
from fireiron.kernel.lower.numbering import tile_numbers
from fireiron.kernel.lower.window import cut
from fireiron.language.tensor import TileOrder

ORDERS = [
    RowMajor, ColMajor, Grouped(3), Grouped(8), Hilbert(2), Hilbert(4), Hilbert(8), Hilbert(16), Serpentine(),
    Serpentine(ColMajor),
]  # fmt: skip


def visited(order: TileOrder, *extents: int) -> Any:
    """List the tiles in the order in which ids count them: an array (tiles, dimensions)."""
    dims = ("batch", "M", "N")[-len(extents) :]
    count = int(np.prod(extents))
    parts = {dim: cut(1, extent) for dim, extent in zip(dims, extents, strict=True)}
    found = tile_numbers(Var("tile", count), parts, order)
    columns = (np.asarray(evaluate(found[dim], {"tile": np.arange(count)})) for dim in dims)
    return np.stack([np.broadcast_to(column, (count,)) for column in columns], axis=1)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@given(st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_every_tile_is_visited_once(order: TileOrder, extents: tuple[int, int]) -> None:
    tiles = visited(order, *extents)
    assert (tiles >= 0).all()
    assert (tiles < np.array(extents)).all()
    assert len(np.unique(tiles, axis=0)) == len(tiles)


@pytest.mark.parametrize("order", [RowMajor, Grouped(3), Hilbert(2), Hilbert(16)], ids=str)
def test_batches_come_one_by_one(order: TileOrder) -> None:
    tiles = visited(order, 3, 5, 9)
    assert len(np.unique(tiles, axis=0)) == 3 * 5 * 9
    assert (np.diff(tiles[:, 0]) >= 0).all()
    np.testing.assert_array_equal(tiles[:45, 1:], visited(order, 5, 9))


@pytest.mark.parametrize("order", [Serpentine(), Serpentine(ColMajor)], ids=str)
def test_each_tile_of_a_serpentine_shares_a_row_or_a_column_with_the_next(order: TileOrder) -> None:
    for extents in ((5, 7), (3, 5, 9)):
        steps = np.abs(np.diff(visited(order, *extents), axis=0))
        np.testing.assert_array_equal(steps.sum(axis=1), 1)
    along = visited(order, 4, 6)[:6]
    assert len(np.unique(along[:, 0])) == (1 if order == Serpentine() else 4), "rows first, or columns first"


@pytest.mark.parametrize("side", [2, 4, 8, 16, 32])
def test_neighbours_follow_each_other_on_a_curve(side: int) -> None:
    tiles = visited(Hilbert(side), side, 3 * side)
    np.testing.assert_array_equal(np.abs(np.diff(tiles, axis=0)).sum(axis=1), 1)


def test_tiles_at_work_together_touch_few_rows_and_columns() -> None:
    def most(order: TileOrder) -> int:
        tiles = visited(order, 64, 64)
        waves = [tiles[i : i + 128] for i in range(0, len(tiles), 128)]
        return max(len(np.unique(w[:, 0])) + len(np.unique(w[:, 1])) for w in waves)

    assert most(Hilbert(16)) == 24
    assert most(Grouped(8)) == 24
    assert most(RowMajor) == 66


def test_sizes_may_be_symbols() -> None:
    m, n = symbol("M"), symbol("N")
    dims = {"M": cut(32, m), "N": cut(32, n)}
    found = tile_numbers(Var("tile", 1 << 20), dims, Hilbert(4))
    for rows, cols in ((7, 5), (4, 8), (12, 1)):
        env = {"tile": np.arange(rows * cols), "M": 32 * rows, "N": 32 * cols - 3}
        pairs = zip(*(np.broadcast_to(evaluate(e, env), rows * cols).tolist() for e in found.values()), strict=True)
        assert sorted(pairs) == [(r, c) for r in range(rows) for c in range(cols)]


def test_one_dimension_has_one_order() -> None:
    assert visited(Hilbert(4), 9)[:, 0].tolist() == list(range(9))
    assert "tile" in str(matmul(64, 64, 64).tile(16, 16).to(Block).layout(Hilbert(4)))


def nodes(e: Expr) -> Iterator[Expr]:
    yield e
    for part in operands(e):
        yield from nodes(part)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9))
def test_groups_of_rows_divide_by_constants(high: int, wide: int, rows: int) -> None:
    """A last group that is shorter is another constant: dividing by what a variable says takes 30 instructions."""
    found = tile_numbers(Var("tile", high * wide), {"M": cut(1, high), "N": cut(1, wide)}, Grouped(rows))
    divisions = [e for number in found.values() for e in nodes(number) if isinstance(e, FloorDiv | Mod)]
    assert all(as_int(e.denominator) is not None for e in divisions)


@pytest.mark.parametrize("order", [RowMajor, ColMajor], ids=str)
def test_the_slowest_dim_wraps_nowhere_though_dims_of_one_tile_stand_beside_it(order: TileOrder) -> None:
    """A guard bounds the id: 8 rows of 122 are `id // 122`, and not `id // 122 % 8`."""
    parts = {"N": cut(1, 1), "H": cut(1, 8), "W": cut(1, 122), "C": cut(4, 4)}
    found = tile_numbers(Var("id", 1024), parts, order)
    slow, fast = ("H", "W") if order is RowMajor else ("W", "H")
    assert found["N"] == found["C"] == as_expr(0)
    assert not [e for e in nodes(found[slow]) if isinstance(e, Mod)]
    assert [e for e in nodes(found[fast]) if isinstance(e, Mod)]
