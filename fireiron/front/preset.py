"""Mark functions as presets: schedules for others, whose arguments are held to their annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import attrs

from fireiron.base.contract import checked, checks

P = ParamSpec("P")
R = TypeVar("R")


def preset(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as a preset: calls with other values than its annotations name are refused with a code.

    Whole numbers, of NumPy too, count things: from 1 on, or from 0 where 0 is a parameter's default and for
    `pad`. A record of a preset's sizes is marked likewise: its fields are held to their annotations alone, except those
    with a validator of their own.

    Raises:
        SpecError: `argument-kind`, when it is called.

    Example:
        >>> from fireiron import MatMulChain, matmul
        >>> @preset
        ... def gemm(spec: MatMulChain, m: int = 64) -> MatMulChain:
        ...     return spec.tile(m, m)
        >>> print(gemm(matmul(64, 64, 64), "32"))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        fireiron.base.errors.SpecError: SpecError[argument-kind]: gemm takes a number, not '32'
        ...
        fix: give a whole number from 1 on
    """
    if isinstance(function, type):
        kind = cast(Any, function)
        own = {field.name for field in attrs.fields(kind) if field.validator is not None}
        kind.__init__ = checked(kind.__init__, name=kind.__name__, leave=own, locate=True)
        return function
    return checks(least=True, locate=True)(function)
