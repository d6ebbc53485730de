"""Dims of a part: axes that a program loops over together become one dim of the program, with one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import attrs

from fireiron.graph.nodes import Graph

Axis = tuple[int, int]  # a node and one of its axes


@attrs.frozen
class Dims:
    """Hold the dims of a set of nodes, which one program computes.

    Args:
        names: by node, the dim of each axis; None for an axis of extent 1.
        folded: the dims that some node of the set folds.
        extents: extent of each dim.
    """

    names: dict[int, tuple[str | None, ...]]
    folded: tuple[str, ...]
    extents: dict[str, int]


def transparent(graph: Graph, number: int) -> bool:
    """Say whether a node is a view that keeps the order of axes: a repeat, or axes of extent 1 added or dropped."""
    node = graph.nodes[number]
    if node.op == "broadcast":
        return True
    if node.op != "reshape":
        return False
    before = graph.nodes[node.inputs[0]].shape
    return [n for n in before if n != 1] == [n for n in node.shape if n != 1]


def pairs(graph: Graph, number: int, right: int | None = None) -> Iterable[tuple[Axis, Axis]]:
    """Yield pairs of an axis of a node's input and the same axis of its result.

    Args:
        graph: the graph of the node.
        number: the node's number.
        right: the number that stands for a product's right operand; the operand's own if None.
    """
    node = graph.nodes[number]
    out = len(node.shape)
    if node.op == "reshape":
        (source,) = node.inputs
        mine = [i for i, n in enumerate(node.shape) if n != 1]
        theirs = [i for i, n in enumerate(graph.nodes[source].shape) if n != 1]
        yield from (((source, a), (number, b)) for a, b in zip(theirs, mine, strict=True))
    elif node.op == "matmul":
        a, b = node.inputs
        left, other = graph.nodes[a].shape, graph.nodes[b].shape
        b = b if right is None else right
        yield (a, len(left) - 2), (number, out - 2)
        yield (b, len(other) - 1), (number, out - 1)
        yield (a, len(left) - 1), (b, len(other) - 2)
        for i, shape in ((a, left), (b, other)):
            for axis in range(len(shape) - 2):
                yield (i, axis), (number, out - len(shape) + axis)
    elif node.kind == "fold":
        (source,), place = node.inputs, 0
        for axis in range(len(graph.nodes[source].shape)):
            if axis not in node["axes"]:
                yield (source, axis), (number, place)
            place += axis not in node["axes"] or bool(node["keepdims"])
    elif node.op == "gather":
        table, ids = node.inputs
        lead = len(graph.nodes[ids].shape)
        yield from (((ids, a), (number, a)) for a in range(lead))
        yield from (((table, a), (number, lead + a - 1)) for a in range(1, len(graph.nodes[table].shape)))
    elif node.op == "take_along_axis":
        table, ids = node.inputs
        yield from (((ids, a), (number, a)) for a in range(out))
        yield from (((table, a), (number, a)) for a in range(out) if a != node["axis"])
    elif node.kind == "scatter":
        (values, ids), axis = node.inputs[:2], int(node["axis"])
        more = len(graph.nodes[values].shape) - out
        yield from (((ids, a), (values, a)) for a in range(out + more))
        yield from (((values, a if a < axis else a + more), (number, a)) for a in range(out) if a != axis)
    else:
        for i in node.inputs:
            shape = graph.nodes[i].shape
            yield from (((i, a), (number, out - len(shape) + a)) for a in range(len(shape)))


def dims_of(
    graph: Graph, members: Iterable[int], free: frozenset[int], twice: bool = False, alike: bool = False
) -> Dims | None:
    """Name the dims of nodes that one program computes; None where two axes of a node would become one dim.

    Nodes of `free` are left out.

    Args:
        graph: the graph of the nodes.
        members: the nodes, with the views between them that keep the order of axes.
        free: the nodes that are computed again wherever they are read.
        twice: whether an array may be read at two places: by a product as its right operand, and by others. Its axes
            then have the dims of the others. Attention whose values are its queries reads such an array.
        alike: whether folds of different arrays of one shape, whose results have the same dims, fold the same dims.
    """
    inside = list(members)
    parent: dict[Axis, Axis] = {}
    stands = _read_twice(graph, inside) if twice else {}  # by product, and for whom
    whose = {mine: graph.nodes[number].inputs[1] for number, mine in stands.items()}

    def find(axis: Axis) -> Axis:
        while parent.setdefault(axis, axis) != axis:
            parent[axis] = parent[parent[axis]]
            axis = parent[axis]
        return axis

    def extent(axis: Axis) -> int:
        return graph.nodes[whose.get(axis[0], axis[0])].shape[axis[1]]

    nodes = dict.fromkeys(inside)
    for number in inside:
        for one, other in pairs(graph, number, stands.get(number)):
            if whose.get(one[0], one[0]) in free or extent(one) != extent(other) or extent(one) == 1:
                continue
            nodes |= dict.fromkeys(n for n, _ in (one, other) if n not in whose)
            parent[find(one)] = find(other)
        for i in graph.nodes[number].inputs:
            if i not in free:
                nodes.setdefault(i)
    for one, other in pairwise(apart(graph, inside)):  # of one shape, side by side
        if graph.nodes[one].shape == graph.nodes[other].shape:
            for a in range(len(graph.nodes[one].shape)):
                parent[find((one, a))] = find((other, a))
    by_lines: dict[tuple[object, ...], Axis] = {}
    for number in inside if alike else ():
        if graph.nodes[number].kind != "fold":
            continue
        (source,), axes = graph.nodes[number].inputs, tuple[int, ...](graph.nodes[number]["axes"])
        shape = graph.nodes[source].shape
        lines = tuple(find((source, a)) for a in range(len(shape)) if a not in axes and shape[a] > 1)
        for a in axes:
            parent[find((source, a))] = find(by_lines.setdefault((lines, shape, axes, a), (source, a)))
    called: dict[Axis, str] = {}
    found: dict[int, tuple[str | None, ...]] = {}
    extents: dict[str, int] = {}
    for number in sorted(nodes, reverse=True):  # dims of the result come before folded dims
        names: list[str | None] = []
        for a, n in enumerate(graph.nodes[number].shape):
            root = find((number, a))
            if n == 1:
                names.append(None)
                continue
            name = called.setdefault(root, f"d{len(called)}")
            extents[name] = n
            names.append(name)
        known = [n for n in names if n is not None]
        if len(set(known)) < len(known):
            return None
        found[number] = tuple(names)
    folded: dict[str, None] = {}
    for number in inside:
        if graph.nodes[number].kind == "fold":
            folded |= dict.fromkeys(folded_by(graph, number, found))
    return Dims(found, tuple(folded), extents)


def _read_twice(graph: Graph, members: list[int]) -> dict[int, int]:
    """Find the products whose right operand is no member and has other readers; give each operand a second number."""
    inside = set(members)
    products = (n for n in members if graph.nodes[n].op == "matmul")
    rights = {n: graph.nodes[n].inputs[1] for n in products if graph.nodes[n].inputs[1] not in inside}
    return {n: -1 - n for n, i in rights.items() if len(inside.intersection(graph.users[i])) > 1}


def apart(graph: Graph, members: Iterable[int]) -> list[int]:
    """Divide the members into sets that do not read each other's results, and return the last node of each set.

    Example:
        >>> from fireiron.graph.trace import trace_graph
        >>> graph = trace_graph(lambda x, y: (-x + 1, -y), (8,), (8,))
        >>> apart(graph, [n for n, node in enumerate(graph.nodes) if node.kind == "pointwise"])
        [4, 5]
    """
    sets: dict[int, set[int]] = {}
    for number in sorted(members):
        mine = {number}.union(*(sets[i] for i in graph.nodes[number].inputs if i in sets))
        sets |= dict.fromkeys(mine, mine)
    return sorted({max(mine) for mine in sets.values()})


def points_of(graph: Graph, number: int, names: Mapping[int, tuple[str | None, ...]]) -> tuple[str | None, ...]:
    """Return the dims of the points at which a node is computed: values that are written to elements have their own."""
    node = graph.nodes[number]
    return names.get(node.inputs[0], ()) if node.kind == "scatter" else names[number]


def folded_by(graph: Graph, number: int, names: Mapping[int, tuple[str | None, ...]]) -> list[str]:
    """List the dims that a fold folds, without axes of extent 1."""
    node = graph.nodes[number]
    source, axes = names.get(node.inputs[0], ()), tuple[int, ...](node["axes"])
    return [name for a, name in enumerate(source) if a in axes and name is not None]


def free_nodes(graph: Graph) -> frozenset[int]:
    """List the nodes that each reader computes for itself: numbers, coordinates, and expressions of these.

    Outputs are not in the list, nor nodes with a reader that is neither pointwise nor a fold.
    """
    found: set[int] = set()
    for number, node in enumerate(graph.nodes):
        made = node.kind == "pointwise" or transparent(graph, number)
        if node.op in ("constant", "iota") or (made and all(i in found for i in node.inputs)):
            found.add(number)
    for number in sorted(found, reverse=True):
        node = graph.nodes[number]
        readers = [graph.nodes[u] for u in graph.users[number] if u not in found]
        needed = number in graph.returned or any(r.kind not in ("pointwise", "fold") for r in readers)
        if needed and node.op not in ("constant", "iota"):
            found.discard(number)
    return frozenset(found)
