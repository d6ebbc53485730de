"""Factors: what an expression of one element multiplies it by, so that a sum of elements may be multiplied instead."""

from __future__ import annotations

from fireiron.algebra.dtypes import DType
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, Unary, children
from fireiron.algebra.simplify import simplify
from fireiron.language.pointwise import Value


def factor(value: Value) -> Scalar | None:
    """Give the factor of an expression that only multiplies its element; None for every other expression.

    The result numbers its arguments as the expression does. Conversions of the element to types that hold all its
    values change nothing.

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
    """Say whether an expression is its element, perhaps converted to types that hold all its values."""
    if isinstance(tree, Cast):
        return _converted(tree.x) and holds(tree.dtype, tree.x.dtype)
    return isinstance(tree, Arg) and tree.index == 0


def _reads(tree: Scalar) -> bool:
    """Say whether an expression reads its element."""
    return tree.index == 0 if isinstance(tree, Arg) else any(_reads(x) for x in children(tree))


def holds(wide: DType, narrow: DType) -> bool:
    """Say whether a type holds every finite value of another.

    Example:
        >>> from fireiron.algebra.dtypes import bf16, e4m3, f16, i8, i32
        >>> holds(f16, e4m3), holds(bf16, i8), holds(f16, i32), holds(f16, bf16)
        (True, True, False, False)
    """
    if wide == narrow:
        return True
    (low, high), (least, most) = wide.limits, narrow.limits
    if not low <= least <= most <= high or (wide.kind == "int" and narrow.kind == "float"):
        return False
    if narrow.kind == "int":
        return wide.kind == "int" or wide.mantissa + 1 >= narrow.bits - narrow.signed
    return wide.mantissa >= narrow.mantissa and wide.bias + wide.mantissa >= narrow.bias + narrow.mantissa
