"""Rows and folds that read arrays which lie in different orders: threads would read one of them element by element.

Operations on arrays of one order do not join those on arrays of another, and where one operation reads both, the kernel
gets a copy in the order of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from fireiron.graph.areas import Part
from fireiron.graph.dims import dims_of
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.views import Order, View

Dims: TypeAlias = tuple[str, ...]
LEAST_NBYTES = 1 << 16  # of an array whose order counts


def orders_read(
    graph: Graph, inside: Collection[int], views: Mapping[int, View], free: frozenset[int]
) -> dict[int, Dims]:
    """List the large arrays with all dims that nodes read, each with its dims from the largest stride to the smallest.

    Args:
        graph: the graph.
        inside: the nodes, with the views between them.
        views: where elements lie; nodes without a view do not count.
        free: the nodes that are computed again wherever they are read.
    """
    dims = dims_of(graph, inside, free, alike=True)
    if dims is None:
        return {}
    every = {name for number in inside for name in dims.names.get(number, ()) if name is not None}
    found: dict[int, Dims] = {}
    for i in dict.fromkeys(i for n in inside for i in graph.nodes[n].inputs if i not in inside and i not in free):
        names = dims.names.get(i, ())
        large = i in views and graph.nodes[i].nbytes >= LEAST_NBYTES
        # An array that repeats along a dim has no place for this dim in its order.
        if not large or {name for name, s in zip(names, views[i].strides, strict=False) if name and s} != every:
            continue
        found[i] = by_strides(names, views[i].strides)
    return found


def by_strides(names: Sequence[str | None], strides: Sequence[int]) -> Dims:
    """List the dims of an array's axes, those of the largest strides first; in the axes' order without strides.

    Example:
        >>> by_strides(("b", None, "c", "s"), (96, 0, 1, 8)), by_strides(("b", None, "c"), ())
        (('b', 's', 'c'), ('b', 'c'))
    """
    axes = sorted(range(len(names)), key=lambda a: -strides[a] if strides else a)
    return tuple(name for a in axes if (name := names[a]) is not None)


def following(graph: Graph, views: Mapping[int, View], free: frozenset[int]) -> dict[int, View]:
    """Return where elements would lie if what is computed point by point had its operands' order, as in torch.

    An operand that each reader computes for itself does not count, nor one that repeats along an axis. Left out is what
    has no other operand of its shape, such as a condition that compares rows with columns: it may lie in any order.
    """
    found: dict[int, View] = {}

    def lies(i: int) -> bool:
        view = found.get(i)
        return i not in free and view is not None and all(view.strides[a] for a, n in enumerate(view.shape) if n > 1)

    for number, view in views.items():
        node = graph.nodes[number]
        same = (i for i in node.inputs if graph.nodes[i].shape == node.shape and lies(i))
        follows = node.kind == "pointwise" and node.op != "copy"
        lying = found.get(next(same, -1)) if follows else view
        found |= {} if lying is None else {number: lying}
    return found


def crossed(graph: Graph, inside: Collection[int], views: Mapping[int, View], free: frozenset[int]) -> bool:
    """Say whether nodes read large arrays that are contiguous along different dims."""
    return len({order[-1:] for order in orders_read(graph, inside, views, free).values()}) > 1


def in_one_order(graph: Graph, parts: Sequence[Part], views: Mapping[int, View], free: frozenset[int]) -> Graph | None:
    """Insert copies where rows or folds read arrays that are contiguous along different dims; None where none do.

    Results of all dims decide the order, else the order of which most bytes are read.
    """
    wanted: dict[tuple[int, Order], set[int]] = {}  # by array and order, the operations that read the copy
    for part in parts:
        if part.kind not in ("rows", "reduction"):
            continue
        read = orders_read(graph, part.nodes, views, free)
        if len({order[-1:] for order in read.values()}) < 2:
            continue
        dims = dims_of(graph, part.nodes, free, alike=True)
        assert dims is not None
        nbytes: dict[Dims, int] = {}
        for i, order in read.items():
            nbytes[order] = nbytes.get(order, 0) + graph.nodes[i].nbytes
        for i in part.outputs:
            order = by_strides(dims.names.get(i, ()), views[i].strides)
            if order in nbytes:
                nbytes[order] += sum(nbytes.values())
        best = max(nbytes, key=lambda order: nbytes[order])
        for i, order in read.items():
            if order[-1] == best[-1]:
                continue
            names = dims.names[i]
            last = [a for name in best for a, other in enumerate(names) if other == name]
            axes = *(a for a, name in enumerate(names) if name is None), *last
            readers = {n for n in part.nodes if i in graph.nodes[n].inputs}
            wanted.setdefault((i, axes), set()).update(readers)
    if not wanted:
        return None
    b, new, copies = Builder(), dict[int, int](), dict[tuple[int, Order], int]()
    for number, node in enumerate(graph.nodes):
        known = dict[int, int]()
        for (i, axes), readers in wanted.items():
            if number in readers:
                if (i, axes) not in copies:
                    said: dict[str, Any] = {} if axes == tuple(range(len(axes))) else {"order": axes}
                    copies[i, axes] = b.add("copy", new[i], **said)
                known[i] = copies[i, axes]
        new[number] = b.copy(node, tuple(known.get(i, new[i]) for i in node.inputs))
    return b.graph(graph.name, [new[i] for i in graph.outputs])
