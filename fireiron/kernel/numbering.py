"""Numbering of tiles: which one a unit takes, in the order of a schedule."""

from __future__ import annotations

from fireiron.algebra.expr import Expr, Var, as_expr, eq, minimum, proves, simplest
from fireiron.algebra.layout import Layout
from fireiron.kernel.context import Context
from fireiron.kernel.permutation import check_permutation
from fireiron.kernel.window import Cut
from fireiron.language.tensor import ColMajor, Grouped, Order, RowMajor


def tile_numbers(index: Expr, parts: dict[str, Cut], order: Order | Grouped | Layout) -> dict[str, Expr]:
    """Turn a tile's id into its number along each dimension."""
    dims = list(parts)
    if isinstance(order, Grouped):
        return _grouped(index, parts, order)
    if isinstance(order, Layout):
        total = simplest(tiles_in(parts))
        if isinstance(total, int):
            var = Var("id", total)
            check_permutation(as_expr(order(var)), var, total, f"layout {order}")
        index, order = as_expr(order(index)), ColMajor
    if order is RowMajor:
        dims.reverse()
    numbers: dict[str, Expr] = {}
    for i, dim in enumerate(dims):
        trips = as_expr(parts[dim].trips)
        last = i == len(dims) - 1
        numbers[dim] = index if last else index % trips
        index = index if last else index // trips
    return {dim: numbers[dim] for dim in parts}


def _grouped(index: Expr, parts: dict[str, Cut], order: Grouped) -> dict[str, Expr]:
    """Walk down the rows of a group before the next column; the last group may be shorter. Batches come one by one."""
    *outer, rows, cols = parts
    if as_expr(parts[rows].trips) == as_expr(1):
        return tile_numbers(index, parts, RowMajor)
    high, wide = as_expr(parts[rows].trips), as_expr(parts[cols].trips)
    found = tile_numbers(index // (high * wide), {dim: parts[dim] for dim in outer}, RowMajor)
    index = index % (high * wide) if outer else index
    first = index // (wide * order.rows) * order.rows
    inside = index % (wide * order.rows)
    height = minimum(high - first, order.rows) if not proves(eq(high % order.rows, 0)) else as_expr(order.rows)
    return {**found, rows: first + inside % height, cols: inside // height}


def tiles_in(parts: dict[str, Cut]) -> Expr:
    """Count the tiles of all dimensions together."""
    total = as_expr(1)
    for part in parts.values():
        total = total * part.trips
    return total


def named(numbers: dict[str, Expr], prefix: str, parts: dict[str, Cut], context: Context) -> dict[str, Expr]:
    """Give the numbers names of their own."""
    return {dim: context.define(f"{prefix}_{dim.lower()}", number, parts[dim].trips) for dim, number in numbers.items()}
