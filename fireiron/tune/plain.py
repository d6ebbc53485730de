"""Plain data from files that anyone may have written: depth, size, numbers and texts within limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import attrs

from fireiron.base.text import printable

DEEPEST = 12
MOST_VALUES = 1000
LONGEST = 4000  # characters of a text
LARGEST = 2**53


def checked(facts: object) -> dict[str, Any]:
    """Check that data are a JSON object within the limits, and return them.

    Raises:
        ValueError: for other data; the text names the difference.
    """
    left: list[tuple[object, int]] = [(facts, 0)]
    seen = 0
    while left:
        value, depth = left.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise ValueError(f"it holds more than {MOST_VALUES} values")
        if depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} levels")
        match value:
            case dict():
                pairs = cast("dict[str, object]", value).items()
                left += [(x, depth + 1) for pair in pairs for x in pair]
            case list():
                left += [(x, depth + 1) for x in cast("list[object]", value)]
            case str() if len(value) > LONGEST:
                raise ValueError(f"a text has {len(value)} characters, and at most {LONGEST} are allowed")
            case int() if abs(value) > LARGEST:
                raise ValueError("a number is too large")
            case float() if not math.isfinite(value):
                raise ValueError("a number is not finite")
            case _:
                pass
    if not isinstance(facts, dict):
        raise ValueError("it is no object")
    return cast("dict[str, Any]", facts)


def number(low: float, high: float, *, whole: bool = False, optional: bool = False) -> Any:
    """Make a validator of attrs: a number from `low` to `high`, both included."""

    def check(record: object, field: attrs.Attribute[Any], value: object) -> None:
        if optional and value is None:
            return
        kinds = int if whole else int | float
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            what = "whole number" if whole else "number"
            raise ValueError(f"{field.name} is {_short(value)}, and no {what} from {low:g} to {high:g}")

    return check


def words(most: int = 200) -> Any:
    """Make a validator of attrs: a text without control characters."""

    def check(record: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, str):
            raise ValueError(f"{field.name} is {_short(value)}, and no text")
        if len(value) > most:
            raise ValueError(f"{field.name} has {len(value)} characters, and at most {most} are allowed")
        if not value.isprintable():
            raise ValueError(f"{field.name} holds control characters: {_short(value)}")

    return check


def every(check: Callable[[object], None]) -> Any:
    """Make a validator of attrs from a function that raises ValueError."""

    def validate(record: object, field: attrs.Attribute[Any], value: object) -> None:
        check(value)

    return validate


def _short(value: object) -> str:
    text = printable(repr(value))
    return text if len(text) <= 60 else f"{text[:60]}..."
