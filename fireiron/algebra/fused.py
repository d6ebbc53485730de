"""Fused multiply-adds: a product of f32 that is added to something is not rounded before the addition.

One rounding gives no larger error than two, so every error bound of the separate operations holds.
"""

from __future__ import annotations

from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Binary, MultiplyAdd, Scalar, Unary, children, with_children


def fused(tree: Scalar) -> Scalar:
    """Replace sums of products by fused multiply-adds.

    Example:
        >>> from fireiron.algebra.scalar import Arg
        >>> x, y, z = (Arg(i, f32) for i in range(3))
        >>> fused(Binary("sub", Binary("mul", x, y), z)) == MultiplyAdd(x, y, Unary("neg", z))
        True
    """
    tree = with_children(tree, tuple(fused(x) for x in children(tree)))
    if tree.dtype != f32:
        return tree
    match tree:
        case Binary("add", Binary("mul", x, y), z) | Binary("add", z, Binary("mul", x, y)):
            return MultiplyAdd(x, y, z)
        case Binary("sub", Binary("mul", x, y), z):
            return MultiplyAdd(x, y, Unary("neg", z))
        case Binary("sub", z, Binary("mul", x, y)):
            return MultiplyAdd(Unary("neg", x), y, z)
        case _:
            return tree
