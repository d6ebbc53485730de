"""Fit the constants of a model, a record of numbers, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

M = TypeVar("M", bound=attrs.AttrsInstance)


def constants_of(model: attrs.AttrsInstance) -> list[str]:
    """List a model's constants that are one number each."""
    return [field.name for field in attrs.fields(type(model)) if isinstance(getattr(model, field.name), float)]


def descended(
    start: M, names: Sequence[str], loss: Callable[[M], float], passes: int, first: float, last: float
) -> tuple[M, float]:
    """Change one constant at a time while the loss falls; steps shrink when no change helps.

    Args:
        start: the model to begin with.
        names: the constants that may change.
        loss: what a fit minimises.
        passes: most passes over the constants.
        first, last: the first step, and the one below which the fit ends, as parts of a constant.

    Returns:
        The fitted model, and its loss.
    """
    best, least, step = start, loss(start), first
    for _ in range(passes):
        before = least
        for name in names:
            for factor in (1 + step, 1 / (1 + step)):
                tried = attrs.evolve(best, **{name: getattr(best, name) * factor})
                found = loss(tried)
                if found < least:
                    best, least = tried, found
        if least == before:
            step /= 2
        if step < last:
            break
    return best, least
