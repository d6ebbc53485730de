"""Index expressions that become floats: what the compiler knows of them is converted apart."""

from __future__ import annotations

from collections.abc import Container

from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import Const, Expr, const, free, terms
from fireiron.algebra.scalar import Binary, Cast, Coordinate, Scalar, children, with_children

EXACT = 1 << 24  # f32 has each integer up to it


def apart(tree: Scalar, constants: Container[str]) -> Scalar:
    """Convert to f32 apart what depends on variables of unrolled loops, so that the rest is converted once.

    The sum of both is exact. A conversion takes as long as two additions.

    Args:
        tree: what to compute.
        constants: names of the variables of unrolled loops.

    Example:
        >>> from fireiron.algebra.expr import Var
        >>> row, i = Var("row", 128), Var("i", 8)
        >>> apart(Cast(Coordinate(row - i * 2), f32), {"i"}).op
        'add'
    """
    match tree:
        case Cast(Coordinate(value), dtype) if dtype == f32:
            parts = [part for part in terms(value) if free(part) and all(leaf.name in constants for leaf in free(part))]
            known = sum(parts, const(0))
            rest = value - known
            if isinstance(known, Const) or isinstance(rest, Const) or not all(map(_is_exact, (value, known, rest))):
                return tree
            return Binary("add", Cast(Coordinate(rest), f32), Cast(Coordinate(known), f32))
        case _:
            below = children(tree)
            return with_children(tree, tuple(apart(part, constants) for part in below)) if below else tree


def _is_exact(value: Expr) -> bool:
    low, high = value.range
    return low is not None and high is not None and -EXACT <= low <= high <= EXACT
