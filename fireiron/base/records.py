"""Copies of frozen records with some fields changed, and keys that compare objects by identity."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, TypeVar

import attrs

R = TypeVar("R")
_new, _set = object.__new__, object.__setattr__


def evolve(record: R, **changes: Any) -> R:
    """Copy a record with some fields changed, as `attrs.evolve` does.

    This function is faster than `attrs.evolve`, above all for records that keep all fields in `__dict__`
    (`slots=False`) and have neither converters nor validators. Walks over the tree use it for records of many fields.

    Raises:
        TypeError: for a field that the record does not have.

    Example:
        >>> Point = attrs.make_class("Point", ["x", "y"], frozen=True, slots=False)
        >>> evolve(Point(1, 2), y=3)
        Point(x=1, y=3)
    """
    kind = type(record)
    plain = _plain_fields(kind)
    if not plain:
        return kind(**({argument: getattr(record, name) for argument, name in _arguments(kind)} | changes))
    values = record.__dict__ | changes
    if len(values) != plain:
        raise TypeError(f"{kind.__name__} has no field {' or '.join(changes.keys() - record.__dict__.keys())}")
    made = _new(kind)
    _set(made, "__dict__", values)
    return made


@cache
def _plain_fields(kind: type[Any]) -> int:
    """Count the fields of a class whose instances are only a `__dict__` of fields; 0 for other classes."""
    fields = attrs.fields(kind)
    acts = any(field.converter or field.validator or not field.init for field in fields)
    keeps = any(isinstance(x, cached_property) for base in kind.__mro__ for x in vars(base).values())
    plain = not acts and not keeps and not hasattr(kind, "__attrs_post_init__") and kind.__dictoffset__
    return len(fields) if plain else 0


@cache
def _arguments(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """List the arguments of a class's constructor, each with the name of its field."""
    return tuple((field.alias or field.name, field.name) for field in attrs.fields(kind) if field.init)


class Itself:
    """Wrap an object as a dictionary key that compares by identity: equal objects have different keys.

    Walks over a body use such keys for facts about statements, since hashing a statement's contents is slow.

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
