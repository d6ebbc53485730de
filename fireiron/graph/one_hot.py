"""The pass that computes sums over one chosen place without a fold, as the gradient of a loss of classes has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs

from fireiron.algebra.dtypes import i32
from fireiron.graph.composites import Ops
from fireiron.graph.motion import widens
from fireiron.graph.nodes import Builder, Graph, Node, rewritten

MOST_STEPS = 32  # operations between a line of numbers and the arrays that it meets


def one_hots(graph: Graph) -> Graph:
    """Replace sums over an axis of a value at one place of it, and zeros elsewhere, by the value.

    The place may lie outside the axis; the sum is 0 then. If the value varies along the axis, only what it is computed
    of is summed: a loss of classes sums scores, and subtracts the largest and the logarithm from the sum.

    Example:
        >>> import numpy as np
        >>> from fireiron import tensor
        >>> from fireiron.graph.trace import trace_graph
        >>> def slope(y, row):
        ...     return np.where(np.arange(32) == row.reshape(8, 1), y.reshape(8, 1), 0.0).sum(1)
        >>> print(one_hots(trace_graph(slope, (8,), tensor(8, dtype="i32")).optimised()).nodes[-1].op)
        select
    """
    return rewritten(_with_coordinates(graph), _changed)


def _with_coordinates(graph: Graph) -> Graph:
    """Replace lines of numbers 0, 1, 2, ... by coordinates, which kernels compute without reading memory.

    A kernel knows the coordinates of points of its arrays. So a line stays an array where what is computed of it is
    folded or returned before it is combined with an array that has the line's axis.
    """
    lines = {
        n
        for n, node in enumerate(graph.nodes)
        if node.op == "array" and _axis_of(node) is not None and _meets(graph, n)
    }
    if not lines:
        return graph
    b, new = Builder(), list[int]()
    for number, node in enumerate(graph.nodes):
        coordinate = number in lines
        new.append(
            b.add("iota", shape=node.shape, axis=_axis_of(node))
            if coordinate
            else b.copy(node, tuple(new[i] for i in node.inputs))
        )
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _axis_of(node: Node) -> int | None:
    """Return the only axis of numbers 0, 1, 2, ... along it, computed or stored; None for other nodes."""
    long = [a for a, n in enumerate(node.shape) if n > 1]
    if node.dtype != i32 or len(long) != 1:
        return None
    if node.op == "iota":
        return long[0] if node["axis"] == long[0] else None
    if node.op != "array":
        return None
    line: Any = node["data"].array.reshape(-1)
    return long[0] if line[0] == 0 and (line[1:] - line[:-1] == 1).all() else None


def _meets(graph: Graph, line: int) -> bool:
    """Say whether all that is computed of a line is combined with values of its shape that are read or computed."""
    left, seen = [line], {line}
    while left:
        n = left.pop()
        if n in graph.returned:
            return False
        for u in graph.users[n]:
            node = graph.nodes[u]
            if node.kind not in ("pointwise", "view") or len(seen) > MOST_STEPS:
                return False
            others = (graph.nodes[i] for i in node.inputs if i not in seen)
            kinds = ("constant", "array", "iota", "broadcast")
            met = node.kind == "pointwise" and any(x.shape == node.shape and x.op not in kinds for x in others)
            left += [] if met or u in seen else [u]
            seen.add(u)
    return True


@attrs.frozen
class Chosen:
    """Hold the parts of a sum of a value at one place of an axis, and zeros elsewhere.

    Args:
        axis: the axis.
        place: node of the place, which may lie outside the axis.
        conditions: nodes of further conditions, which do not vary along the axis.
        value: node of the value.
        select: node that selects the value or zeros. It may be converted to wider floats for the sum.
    """

    axis: int
    place: int
    conditions: tuple[int, ...]
    value: int
    select: int


def chosen_of(nodes: Sequence[Node], fold: Node) -> Chosen | None:
    """Return the parts of a sum over an axis of a value at one place of it; None for other operations.

    Args:
        nodes: the nodes that the operation may read.
        fold: the operation.
    """
    axes: tuple[int, ...] = tuple(fold["axes"]) if fold.op == "sum" else ()
    if len(axes) != 1:
        return None
    (axis,), (select,) = axes, fold.inputs
    while widens(nodes, select):
        (select,) = nodes[select].inputs
    chosen = nodes[select]
    if chosen.op != "select" or chosen.dtype.kind != "float" or not _is_zero(nodes, chosen.inputs[2]):
        return None
    rank = len(chosen.shape)
    condition, value, _ = chosen.inputs
    factors = _factors(nodes, condition)
    places = [i for i in factors if not _is_even(nodes, i, axis, rank)]
    if len(places) != 1 or nodes[places[0]].op != "eq":
        return None
    sides = nodes[places[0]].inputs
    place = next((other for one, other in (sides, sides[::-1]) if _counts(nodes, one, axis, rank)), None)
    if place is None or not _is_even(nodes, place, axis, rank) or nodes[place].dtype.kind != "int":
        return None
    return Chosen(axis, place, tuple(i for i in factors if i != places[0]), value, select)


def _changed(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
    found = chosen_of(b.nodes, attrs.evolve(node, inputs=inputs)) if node.op == "sum" else None
    if found is None:
        return None
    chosen, axis, place, value = b.nodes[inputs[0]], found.axis, found.place, found.value
    steps, source = _steps(b.nodes, value, axis, len(chosen.shape))
    if source is not None and not steps:
        return None
    o = Ops(b)
    kind, extent = b.nodes[place].dtype, chosen.shape[axis]
    inside = list(found.conditions)
    known = _axis_of(b.nodes[place])
    if known is None or b.nodes[place].shape[known] > extent:
        inside += [o.le(b.constant(0, kind), place), o.lt(place, b.constant(extent, kind))]
    made = value
    if source is not None:  # the sum is of what varies, and the steps behind it are computed once a row
        condition, zero = b.nodes[found.select].inputs[0], b.constant(0, b.nodes[source].dtype)
        made = o.sum(o.select(condition, source, zero), axes=(axis,), keepdims=True)
        for before, step in pairwise((source, *reversed(steps))):
            old = b.nodes[step]
            made = b.add(old.op, *(made if i == before else i for i in old.inputs), **dict(old.attributes))
    made = made if b.nodes[made].dtype == chosen.dtype else o.cast(made, dtype=chosen.dtype)
    for each in inside:
        made = o.select(each, made, b.constant(0, chosen.dtype))
    whole = tuple(1 if a == axis else n for a, n in enumerate(chosen.shape))
    made = made if o.shape(made) == whole else o.broadcast(made, shape=whole)
    return made if node.shape == whole else o.reshape(made, shape=node.shape)


def _steps(nodes: Sequence[Node], value: int, axis: int, rank: int) -> tuple[list[int], int | None]:
    """Find the operations on one value that varies along an axis and others that do not, the last one first.

    Returns:
        The operations, and the value; None for the value if the result does not vary.
    """
    steps = list[int]()
    while not _is_even(nodes, value, axis, rank):
        node = nodes[value]
        varying = {i for i in node.inputs if not _is_even(nodes, i, axis, rank)}
        whole = node.kind == "pointwise" and node.op != "copy" and len(varying) == 1
        if not whole or any(nodes[i].dtype.kind != "float" for i in varying):
            while steps and widens(nodes, steps[-1]):
                value = steps.pop()
            return steps, value
        steps.append(value)
        (value,) = varying
    return steps, None


def _factors(nodes: Sequence[Node], number: int) -> list[int]:
    """List the conditions that all hold where a condition does."""
    node = nodes[number]
    both = node.op == "mul" and node.dtype.name == "u8"
    return [x for i in node.inputs for x in _factors(nodes, i)] if both else [number]


def _is_even(nodes: Sequence[Node], number: int, axis: int, rank: int) -> bool:
    """Say whether a value is the same along an axis of a shape that it broadcasts to."""
    shape = nodes[number].shape
    place = axis - rank + len(shape)
    return place < 0 or shape[place] == 1


def _counts(nodes: Sequence[Node], number: int, axis: int, rank: int) -> bool:
    """Say whether a value is the coordinate along an axis."""
    node = nodes[number]
    if node.op == "reshape":
        (inner,), long = node.inputs, [a for a, n in enumerate(node.shape) if n > 1]
        return _axis_of(nodes[inner]) is not None and long == [axis - rank + len(node.shape)]
    return _axis_of(node) == axis - rank + len(node.shape)


def _is_zero(nodes: Sequence[Node], number: int) -> bool:
    node = nodes[number]
    if node.op == "broadcast":
        return _is_zero(nodes, node.inputs[0])
    return node.op == "constant" and node["value"] == 0
