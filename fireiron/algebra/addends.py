"""Addends of a sum: terms that an expression adds to its first argument before any other operation."""

from __future__ import annotations

from functools import reduce

from fireiron.algebra.scalar import Arg, Binary, Scalar, children, parts, with_children


def without_addends(tree: Scalar) -> tuple[Scalar, Scalar | None]:
    """Split an expression f(sum + addend) into f and the addend; the addend is None where nothing is added.

    The expression is split only where every use of the first argument adds the same addend.

    Args:
        tree: an expression; `Arg(0)` is the sum.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> acc, bias = Arg(0, f32), Arg(1, f32)
        >>> rest, added = without_addends(Binary("max", Binary("add", acc, bias), Arg(2, f32)))
        >>> rest == Binary("max", acc, Arg(2, f32)), added == bias
        (True, True)
    """
    acc = next((part for part in parts(tree) if isinstance(part, Arg) and part.index == 0), None)
    if acc is None:
        return tree, None
    whole: Scalar = acc
    added: list[Scalar] = []
    while whole != tree:
        readers = [part for part in parts(tree) if whole in children(part)]
        first = readers[0]
        if not isinstance(first, Binary) or first.op != "add" or any(reader != first for reader in readers):
            break
        other = first.y if first.x == whole else first.x
        if any(part == acc for part in parts(other)):
            break
        added.append(other)
        whole = first
    if not added:
        return tree, None
    return _replaced(tree, whole, acc), reduce(lambda x, y: Binary("add", x, y), added)


def _replaced(tree: Scalar, old: Scalar, new: Scalar) -> Scalar:
    if tree == old:
        return new
    return with_children(tree, tuple(_replaced(x, old, new) for x in children(tree)))
