"""The pass that computes sums over one chosen place without a fold, as the gradient of a loss of classes has them."""

from __future__ import annotations

from fireiron.graph.composites import Ops
from fireiron.graph.nodes import Builder, Graph, Node, rewritten


def one_hots(graph: Graph) -> Graph:
    """Replace sums over an axis of a value at one place of it, and zeros elsewhere, by the value.

    The place may lie outside the axis; the sum is 0 then.

    Example:
        >>> import numpy as np
        >>> from fireiron import tensor
        >>> from fireiron.graph.trace import trace_graph
        >>> def slope(y, row):
        ...     return np.where(np.arange(32) == row.reshape(8, 1), y.reshape(8, 1), 0.0).sum(1)
        >>> print(one_hots(trace_graph(slope, (8,), tensor(8, dtype="i32")).optimised()).nodes[-1].op)
        select
    """
    return rewritten(graph, _changed)


def _changed(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
    axes: tuple[int, ...] = tuple(node["axes"]) if node.op == "sum" else ()
    if len(axes) != 1:
        return None
    (axis,), chosen = axes, b.nodes[inputs[0]]
    if chosen.op != "select" or chosen.dtype.kind != "float" or not _is_zero(b, chosen.inputs[2]):
        return None
    rank = len(chosen.shape)
    condition, value, _ = chosen.inputs
    factors = _factors(b, condition)
    places = [i for i in factors if not _is_even(b, i, axis, rank)]
    if not _is_even(b, value, axis, rank) or len(places) != 1 or b.nodes[places[0]].op != "eq":
        return None
    sides = b.nodes[places[0]].inputs
    place = next((other for one, other in (sides, sides[::-1]) if _counts(b, one, axis, rank)), None)
    if place is None or not _is_even(b, place, axis, rank) or b.nodes[place].dtype.kind != "int":
        return None
    o = Ops(b)
    kind, extent = b.nodes[place].dtype, chosen.shape[axis]
    inside = o.mul(o.le(b.constant(0, kind), place), o.lt(place, b.constant(extent, kind)))
    for other in factors:
        inside = inside if other == places[0] else o.mul(inside, other)
    made = o.select(inside, value, b.constant(0, chosen.dtype))
    whole = tuple(1 if a == axis else n for a, n in enumerate(chosen.shape))
    made = made if o.shape(made) == whole else o.broadcast(made, shape=whole)
    return made if node.shape == whole else o.reshape(made, shape=node.shape)


def _factors(b: Builder, number: int) -> list[int]:
    """List the conditions that all hold where a condition does."""
    node = b.nodes[number]
    both = node.op == "mul" and node.dtype.name == "u8"
    return [x for i in node.inputs for x in _factors(b, i)] if both else [number]


def _is_even(b: Builder, number: int, axis: int, rank: int) -> bool:
    """Say whether a value is the same along an axis of a shape that it broadcasts to."""
    shape = b.nodes[number].shape
    place = axis - rank + len(shape)
    return place < 0 or shape[place] == 1


def _counts(b: Builder, number: int, axis: int, rank: int) -> bool:
    """Say whether a value is the coordinate along an axis."""
    node = b.nodes[number]
    if node.op == "reshape":
        (inner,) = (b.nodes[i] for i in node.inputs)
        line = inner.op == "iota" and len(inner.shape) == 1
        place = axis - rank + len(node.shape)
        return line and place >= 0 and node.shape[place] == inner.shape[0]
    return node.op == "iota" and node["axis"] == axis - rank + len(node.shape)


def _is_zero(b: Builder, number: int) -> bool:
    node = b.nodes[number]
    return (node.op == "constant" and node["value"] == 0) or (node.op == "broadcast" and _is_zero(b, node.inputs[0]))
