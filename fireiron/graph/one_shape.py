"""The pass that computes folds of rows in the shape in which operations behind a reshape read them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fireiron.graph.motion import kept_axes
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.operations import Shape


def in_one_shape(graph: Graph) -> Graph:
    """Where rows are folded, then reshaped for other operations, reshape what the folds read instead.

    A loss of classes then reads rows once: the scores of all tokens are one list of rows, as their classes are. This
    must run behind `move`, which would undo it. `raise_reshapes` does the same before points that read inputs alone.

    Example:
        >>> import numpy as np
        >>> from fireiron.graph.trace import trace_graph
        >>> def centred(x, y):
        ...     return (x - x.max(-1, keepdims=True)).reshape(32, 16) * y
        >>> print(in_one_shape(trace_graph(centred, (4, 8, 16), (32, 16))))
        centred(x[4, 8, 16].f32, y[32, 16].f32)
          %1 = reshape(x, shape=(32, 16))         [32, 16].f32
          %2 = max(%1, axes=(1,), keepdims=True)  [32, 1].f32
          %3 = %1 - %2                            [32, 16].f32
          %4 = %3 * y                             [32, 16].f32
          return %4
    """
    while (found := next(_folded(graph), None)) is not None:
        graph = _raised(graph, *found)
    return graph


def _folded(graph: Graph) -> Iterator[tuple[int, set[int]]]:
    """Visit the reshapes of folded rows that folds and points read, each with the operations before it (`_cone`)."""
    for number, node in enumerate(graph.nodes):
        if node.op == "reshape" and any(graph.nodes[u].kind in ("pointwise", "fold") for u in graph.users[number]):
            cone = _cone(graph, number)
            if any(graph.nodes[n].kind == "fold" for n in cone):
                yield number, cone


def _cone(graph: Graph, reshape: int) -> set[int]:
    """Find the operations on rows from which a reshape's input is computed; empty if rows do not have one shape.

    Operations are left out whose results are wider than one value a row and have other readers: products or the caller
    would have to reshape them back. If such a reader is a fold or a point, the set is empty: its kernel can compute the
    operations in the old shape.
    """
    (first,) = graph.nodes[reshape].inputs
    whole, after = graph.nodes[first].shape, graph.nodes[reshape].shape
    lead = len(whole) - kept_axes(whole, after)
    if not lead or prod(whole[lead:]) == 1:
        return set()
    shared = set[int]()
    while (found := _before(graph, first, lead, shared)) and first not in shared:
        wide = {n for n in found if prod(graph.nodes[n].shape[lead:]) > 1}
        readers = {n: {*graph.users[n]} - found - {reshape} for n in wide}
        others = {n for n in wide if n in graph.returned or readers[n]}
        if not others:
            return found
        if any(graph.nodes[u].kind in ("pointwise", "fold") for n in others for u in readers[n]):
            return set()
        shared |= others
    return set()


def _before(graph: Graph, first: int, lead: int, shared: set[int]) -> set[int]:
    """Find the operations on rows from which a value is computed; empty if rows do not have one shape.

    Args:
        graph: the graph.
        first: the value.
        lead: number of the axes that count rows.
        shared: operations that are left out.
    """
    whole, found, left = graph.nodes[first].shape, set[int](), [first]
    while left:
        n = left.pop()
        node = graph.nodes[n]
        if n in found or n in shared or len(node.shape) <= len(whole) - lead:  # one value for all rows
            continue
        if node.shape[:lead] != whole[:lead] or len(node.shape) != len(whole):
            return set()
        folded = tuple(node["axes"]) if node.kind == "fold" and node["keepdims"] else ()
        rows = node.kind == "pointwise" and node.op != "copy"
        if rows or (folded and min(folded) >= lead):
            found.add(n)
            left += node.inputs
        elif node.kind == "view" and node.op != "reshape":  # its elements may not lie as rows
            return set()
    return found


def _raised(graph: Graph, reshape: int, cone: set[int]) -> Graph:
    """Compute operations in the shape behind a reshape, of reshaped inputs; other readers see the old shape."""
    (first,) = graph.nodes[reshape].inputs
    whole, after = graph.nodes[first].shape, graph.nodes[reshape].shape
    tail = kept_axes(whole, after)
    lead, rows = len(whole) - tail, after[: len(after) - tail]
    b, new, turned = Builder(), dict[int, int](), dict[int, int]()

    def there(number: int) -> int:
        """Return a value in the shape behind the reshape."""
        shape: Shape = graph.nodes[number].shape
        if len(shape) <= tail:
            return new[number]
        if number not in turned:
            turned[number] = b.add("reshape", new[number], shape=(*rows, *shape[lead:]))
        return turned[number]

    for number, node in enumerate(graph.nodes):
        if number in cone:
            said = dict(node.attributes)
            if node.kind == "fold":
                said["axes"] = tuple(a - lead + len(rows) for a in node["axes"])
            turned[number] = b.add(node.op, *map(there, node.inputs), **said)
            readers = (u for u in graph.users[number] if u not in cone and u != reshape)
            if number in graph.returned or any(True for _ in readers):
                new[number] = b.add("reshape", turned[number], shape=node.shape)
        elif number == reshape:
            new[number] = turned[first]
        else:
            new[number] = b.copy(node, tuple(new[i] for i in node.inputs))
    return b.graph(graph.name, [new[i] for i in graph.outputs])
