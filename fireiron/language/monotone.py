"""Maxima of multiples: the largest of c * x is c times the largest x, for c above 0, in all bits.

Rounding keeps the order of numbers, and NaN and infinities stay as they are, so one multiplication after the fold
replaces one for each point. A factor that is NaN makes all products NaN, and the product with the largest x too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite, isnan

import attrs

from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar, Select
from fireiron.language.steps import Ref, Step, dims_in, used


@attrs.frozen
class Outside:
    """Hold a maximum or minimum without the factor of its points.

    Args:
        step: the fold without the factor.
        factor: the factor, an expression of `reads`; None if the fold itself multiplies its result, or has no factor.
        reads: the elements that the factor reads, which no dim of the fold is an index of.
    """

    step: Step
    factor: Scalar | None = None
    reads: tuple[Ref, ...] = ()


def factor_outside(step: Step) -> Step:
    """Move a constant factor out of a step's maximum or minimum: max(c * x) becomes c * max(x).

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> from fireiron.language.folds import max_of
        >>> scaled = Step("top", (), (), Binary("mul", Arg(0, f32), Constant(0.5, f32)), max_of(f32))
        >>> factor_outside(scaled).body == Arg(0, f32)
        True
    """
    fold = step.fold
    if fold is None or fold.plain not in ("max", "min"):
        return step
    match step.body:
        case Binary("mul", x, Constant(c) as factor) | Binary("mul", Constant(c) as factor, x) if c > 0 and isfinite(c):
            finish = (Binary("mul", Arg(0, step.body.dtype), factor),)
            return attrs.evolve(step, body=x, fold=attrs.evolve(fold, finish=finish))
        case _:
            return step


def read_factor_outside(step: Step, makers: Mapping[str, Step]) -> Outside:
    """Move a factor that is read, and is the same for all points of a fold, out of its maximum or minimum.

    Args:
        step: the fold.
        makers: the steps by the names of their results: the factor's must show that it is above 0, finite or NaN.
    """
    fold = step.fold
    if fold is None or fold.plain not in ("max", "min") or not isinstance(step.body, Binary) or step.body.op != "mul":
        return Outside(step)
    body = step.body
    for x, factor in ((body.x, body.y), (body.y, body.x)):
        varies = {d.name for d in dims_in(factor, step.reads)} & {d.name for d in step.over}
        if not varies and not isinstance(factor, Constant) and is_scale(factor, step.reads, makers):
            (inner, *where), kept = used((x, *(() if step.where is None else (step.where,))), step.reads)
            (outer,), reads = used((factor,), step.reads)
            within = attrs.evolve(step, body=inner, reads=kept, where=where[0] if where else None)
            return Outside(within, outer, reads)
    return Outside(step)


def is_scale(tree: Scalar, reads: Sequence[Ref], makers: Mapping[str, Step]) -> bool:
    """Say whether an expression is a finite number above 0, or NaN, whatever it reads.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> x = Arg(0, f32)
        >>> is_scale(Binary("max", x, Constant(1e-30, f32)), (), {})  # it may be infinite
        False
        >>> is_scale(Binary("min", Binary("max", x, Constant(1e-30, f32)), Constant(1e30, f32)), (), {})
        True
    """
    least, most = _bounds(tree, reads, makers)
    return least > 0 and most < inf


def _bounds(tree: Scalar, reads: Sequence[Ref], makers: Mapping[str, Step]) -> tuple[float, float]:
    """Return the least and the largest value that an expression may have where it is not NaN."""
    known = [_bounds(x, reads, makers) for x in _operands(tree)]
    match tree:
        case Constant(value=value):
            return (inf, -inf) if isnan(value) else (float(value), float(value))
        case Binary("max" | "min" as op):
            (a, b), (c, d) = known
            return (max(a, c), max(b, d)) if op == "max" else (min(a, c), min(b, d))
        case Select():
            (a, b), (c, d) = known
            return min(a, c), max(b, d)
        case Arg(index=number) if number < len(reads) and reads[number].name in makers:
            maker = makers[reads[number].name]
            return (-inf, inf) if maker.fold is not None else _bounds(maker.body, maker.reads, makers)
        case _:
            return -inf, inf


def _operands(tree: Scalar) -> tuple[Scalar, ...]:
    match tree:
        case Binary(_, x, y) | Select(_, x, y):
            return x, y
        case _:
            return ()
