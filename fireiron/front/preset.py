"""Mark functions as presets: schedules for users, whose arguments are checked against their annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import attrs

from fireiron.base.contract import checked, checks

P = ParamSpec("P")
R = TypeVar("R")


def preset(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as a preset, whose calls are refused with a code if an argument breaks its annotation.

    Integers, also NumPy's, must be at least 1, or at least 0 for `pad` and where a parameter's default is 0. A class
    with a preset's sizes is marked likewise; its fields are only checked against their annotations, except fields with
    a validator of their own.

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
