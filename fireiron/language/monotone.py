"""Maxima of multiples: the largest of c * x is c times the largest x, for c above 0, in all bits.

Rounding keeps the order of numbers, and NaN and infinities stay as they are, so one multiplication after the fold
replaces one for each point.
"""

from __future__ import annotations

from math import isfinite

import attrs

from fireiron.algebra.scalar import Arg, Binary, Constant
from fireiron.language.steps import Step


def factor_outside(step: Step) -> Step:
    """Move a constant factor out of a step's maximum or minimum: max(c * x) becomes c * max(x).

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> from fireiron.language.steps import max_of
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
