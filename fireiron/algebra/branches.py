"""Selects between a function's value and 0 as selects of its argument, so that no branch surrounds the function."""

from __future__ import annotations

from math import inf

from fireiron.algebra.scalar import Constant, Scalar, Select, Unary, children, with_children
from fireiron.algebra.unary import FUNCTIONS


def without_branches(tree: Scalar) -> Scalar:
    """Replace `where(c, f(x), 0)` by `f(where(c, x, -inf))` for functions that are 0 at -inf.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> from fireiron.algebra.scalar import Arg
        >>> seen, x, zero = Arg(0, f32), Arg(1, f32), Constant(0.0, f32)
        >>> without_branches(Select(seen, Unary("exp", x), zero)) == Unary("exp", Select(seen, x, Constant(-inf, f32)))
        True
    """
    tree = with_children(tree, tuple(without_branches(x) for x in children(tree)))
    match tree:
        case Select(condition, Unary(op, x), Constant(value=0)) if FUNCTIONS[op].vanishes and x.dtype.infinite:
            return Unary(op, Select(condition, x, Constant(-inf, x.dtype)))
        case _:
            return tree
