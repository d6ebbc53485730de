"""Arithmetic on shapes and coordinates, which are nested tuples of ints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fireiron.algebra.index.nodes import Expr
from fireiron.algebra.layout import product, tree_leaves, tree_text
from fireiron.base.errors import LayoutError

if TYPE_CHECKING:
    from fireiron.algebra.layout import IndexTree


def inner_product(a: IndexTree, b: IndexTree) -> Any:
    """Sum the products of corresponding leaves. Example: of a coordinate and the strides, an offset.

    Args:
        a: ints or expressions, nested in any way.
        b: ints or expressions, nested like `a`.

    Raises:
        LayoutError: `not-congruent`.

    Example:
        >>> inner_product((2, (1, 3)), (1, (4, 16)))
        54
    """
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return a * b
    if not isinstance(a, tuple) or not isinstance(b, tuple) or len(a) != len(b):
        raise _not_congruent("multiply", a, b)
    total: Any = 0
    for x, y in zip(a, b, strict=True):
        total = total + inner_product(x, y)
    return total


def shape_div(a: IndexTree, b: IndexTree) -> IndexTree:
    """Divide a shape: by a tuple mode by mode, by an int from the first mode on.

    The result has the extents of every b-th element. Where an extent divides the divisor, the result is 1, and the rest
    of the divisor divides the next mode.

    Args:
        a: extents, an int or nested tuples.
        b: extents, an int or nested tuples; a tuple that divides a single extent counts as its product.

    Raises:
        LayoutError: `not-congruent` where tuples differ in length; `shape-division` where neither of two extents
            divides the other.

    Example:
        >>> shape_div((4, 8), 2), shape_div((4, 8), 8), shape_div((6, (4, 2)), (3, 8))
        ((2, 8), (1, 4), (2, (1, 1)))
    """
    if isinstance(a, tuple):
        if isinstance(b, tuple):
            if len(a) != len(b):
                raise _not_congruent("divide", a, b)
            return tuple(map(shape_div, a, b))
        found: list[IndexTree] = []
        for mode in a:
            found.append(shape_div(mode, b))
            b = shape_div(b, product(tree_leaves(mode)))
        return tuple(found)
    divisor: Any = product(tree_leaves(b))
    if isinstance(a, Expr) or isinstance(divisor, Expr):
        if divisor == 1:
            return a
    elif a % divisor == 0:
        return a // divisor
    elif divisor % a == 0:
        return 1
    raise LayoutError(
        "shape-division",
        f"cannot divide the extent {a} by {divisor}: neither is a multiple of the other",
        fix="choose extents that divide each other",
    )


def _not_congruent(verb: str, a: IndexTree, b: IndexTree) -> LayoutError:
    return LayoutError(
        "not-congruent",
        f"cannot {verb} {tree_text(a)} and {tree_text(b)}: they are nested differently",
        fix="give tuples of the same structure",
    )
