"""Derivatives of scalar expressions, as expressions, for gradients of epilogs."""

from __future__ import annotations

from typing import assert_never

from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
)
from fireiron.algebra.simplify import simplify
from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.errors import SpecError


def derivative(tree: Scalar, index: int) -> Scalar:
    """Give the derivative of an expression with respect to one of its arguments, simplified.

    Where two alternatives meet, as at relu's 0, the result is the second alternative's derivative. Comparisons, floors
    and integers have the derivative 0.

    Args:
        tree: an expression of floats.
        index: the argument's number.

    Raises:
        SpecError: `no-derivative` for a user's own function of the argument.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> x = Arg(0, f32)
        >>> derivative(Binary("mul", x, Constant(3.0, f32)), 0)
        Constant(value=3.0, dtype=f32)
    """
    return simplify(_derived(tree, index))


def is_zero(tree: Scalar) -> bool:
    """Say whether an expression is the number 0."""
    return isinstance(tree, Constant) and tree.value == 0


def _derived(tree: Scalar, index: int) -> Scalar:
    zero = Constant(0.0, tree.dtype)
    if tree.dtype.kind == "int":
        return zero
    match tree:
        case Arg():
            return Constant(1.0 if tree.index == index else 0.0, tree.dtype)
        case Constant() | Parameter() | Coordinate():
            return zero
        case Unary(op, x):
            return _times(FUNCTIONS[op].derivative(x), _derived(x, index))
        case Binary(op, x, y):
            return _of_two(op, x, y, _derived(x, index), _derived(y, index))
        case MultiplyAdd(x, y, z):
            return _derived(Binary("add", Binary("mul", x, y), z), index)
        case Select(condition, x, y):
            dx, dy = _derived(x, index), _derived(y, index)
            return zero if is_zero(dx) and is_zero(dy) else Select(condition, dx, dy)
        case Cast(x, dtype):
            inner = _derived(x, index)
            return zero if is_zero(inner) else Cast(inner, dtype)
        case Debug(x=x):
            return _derived(x, index)
        case Custom(name, args=args):
            if all(is_zero(_derived(x, index)) for x in args):
                return zero
            raise SpecError(
                "no-derivative",
                f"custom function {name} has no derivative",
                fix="write it in functions of the language, or detach its operands",
            )
        case _ as never:
            assert_never(never)


def _of_two(op: str, x: Scalar, y: Scalar, dx: Scalar, dy: Scalar) -> Scalar:
    zero = Constant(0.0, x.dtype)
    if is_zero(dx) and is_zero(dy):
        return zero
    match op:
        case "add":
            return _plus(dx, dy)
        case "sub":
            return _plus(dx, _times(Constant(-1.0, x.dtype), dy))
        case "mul":
            return _plus(_times(dx, y), _times(x, dy))
        case "div":
            slope = _times(Constant(-1.0, x.dtype), Binary("div", x, Binary("mul", y, y)))
            return _plus(zero if is_zero(dx) else Binary("div", dx, y), _times(slope, dy))
        case "max":
            return Select(Binary("lt", y, x), dx, dy)
        case "min":
            return Select(Binary("lt", x, y), dx, dy)
        case "pow":
            down = Binary("pow", x, Binary("sub", y, Constant(1.0, x.dtype)))
            by_base = _times(_times(y, down), dx)
            return _plus(by_base, _times(_times(Binary("pow", x, y), Unary("log", x)), dy))
        case _:  # comparisons
            return zero


def _plus(x: Scalar, y: Scalar) -> Scalar:
    return y if is_zero(x) else x if is_zero(y) else Binary("add", x, y)


def _times(x: Scalar, y: Scalar) -> Scalar:
    if is_zero(x) or is_zero(y):
        return Constant(0.0, x.dtype)
    if isinstance(x, Constant) and x.value == 1:
        return y
    return x if isinstance(y, Constant) and y.value == 1 else Binary("mul", x, y)
