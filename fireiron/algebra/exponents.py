"""Expressions whose absolute error counts, as that of exponents does: few instructions, roundings in another order."""

from __future__ import annotations

from math import e as EULER
from math import isfinite, log2
from typing import NamedTuple

from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Binary, Constant, Scalar, Unary, children, parts, with_children


class _Line(NamedTuple):
    """Stand for `factor * core + term`."""

    core: Scalar
    factor: float = 1.0
    term: float = 0.0


def exponent(tree: Scalar) -> Scalar:
    """Rewrite an expression of f32: constant factors and terms that follow each other become one of each.

    A constant factor of a sum becomes one of each term, where it joins others, and fused multiply-adds take it.

    tanh(x) becomes 2 / (1 + exp(-2 x)) - 1, which is off by 2^-21 at most, near 0 too.

    Example:
        >>> from fireiron.algebra.scalar import Arg
        >>> x, ten = Arg(0, f32), Constant(10, f32)
        >>> exponent(Binary("mul", Binary("div", x, ten), Constant(20, f32))) == Binary("mul", x, Constant(2.0, f32))
        True
    """
    if tree.dtype != f32:
        return _of_parts(tree)
    core, factor, term = _line(tree)
    found = _times(core, factor)
    return Binary("add", found, Constant(term, f32)) if term else found


def _times(tree: Scalar, by: float) -> Scalar:
    """Multiply an expression by a number, which joins constant factors of its terms, or an operand of a product."""
    if by == 1:
        return tree
    match tree:
        case Unary("neg", x):
            return Unary("neg", _times(x, by))
        case Binary("add" | "sub" as op, x, y):
            return Binary(op, _times(x, by), _times(y, by))
        case Binary("mul", x, Constant(value=c)) if c and isfinite(c):
            return _times(x, c * by)
        case Binary("mul", x, y):
            return Binary("mul", _times(x, by), y) if _cost(x) < _cost(y) else Binary("mul", x, _times(y, by))
        case _:
            return Binary("mul", tree, Constant(by, f32))


def _cost(tree: Scalar) -> int:
    """Order the operands of a product: one that has a factor, then a simple one, which many elements likely share."""
    match tree:
        case Binary("mul", _, Constant(value=c)) if c and isfinite(c):
            return 0
        case _:
            return sum(1 for _ in parts(tree))


def _of_parts(tree: Scalar) -> Scalar:
    return with_children(tree, tuple(map(exponent, children(tree))))


def _line(tree: Scalar) -> _Line:
    match tree:
        case Unary("neg", x):
            return _scaled(_line(x), -1.0)
        case Binary("mul", x, Constant(value=c)) | Binary("mul", Constant(value=c), x) if c and isfinite(c):
            return _scaled(_line(x), c)
        case Binary("div", x, Constant(value=c)) if c and isfinite(c):
            return _scaled(_line(x), 1 / c)
        case Binary("add", x, Constant(value=c)) | Binary("add", Constant(value=c), x) if isfinite(c):
            return _moved(_line(x), c)
        case Binary("sub", x, Constant(value=c)) if isfinite(c):
            return _moved(_line(x), -c)
        case Binary("sub", Constant(value=c), x) if isfinite(c):
            return _moved(_scaled(_line(x), -1.0), c)
        case Unary("tanh", x):
            power = Unary("exp2", exponent(Binary("mul", x, Constant(-2 * log2(EULER), f32))))
            return _Line(Binary("div", Constant(1, f32), Binary("add", Constant(1, f32), power)), 2.0, -1.0)
        case _:
            return _Line(_of_parts(tree))


def _scaled(line: _Line, by: float) -> _Line:
    return _Line(line.core, line.factor * by, line.term * by)


def _moved(line: _Line, by: float) -> _Line:
    return _Line(line.core, line.factor, line.term + by)
