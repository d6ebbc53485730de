"""Numbering of tiles: the tile of each unit, in the schedule's order."""

from __future__ import annotations

from fireiron.algebra.expr import Expr, Var, and_, as_expr, eq, le, minimum, proves, select, simplest
from fireiron.algebra.layout import Layout
from fireiron.kernel.lower.chunks import trips_of
from fireiron.kernel.lower.context import Context
from fireiron.kernel.lower.permutation import check_permutation
from fireiron.kernel.lower.window import Cut
from fireiron.language.tensor import ColMajor, Grouped, Hilbert, RowMajor, Serpentine, TileOrder


def tile_numbers(index: Expr, parts: dict[str, Cut], order: TileOrder) -> dict[str, Expr]:
    """Turn a tile's id into its number along each dimension."""
    dims = list(parts)
    if isinstance(order, Hilbert) and len(parts) > 1:
        return _hilbert(index, parts, order)
    if isinstance(order, Grouped) and len(parts) > 1:
        return _grouped(index, parts, order)
    if isinstance(order, Layout):
        total = simplest(trips_of(parts))
        if isinstance(total, int):
            var = Var("id", total)
            check_permutation(as_expr(order(var)), var, total, f"layout {order}")
        index, order = as_expr(order(index)), ColMajor
    turns = isinstance(order, Serpentine)
    if (order.along if isinstance(order, Serpentine) else order) is not ColMajor:
        dims.reverse()
    # A dim with one tile has number 0; units beyond the last tile are guarded, so the slowest dim does not wrap.
    several = [dim for dim in dims if simplest(parts[dim].trips) != 1]
    if len(several) == 1:
        return {dim: index if dim in several else as_expr(0) for dim in parts}
    numbers = dict.fromkeys(dims, as_expr(0))
    for dim in several:
        trips = as_expr(parts[dim].trips)
        last = dim == several[-1]
        numbers[dim] = index if last else index % trips
        index = index if last else index // trips
        if turns and not last:
            numbers[dim] = there_and_back(numbers[dim], trips, index)
    return {dim: numbers[dim] for dim in parts}


def there_and_back(number: Expr, trips: Expr, round: Expr) -> Expr:
    """Count tiles upwards in even rounds, downwards in odd ones."""
    return select(eq(round % 2, 0), number, trips - 1 - number)


def _grouped(index: Expr, parts: dict[str, Cut], order: Grouped) -> dict[str, Expr]:
    """Number the tiles in groups of rows, each group column by column; after the last group the next batch begins."""
    *outer, rows, cols = parts
    if as_expr(parts[rows].trips) == as_expr(1):
        return tile_numbers(index, parts, RowMajor)
    high, wide = as_expr(parts[rows].trips), as_expr(parts[cols].trips)
    found = tile_numbers(index // (high * wide), {dim: parts[dim] for dim in outer}, RowMajor)
    index = index % (high * wide) if outer else index
    first = index // (wide * order.rows) * order.rows
    inside = index % (wide * order.rows)
    rest = 0 if proves(eq(high % order.rows, 0)) else simplest(high % order.rows)
    if isinstance(rest, int):  # select between two constants: a division by a variable takes 30 instructions
        whole, last = le(first + order.rows, high), rest or order.rows
        row = select(whole, inside % order.rows, inside % last)
        return {**found, rows: first + row, cols: select(whole, inside // order.rows, inside // last)}
    height = minimum(high - first, order.rows)
    return {**found, rows: first + inside % height, cols: inside // height}


# What a Hilbert curve does in the quarters of its square: 4 ways to run through it, and for each, in the curve's order,
# 4 quarters: a row bit, a column bit, and the way to run through that quarter.
_WAYS = (
    ((0, 0, 1), (1, 0, 0), (1, 1, 0), (0, 1, 3)),
    ((0, 0, 0), (0, 1, 1), (1, 1, 1), (1, 0, 2)),
    ((1, 1, 3), (0, 1, 2), (0, 0, 2), (1, 0, 1)),
    ((1, 1, 2), (1, 0, 3), (0, 0, 3), (0, 1, 0)),
)
_TABLE = sum(
    (way * 4 + row * 2 + col) << 4 * (4 * i + j)
    for i, quarters in enumerate(_WAYS)
    for j, (row, col, way) in enumerate(quarters)
)


def _hilbert(index: Expr, parts: dict[str, Cut], order: Hilbert) -> dict[str, Expr]:
    """Number tiles along a Hilbert curve in each square, and column by column elsewhere; batches follow one another."""
    *outer, rows, cols = parts
    high, wide, side = as_expr(parts[rows].trips), as_expr(parts[cols].trips), order.side
    found = tile_numbers(index // (high * wide), {dim: parts[dim] for dim in outer}, RowMajor)
    index = index % (high * wide) if outer else index
    first = index // (wide * side) * side
    inside = index % (wide * side)
    height = minimum(high - first, side) if not proves(eq(high % side, 0)) else as_expr(side)
    left = inside // (height * side) * side
    place = inside % (height * side)
    whole = and_(eq(height, side), le(left + side, wide))
    row, col = _on_curve(place, side)
    row, col = (select(whole, curve, line) for curve, line in ((row, place % height), (col, place // height)))
    return {**found, rows: first + row, cols: left + col}


def _on_curve(place: Expr, side: int) -> tuple[Expr, Expr]:
    """Return row and column of a place on a Hilbert curve that begins and ends in the square's first row."""
    row = col = way = as_expr(0)
    for level in reversed(range(side.bit_length() - 1)):
        digit = place // 4**level % 4
        found = (as_expr(_TABLE) >> ((way * 4 + digit) * 4)) % 16
        row, col = row * 2 + found // 2 % 2, col * 2 + found % 2
        way = found // 4
    return row, col


def named(numbers: dict[str, Expr], prefix: str, parts: dict[str, Cut], context: Context) -> dict[str, Expr]:
    """Define a variable for each number."""
    return {dim: context.define(f"{prefix}_{dim.lower()}", number, parts[dim].trips) for dim, number in numbers.items()}
