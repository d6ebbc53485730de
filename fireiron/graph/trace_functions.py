"""NumPy's functions of traced arrays: products, folds, choices, and functions that move elements."""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fireiron.algebra.dtypes import i32, u8
from fireiron.base.errors import SpecError
from fireiron.base.link import here
from fireiron.graph.operations import misfit
from fireiron.graph.trace_array import Array
from fireiron.graph.trace_foreign import foreign
from fireiron.graph.trace_subscripts import axes_in, gathered, place_of
from fireiron.graph.trace_types import applied, is_condition, kind_of_numbers, lifted


def matmul(a: Any, b: Any) -> Array:
    """Multiply matrices, or a matrix and a vector, as `np.matmul` does."""
    builder = next(x.builder for x in (a, b) if isinstance(x, Array))
    kind = next(x.kind for x in (a, b) if isinstance(x, Array))
    left, right = (Array(builder, lifted(builder, x, kind)) for x in (a, b))
    one, other = left.ndim == 1, right.ndim == 1
    left = left.reshape(1, -1) if one else left
    right = right.reshape(-1, 1) if other else right
    made = applied(builder, "matmul", left, right)
    made = made != 0 if is_condition(left) and is_condition(right) else made
    shape = list(made.shape)
    if other:
        shape.pop(-1)
    if one:
        shape.pop(-1 if other else -2)
    return made.reshape(shape) if one or other else made


def bits(name: str, x: Any, y: Any) -> Array:
    """Combine conditions, or the bits of integers."""
    builder = next(v.builder for v in (x, y) if isinstance(v, Array))
    if name != "xor" and is_condition(x) and is_condition(y):
        return applied(builder, "mul" if name == "and" else "maximum", x, y)
    return foreign(builder, f"bitwise_{name}", getattr(np, f"bitwise_{name}"), (x, y))


def fold(x: Any, op: str, axis: Any, keepdims: Any, others: Mapping[str, Any] | None = None) -> Array:
    """Fold along axes, in the type in which NumPy folds; with further options, NumPy itself does."""
    others = {option: value for option, value in (others or {}).items() if value is not None}
    if others:
        return foreign(x.builder, op, getattr(np, op), (x,), {"axis": axis, "keepdims": keepdims, **others})
    if x.kind.kind == "int" and op == "mean":
        x = x.astype(np.float32)
    if x.kind.kind == "int" and x.kind.bits < i32.bits and op in ("sum", "prod"):
        x = x.astype(np.int32)
    return applied(x.builder, op, x, axes=axes_in(x, axis), keepdims=bool(keepdims))


def where(condition: Any, x: Any = None, y: Any = None) -> Array:
    """Choose elements by a condition."""
    if x is None or y is None:
        raise condition.no_value("the number of elements where a condition holds")
    known = [v for v in (condition, x, y) if isinstance(v, Array)]
    if len({is_condition(v) for v in (x, y)}) > 1:  # a condition beside a number is an integer
        x, y = (v.astype(np.int32) if isinstance(v, Array) and is_condition(v) else v for v in (x, y))
    kind = next((v.kind for v in (x, y) if isinstance(v, Array)), None) or kind_of_numbers(x, y)
    builder = known[0].builder
    return applied(
        builder, "select", *(Array(builder, lifted(builder, v, k)) for v, k in ((condition, u8), (x, kind), (y, kind)))
    )


def _any(x: Any, axis: Any = None, keepdims: Any = False) -> Array:
    return fold(x if is_condition(x) else x != 0, "max", axis, keepdims)


def _all(x: Any, axis: Any = None, keepdims: Any = False) -> Array:
    return fold(x if is_condition(x) else x != 0, "min", axis, keepdims)


def _dot(x: Any, y: Any) -> Array:
    builder = next(v.builder for v in (x, y) if isinstance(v, Array))
    ranks = {np.ndim(v) if not isinstance(v, Array) else v.ndim for v in (x, y)}
    return matmul(x, y) if ranks <= {1, 2} else foreign(builder, "dot", np.dot, (x, y))


def clip(x: Any, low: Any = None, high: Any = None, **named: Any) -> Array:
    """Limit the elements to a least and a largest number."""
    low, high = (named.get(f"a_{word}", named.get(word, value)) for word, value in (("min", low), ("max", high)))
    builder = next(v.builder for v in (x, low, high) if isinstance(v, Array))
    x = x if low is None else applied(builder, "maximum", x, low)
    return x if high is None else applied(builder, "minimum", x, high)


def _concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Array:
    known = next(x for x in arrays if isinstance(x, Array))
    if axis is None:
        return _concatenate([x.reshape(-1) for x in arrays])
    return applied(known.builder, "concatenate", *arrays, axis=place_of(known, axis))


def _stack(arrays: Sequence[Any], axis: int = 0) -> Array:
    known = next(x for x in arrays if isinstance(x, Array))
    place = place_of(known, axis, 1)
    if shapes := [x.shape for x in arrays if x.shape != known.shape]:
        raise misfit(f"{known.shape} and {shapes[0]} do not stack", "give arrays of one shape").located(here())
    shape = (*known.shape[:place], 1, *known.shape[place:])
    return _concatenate([x.reshape(shape) for x in arrays], place)


def _expand_dims(x: Any, axis: int | Sequence[int]) -> Array:
    given = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    places = [place_of(x, a, len(given)) for a in given]
    if len(set(places)) < len(places):
        raise SpecError("graph-axis", f"the axes {axis} repeat one", fix="name each axis once", link=here())
    shape = list(x.shape)
    for place in sorted(places):
        shape.insert(place, 1)
    return x.reshape(shape)


def _squeeze(x: Any, axis: Any = None) -> Array:
    gone = axes_in(x, axis) if axis is not None else tuple(i for i, n in enumerate(x.shape) if n == 1)
    return x.reshape([n for i, n in enumerate(x.shape) if i not in gone])


def _split(x: Any, parts: Any, axis: int = 0) -> list[Array]:
    axis = place_of(x, axis)
    extent = x.shape[axis]
    parts = int(parts) if isinstance(parts, np.integer) else parts
    if isinstance(parts, int) and (parts < 1 or extent % parts):
        raise misfit(f"{extent} elements do not split into {parts} equal parts", "give a divisor").located(here())
    ends = [i * extent // parts for i in range(1, parts)] if isinstance(parts, int) else list(parts)
    bounds = [0, *ends, extent]
    lead = (slice(None),) * axis
    return [x[(*lead, slice(a, b))] for a, b in pairwise(bounds)]


def _folding(op: str) -> Callable[..., Array]:
    return lambda x, *given, **named: getattr(x, op)(*given, **named)


def _take(x: Any, ids: Any, axis: int | None = None) -> Array:
    if not isinstance(x, Array):
        return foreign(ids.builder, "take", np.take, (x, ids), {"axis": axis})
    if axis is None:
        return gathered(x.reshape(-1), ids)
    if place_of(x, axis) == 0:
        return gathered(x, ids)
    return foreign(x.builder, "take", np.take, (x, ids), {"axis": axis})


def _take_along_axis(x: Any, ids: Any, axis: int) -> Array:
    if not isinstance(x, Array) or not isinstance(ids, Array):
        known = x if isinstance(x, Array) else ids
        return foreign(known.builder, "take_along_axis", np.take_along_axis, (x, ids), {"axis": axis})
    return applied(x.builder, "take_along_axis", x, ids, axis=place_of(x, axis))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{op: _folding(op) for op in ("sum", "prod", "max", "min", "mean")},
    "amax": _folding("max"),
    "amin": _folding("min"),
    "var": _folding("var"),
    "std": _folding("std"),
    "where": where,
    "clip": clip,
    "reshape": lambda x, shape=None, **named: x.reshape(shape if shape is not None else named["newshape"]),
    "transpose": lambda x, axes=None: x.transpose(axes),
    "swapaxes": lambda x, one, other: x.swapaxes(one, other),
    "broadcast_to": lambda x, shape, **_: applied(x.builder, "broadcast", x, shape=tuple(np.broadcast_shapes(shape))),
    "concatenate": _concatenate,
    "stack": _stack,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "split": _split,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "any": _any,
    "all": _all,
    "dot": _dot,
    "copy": lambda x: x.copy(),
    "zeros_like": lambda x, dtype=None, **_: np.zeros(x.shape, dtype or x.dtype),
    "ones_like": lambda x, dtype=None, **_: np.ones(x.shape, dtype or x.dtype),
}
