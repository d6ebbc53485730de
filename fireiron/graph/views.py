"""Where elements of nodes lie: a view is an offset and strides in the memory of the node that computes the elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import attrs

from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.operations import Shape

Order = tuple[int, ...]


@attrs.frozen
class View:
    """Describe the memory of a node's elements.

    Args:
        node: number of the node that owns the memory.
        offset: elements from the start of this memory.
        shape: the extents.
        strides: elements from one index to the next along each axis; 0 where a value repeats.
    """

    node: int
    offset: int
    shape: Shape
    strides: tuple[int, ...]


def dense(shape: Shape, order: Order | None = None) -> tuple[int, ...]:
    """Return the strides of a dense array; the last axis of `order` is contiguous.

    Example:
        >>> dense((2, 3, 4)), dense((2, 3, 4), (1, 0, 2))
        ((12, 4, 1), (4, 8, 1))
    """
    strides, step = [0] * len(shape), 1
    for axis in reversed(order if order is not None else range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def order_of(view: View) -> Order | None:
    """Return the axes from the largest stride to the smallest; None where this is the order of the shape.

    Example:
        >>> order_of(View(0, 0, (2, 3, 4), (4, 8, 1))), order_of(View(0, 0, (2, 3), (3, 1)))
        ((1, 0, 2), None)
    """
    found = tuple(sorted(range(len(view.shape)), key=lambda a: (-view.strides[a], -view.shape[a])))
    return None if found == tuple(range(len(found))) else found


def reshaped(shape: Shape, strides: Sequence[int], new: Shape) -> tuple[int, ...] | None:
    """Return the strides of the same elements in another shape; None where a copy is needed.

    Example:
        >>> reshaped((4, 8), (16, 1), (4, 2, 4)), reshaped((4, 8), (1, 4), (32,))
        ((16, 4, 1), None)
    """
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    place = 0
    wanted = [n for n in new if n != 1]
    at = 0
    while at < len(wanted):
        # The fewest axes of both sides that hold equally many elements.
        left, right, first, start = old[place][0], wanted[at], place, at
        while left != right:
            if left < right:
                place += 1
                left *= old[place][0]
            else:
                at += 1
                right *= wanted[at]
        run = old[first : place + 1]
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(run)):
            return None
        step = run[-1][1]
        part: list[int] = []
        for n in reversed(wanted[start : at + 1]):
            part.insert(0, step)
            step *= n
        found += part
        place, at = place + 1, at + 1
    rest = iter(found)
    return tuple(0 if n == 1 else next(rest) for n in new)


def views_of(graph: Graph, orders: Mapping[int, Order]) -> dict[int, View | None]:
    """Return, for each node, where its elements lie; None for views that strides cannot express.

    Args:
        graph: the graph.
        orders: the order of axes in memory, for nodes where it is not the shape's order.
    """
    found: dict[int, View | None] = {}
    for number, node in enumerate(graph.nodes):
        if node.kind != "view":
            apart = dict(node.attributes).get("strides") if node.op == "input" else None
            found[number] = View(number, 0, node.shape, apart or dense(node.shape, orders.get(number)))
            continue
        base = found[node.inputs[0]]
        found[number] = None if base is None else _viewed(base, node.op, node.shape, dict(node.attributes))
    return found


def _viewed(base: View, op: str, shape: Shape, attributes: Mapping[str, tuple[int, ...]]) -> View | None:
    if op == "transpose":
        axes = attributes["axes"]
        return attrs.evolve(base, shape=shape, strides=tuple(base.strides[a] for a in axes))
    if op == "slice":
        starts, steps = attributes["starts"], attributes["steps"]
        offset = base.offset + sum(a * s for a, s in zip(starts, base.strides, strict=True))
        strides = tuple(a * s for a, s in zip(steps, base.strides, strict=True))
        return attrs.evolve(base, offset=offset, shape=shape, strides=strides)
    if op == "broadcast":
        lead = len(shape) - len(base.shape)
        strides = tuple(
            0 if i < lead or (base.shape[i - lead] == 1 and n != 1) else base.strides[i - lead]
            for i, n in enumerate(shape)
        )
        return attrs.evolve(base, shape=shape, strides=strides)
    strides = reshaped(base.shape, base.strides, shape)
    return None if strides is None else attrs.evolve(base, shape=shape, strides=strides)


def orders_of(graph: Graph) -> dict[int, Order]:
    """Choose the order of axes in memory of results that are transposed, then reshaped, such as heads that are merged.

    Inputs and results of a library's calls have the orders that their nodes say.
    """
    found: dict[int, Order] = {}
    for number, node in enumerate(graph.nodes):
        if "order" in dict(node.attributes):
            found[number] = tuple(node["order"])
        if node.kind in ("view", "source", "foreign", "copy"):
            continue
        turned = [u for u in graph.users[number] if graph.nodes[u].op == "transpose"]
        reads = [(u, r) for u in turned for r in graph.users[u] if graph.nodes[r].op == "reshape"]
        if reads and len(turned) == len(graph.users[number]):
            last = len(node.shape) - 1  # the axis whose elements are best written side by side
            orders = [*(tuple(graph.nodes[u]["axes"]) for u, _ in reads), tuple(range(len(node.shape)))]
            found[number] = min(orders, key=lambda o: (_lost(graph, node.shape, o, reads), o[-1] != last))
    return found


def _lost(graph: Graph, shape: Shape, order: Order, reads: Sequence[tuple[int, int]]) -> int:
    """Count the transposes whose reshape would need a copy, if an array had this order of axes."""
    strides = dense(shape, order)
    lost = 0
    for turned, read in reads:
        axes: Order = graph.nodes[turned]["axes"]
        steps = tuple(strides[a] for a in axes)
        lost += reshaped(graph.nodes[turned].shape, steps, graph.nodes[read].shape) is None
    return lost


def materialised(graph: Graph) -> tuple[Graph, dict[int, Order]]:
    """Insert a copy before each view that strides cannot express; return the graph and the orders of axes in memory."""
    while True:
        orders = orders_of(graph)
        views = views_of(graph, orders)
        lost = next((i for i, view in views.items() if view is None), None)
        if lost is None:
            return graph, orders
        source = graph.nodes[lost].inputs[0]
        b, new = Builder(), dict[int, int]()
        for number, node in enumerate(graph.nodes):
            inputs = tuple(new[i] for i in node.inputs)
            if number == lost:
                inputs = (b.add("copy", new[source]),)
            new[number] = b.copy(node, inputs)
        graph = b.graph(graph.name, [new[i] for i in graph.outputs])


def outputs_apart(graph: Graph, together: Sequence[int] = ()) -> Graph:
    """Insert copies for outputs that are inputs or numbers, or share memory with another output.

    Args:
        graph: the graph.
        together: a number for each output; outputs with equal numbers may share memory. Empty if no outputs may.
    """
    b, new = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        new[number] = b.copy(node, tuple(new[i] for i in node.inputs))
    made: list[int] = []
    bases: dict[int, int] = {}
    groups = together or range(len(graph.outputs))
    for i, group in zip(graph.outputs, groups, strict=True):
        base = i
        while graph.nodes[base].kind == "view":
            base = graph.nodes[base].inputs[0]
        apart = graph.nodes[base].kind == "source" or bases.setdefault(base, group) != group
        made.append(b.add("copy", new[i]) if apart else new[i])
    return b.graph(graph.name, made)
