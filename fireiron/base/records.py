"""Frozen records with some fields changed."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, TypeVar

import attrs

R = TypeVar("R")
_new = object.__new__


def evolve(record: R, **changes: Any) -> R:
    """Make a record that differs in some fields, as `attrs.evolve` does.

    It takes a quarter of that one's time where instances are a dictionary of fields (`slots=False`) and nothing more:
    for records of many fields that change at every step of a walk.

    Raises:
        TypeError: for a field that the record does not have.

    Example:
        >>> Point = attrs.make_class("Point", ["x", "y"], frozen=True, slots=False)
        >>> evolve(Point(1, 2), y=3)
        Point(x=1, y=3)
    """
    kind = type(record)
    if not changes.keys() <= _fields(kind):
        return attrs.evolve(record, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]
    made = _new(kind)
    made.__dict__.update(record.__dict__, **changes)
    return made


@cache
def _fields(kind: type[Any]) -> frozenset[str]:
    """Name the fields of a class that is no more than they are; none of another."""
    fields = attrs.fields(kind)
    acts = any(field.converter or field.validator or not field.init for field in fields)
    keeps = any(isinstance(x, cached_property) for base in kind.__mro__ for x in vars(base).values())
    if acts or keeps or hasattr(kind, "__attrs_post_init__") or not kind.__dictoffset__:
        return frozenset()
    return frozenset(field.name for field in fields)


class Itself:
    """Stand for one object as a key: equal to what stands for the same object, and to nothing that is only alike.

    For notes about the statements of a body while it is walked: hashing all that a statement holds would take longer
    than what is noted.

    Example:
        >>> one, other = [1], [1]
        >>> Itself(one) == Itself(one), Itself(one) == Itself(other)
        (True, False)
    """

    __slots__ = ("it",)

    def __init__(self, it: object) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.it is other.it

    def __hash__(self) -> int:
        return object.__hash__(self.it)
