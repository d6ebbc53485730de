"""How the operations of one launch stand in a picture: in rows by depth, with the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import attrs

from fireiron.graph.areas import Part
from fireiron.graph.nodes import Graph


@attrs.frozen
class Place:
    """Hold what stands at one place of a row.

    Args:
        node: the number of a node: an operation of the part, or an array that it reads.
        read: whether it is an array that the part reads.
        passed: whether only an edge to a later row passes here.
    """

    node: int
    read: bool = False
    passed: bool = False


@attrs.frozen
class Flow:
    """Hold the rows of a part, first to last, and its edges.

    Args:
        rows: the places of each row, from left to right. The first row has the arrays that the part reads.
        edges: pairs of (row, place in the row) from which and to which an array goes, one row further each. The last
            row holds, or passes, all results of the part.
    """

    rows: tuple[tuple[Place, ...], ...]
    edges: tuple[tuple[tuple[int, int], tuple[int, int]], ...]


def flow(graph: Graph, part: Part) -> Flow:
    """Put each operation below its operands, and order each row by the places of what it reads.

    Numbers, and views that belong to no part, are left out: an operation reads what a view shows.
    """
    inside = set(part.nodes)
    reads = {n: tuple(dict.fromkeys(_sources(graph, n, inside))) for n in part.nodes}
    given = tuple(dict.fromkeys(i for n in part.nodes for i in reads[n] if i not in inside))
    depth = dict.fromkeys(given, 0)
    for n in part.nodes:
        depth[n] = max((depth[i] + 1 for i in reads[n]), default=1)
    rows: list[list[Place]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    rows[0] = [Place(i, read=True) for i in given]
    last = {i: max((depth[n] for n in part.nodes if i in reads[n]), default=depth[i]) for i in depth}
    last |= dict.fromkeys(part.outputs, len(rows))
    for level in range(1, len(rows)):
        above = {place.node: number for number, place in enumerate(rows[level - 1])}
        made = [(_middle([above[i] for i in reads[n]]), Place(n)) for n in part.nodes if depth[n] == level]
        made += [(float(above[i]), Place(i, passed=True)) for i in above if last[i] > level]
        rows[level] = [place for _, place in sorted(made, key=lambda one: one[0])]
    return Flow(tuple(map(tuple, rows)), tuple(_edges(rows, reads)))


def _sources(graph: Graph, number: int, inside: set[int]) -> list[int]:
    """List what a node of a part reads: nodes of the part, and arrays from outside."""
    found: list[int] = []
    for i in graph.nodes[number].inputs:
        while i not in inside and graph.nodes[i].kind == "view":
            i = graph.nodes[i].inputs[0]
        if graph.nodes[i].op != "constant":
            found.append(i)
    return found


def _middle(places: Sequence[int]) -> float:
    return sum(places) / len(places) if places else 0.0


def _edges(
    rows: Sequence[Sequence[Place]], reads: dict[int, tuple[int, ...]]
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for level, (upper, lower) in enumerate(pairwise(rows)):
        above = {place.node: number for number, place in enumerate(upper)}
        for number, place in enumerate(lower):
            wanted = (place.node,) if place.passed else reads[place.node]
            found += [((level, above[i]), (level + 1, number)) for i in wanted]
    return found
