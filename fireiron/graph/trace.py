"""Trace Python functions: a function is called once, with stand-ins for arrays that record each operation.

The function is written for NumPy: operators, methods, ufuncs and functions such as `np.sum`, `np.where` and
`np.concatenate`. A NumPy function without an operation in the graph is kept as a call of NumPy (`foreign`).
"""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

from fireiron.algebra.dtypes import DType, f32, u8
from fireiron.base.contract import shown
from fireiron.base.errors import SpecError
from fireiron.base.link import here
from fireiron.graph.nodes import Graph
from fireiron.graph.trace_array import Array
from fireiron.graph.trace_types import TRUTHS, Tracing, kind_of, type_name
from fireiron.language.tensor import Tensor


def trace_graph(function: Callable[..., Any], *arrays: Any, name: str = "", fixed: Sequence[str] = ()) -> Graph:
    """Trace a function of arrays that is written for NumPy, and return its graph.

    Args:
        function: a function of arrays that returns one array or a tuple. `fireiron.nn` has softmax, norms and
            attention.
        arrays: for each parameter a description: `tensor(2, 3, dtype="f16")`, a shape (of f32), or an array.
        name: name of the graph; the function's by default.
        fixed: names of arrays that seldom change, such as weights. Values that depend on them alone are computed once,
            and again after they change, if the library counts writes (torch). Products of one array with several of
            them are merged.

    Raises:
        SpecError: `graph-fixed`, `graph-shape`, `graph-axis`, `graph-value` where the function reads elements,
            `graph-output`, `graph-arrays` where `arrays` has no array.

    Example:
        >>> import numpy as np
        >>> def layer(x, w, b):
        ...     return np.maximum(x @ w + b, 0)
        >>> print(trace_graph(layer, (64, 32), (32, 16), (16,)))
        layer(x[64, 32].f32, w[32, 16].f32, b[16].f32)
          %1 = x @ w           [64, 16].f32
          %2 = %1 + b          [64, 16].f32
          %3 = maximum(%2, 0)  [64, 16].f32
          return %3
    """
    builder = Tracing()
    called = name or getattr(function, "__name__", "graph")
    given: list[Array] = []
    labels = _labels(function, len(arrays))
    if unknown := [label for label in fixed if label not in labels]:
        raise SpecError(
            "graph-fixed", f"{called} has no array {unknown[0]!r}", fix="arrays: " + ", ".join(labels), link=here()
        )
    for label, each in zip(labels, arrays, strict=True):
        shape, kind = _described(each)
        given.append(Array(builder, builder.input(label, shape, kind, label in fixed)))
        if kind == u8 and type_name(getattr(each, "dtype", "")) in TRUTHS:
            builder.truths.add(given[-1].number)
    made = function(*given)
    results = cast("tuple[object, ...]", tuple(made) if isinstance(made, tuple | list) else (made,))
    if not results or not all(isinstance(x, Array) for x in results):
        raise SpecError(
            "graph-output",
            f"{called} returned {shown(made)}",
            fix="return an array that is computed from its arguments, or a tuple of them",
            link=here(),
        )
    return builder.graph(
        called if called.isidentifier() else "graph", [x.number for x in results if isinstance(x, Array)]
    )


def _described(each: Any) -> tuple[tuple[int, ...], DType]:
    if isinstance(each, Tensor) and all(isinstance(n, int) for n in each.shape):
        return cast("tuple[int, ...]", each.shape), each.dtype
    if isinstance(each, tuple) and all(isinstance(n, int) and n > 0 for n in cast("tuple[object, ...]", each)):
        return cast("tuple[int, ...]", each), f32
    if hasattr(each, "shape") and hasattr(each, "dtype") and not isinstance(each, Tensor):
        given: Any = each
        return tuple(given.shape), kind_of(given.dtype)
    raise SpecError(
        "graph-arrays",
        f"{shown(each)} describes no array of known extents",
        fix='give a shape, tensor(2, 3, dtype="f16"), or an array',
        link=here(),
    )


def _labels(function: Callable[..., Any], number: int) -> list[str]:
    """Name the inputs after the function's parameters."""
    try:
        known = [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        known = []
    names = [p.name for p in known][:number]
    return names + [f"x{i}" for i in range(len(names), number)]
