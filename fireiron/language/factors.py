"""Factors: for an expression f(x) = x * s, the factor s; a sum of elements may then be multiplied by s once."""

from __future__ import annotations

from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, Unary, children
from fireiron.algebra.simplify import simplify
from fireiron.language.pointwise import Value


def factor(value: Value) -> Scalar | None:
    """Return the factor of an expression that only multiplies its element; None for every other expression.

    Arguments keep their numbers. A conversion of the element to a type that holds all its values is ignored.

    Example:
        >>> from fireiron.algebra.dtypes import f32, i8
        >>> from fireiron.language.functions import dequantise, relu
        >>> from fireiron.language.pointwise import accumulator
        >>> from fireiron.language.tensor import Vector
        >>> factor(dequantise("f32", Vector(64, name="scales"))(accumulator(i8))) == Arg(1, f32)
        True
        >>> factor(relu(accumulator(f32))) is None
        True
    """
    found = _factor(value.tree)
    return None if found is None else simplify(found)


def _factor(tree: Scalar) -> Scalar | None:
    match tree:
        case Arg(0) | Cast() if _converted(tree):
            return Constant(1.0 if tree.dtype.kind == "float" else 1, tree.dtype)
        case Unary("neg", x):
            inside = _factor(x)
            return None if inside is None else Unary("neg", inside)
        case Binary("mul" | "div" as op, x, y) if tree.dtype.kind == "float":  # integers wrap
            if op == "mul" and _reads(y):
                x, y = y, x
            inside = None if _reads(y) else _factor(x)
            return None if inside is None else Binary(op, inside, y)
        case _:
            return None


def _converted(tree: Scalar) -> bool:
    """Return whether an expression is the element, or a conversion of it to a type that holds all its values."""
    if isinstance(tree, Cast):
        return _converted(tree.x) and tree.dtype.holds(tree.x.dtype)
    return isinstance(tree, Arg) and tree.index == 0


def _reads(tree: Scalar) -> bool:
    """Return whether an expression reads the element (`Arg(0)`)."""
    return tree.index == 0 if isinstance(tree, Arg) else any(_reads(x) for x in children(tree))
