"""Subscripts and axes of traced arrays, as NumPy counts them."""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

import operator
from typing import Any, cast

import numpy as np

from fireiron.base.contract import shown
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.graph.operations import axes_of, misfit
from fireiron.graph.trace_array import Array
from fireiron.graph.trace_foreign import foreign
from fireiron.graph.trace_types import applied, is_condition


def place_of(x: Any, axis: Any, more: int = 0) -> int:
    """Return an axis counted from 0, of an array that gets some more.

    Raises:
        SpecError: `graph-axis`.
    """
    try:
        (place,) = axes_of(operator.index(axis), x.ndim + more)
    except FireironError as error:
        raise error.located(here()) from None
    except TypeError:
        raise SpecError("graph-axis", f"axis {shown(axis)}", fix="give an integer", link=here()) from None
    return place


def axes_in(x: Any, axis: Any) -> tuple[int, ...]:
    """Return axes counted from 0, all for None.

    Raises:
        SpecError: `graph-axis`.
    """
    if axis is None:
        return tuple(range(x.ndim))
    given = [place_of(x, a) for a in (axis if isinstance(axis, tuple) else (axis,))]
    if len(set(given)) < len(given):
        raise SpecError("graph-axis", f"the axes {axis} repeat one", fix="name each axis once", link=here())
    return tuple(sorted(given))


def sliced(x: Array, subscripts: Any) -> Array:
    """Read an array at subscripts.

    Raises:
        SpecError: `graph-value` for conditions, `graph-shape` for subscripts that the array does not have.
    """
    given = subscripts if isinstance(subscripts, tuple) else (subscripts,)
    if any(isinstance(s, Array) and is_condition(s) for s in given):
        raise x.no_value("the number of elements that a condition selects")
    if len(given) == 1 and isinstance(given[0], Array):
        return gathered(x, given[0])
    if any(isinstance(s, bool | np.bool_) for s in given) or not all(
        s is None or s is Ellipsis or isinstance(s, slice | int | np.integer) for s in given
    ):
        return foreign(x.builder, "getitem", lambda a: a[subscripts], (x,))
    plain = [s for s in given if s is not None and s is not Ellipsis]
    rest = x.ndim - len(plain)
    if rest < 0 or sum(s is Ellipsis for s in given) > 1:
        error = misfit(f"{len(plain)} subscripts of an array of rank {x.ndim}", "give one for each axis")
        raise error.located(here())
    if Ellipsis not in given:
        given = (*given, Ellipsis)
    starts, stops, steps, shape = [0] * x.ndim, list(x.shape), [1] * x.ndim, list[int]()
    axis = 0
    for s in given:
        if s is None:
            shape.append(1)
        elif s is Ellipsis:
            shape += x.shape[axis : axis + rest]
            axis += rest
        elif isinstance(s, slice):
            starts[axis], stops[axis], steps[axis] = s.indices(x.shape[axis])
            shape.append(len(range(*s.indices(x.shape[axis]))))
            axis += 1
        else:
            at, extent = operator.index(cast(Any, s)), x.shape[axis]
            if not -extent <= at < extent:
                raise misfit(f"subscript {at} of {extent} elements", "count from 0, or from -1 at the end").located(
                    here()
                )
            at %= extent
            starts[axis], stops[axis] = at, at + 1
            axis += 1
    if any(step < 0 for step in steps) or 0 in shape:
        return foreign(x.builder, "getitem", lambda a: a[subscripts], (x,))
    whole = starts == [0] * x.ndim and stops == list(x.shape) and steps == [1] * x.ndim
    cut = x if whole else applied(x.builder, "slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))
    return cut if tuple(shape) == cut.shape else cut.reshape(shape)


def gathered(x: Array, ids: Any) -> Array:
    """Take lines along the first axis."""
    if isinstance(ids, Array) and ids.kind.kind != "int":
        raise SpecError("graph-value", f"subscripts of {ids.kind}", fix="convert them: i.astype(np.int32)", link=here())
    if not isinstance(ids, Array):
        ids = np.asarray(ids)
        if ids.dtype.kind not in "iu" or (ids.size and not -len(x) <= ids.min() <= ids.max() < len(x)):
            raise misfit(
                f"subscripts {shown(ids)} of {len(x)} elements", "give integers from 0, or from -1 at the end"
            ).located(here())
        ids = ids.astype(np.int32)
    return applied(x.builder, "gather", x, ids)
