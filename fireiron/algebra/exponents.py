"""Expressions whose absolute error counts, as that of exponents does: few instructions, roundings in another order."""

from __future__ import annotations

from math import e as EULER
from math import isfinite, log2
from typing import NamedTuple

from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Binary, Constant, Scalar, Unary, children, with_children


class _Line(NamedTuple):
    """Stand for `factor * core + term`."""

    core: Scalar
    factor: float = 1.0
    term: float = 0.0


def exponent(tree: Scalar) -> Scalar:
    """Rewrite an expression of f32: constant factors and terms that follow each other become one of each.

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
    found = core if factor == 1 else Binary("mul", core, Constant(factor, f32))
    return Binary("add", found, Constant(term, f32)) if term else found


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
