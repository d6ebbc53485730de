"""Calls of NumPy functions that have no operation in a graph: each is kept as a node that calls the function."""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.graph.trace_array import Array
from fireiron.graph.trace_types import Tracing, is_condition, kind_of


def foreign(builder: Tracing, label: str, call: Callable[..., Any], args: Sequence[Any], named: Any = None) -> Any:
    """Keep a call of a NumPy function, one for each of its results; it is called with zeros to find their shapes.

    Raises:
        SpecError: `graph-value` where NumPy refuses the arguments, and where the shapes depend on elements.
    """
    arrays: list[Array] = []

    def opened(value: Any, take: Callable[[Array], Any]) -> Any:
        if isinstance(value, Array):
            return take(value)
        if isinstance(value, tuple | list):
            return type(value)(opened(x, take) for x in cast("Sequence[Any]", value))
        return value

    def noted(x: Array) -> Any:
        arrays.append(x)
        return np.zeros(x.shape, bool if is_condition(x) else x.kind.numpy)

    options = dict(named or {})
    opened(tuple(options.values()), noted)
    if arrays:
        raise arrays[0].no_value(f"an option of np.{label}")
    given = [opened(x, noted) for x in args]
    truths = [is_condition(x) for x in arrays]
    try:
        with np.errstate(all="ignore"):
            made = call(*given, **options)
            parts = [np.asarray(x) for x in (made if isinstance(made, tuple | list) else (made,))]
    except FireironError:
        raise
    except Exception as error:
        raise SpecError(
            "graph-value", f"np.{label}: {error}", fix="give arguments that NumPy takes", link=here()
        ) from error
    if _shapes_of_others(call, [opened(x, _counted) for x in args], options) not in (None, [x.shape for x in parts]):
        raise arrays[0].no_value(f"the number of elements that np.{label} gives")

    def run(place: int | None) -> Callable[..., Any]:
        def called(*values: Any) -> Any:
            rest = (x != 0 if truth else x for x, truth in zip(values, truths, strict=True))
            result = call(*[opened(x, lambda _: next(rest)) for x in args], **options)
            return result if place is None else result[place]

        return called

    def kept(part: Any, place: int | None) -> Array:
        numbers, shape = [x.number for x in arrays], tuple(part.shape)
        kind = kind_of(part.dtype)
        number = builder.add("foreign", *numbers, label=label, call=run(place), shape=shape, dtype=kind)
        if part.dtype == np.bool_:
            builder.truths.add(number)
        return Array(builder, number)

    if isinstance(made, tuple | list):
        return tuple(kept(part, place) for place, part in enumerate(parts))
    return kept(parts[0], None)


def _counted(x: Array) -> Any:
    """Make an array of a traced one's shape and type whose elements differ."""
    made = np.arange(x.size).reshape(x.shape)
    return made % 2 == 1 if is_condition(x) else made.astype(x.kind.numpy)


def _shapes_of_others(call: Callable[..., Any], given: Sequence[Any], options: Any) -> list[Any] | None:
    """Return the shapes of a function's results for elements that differ; None where it refuses such elements."""
    try:
        with np.errstate(all="ignore"):
            made = call(*given, **options)
    except Exception:
        return None
    return [np.shape(x) for x in (made if isinstance(made, tuple | list) else (made,))]
