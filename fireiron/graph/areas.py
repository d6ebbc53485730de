"""A partition while it grows: areas of operations, what they read and give, and the part that an area becomes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, TypeAlias

import attrs

from fireiron.graph.dims import free_nodes, transparent
from fireiron.graph.nodes import Graph
from fireiron.graph.pack import settled_nodes
from fireiron.graph.views import View

PartKind: TypeAlias = Literal[
    "attention",
    "product",
    "products",
    "product rows",
    "convolution",
    "pooling",
    "rows",
    "reduction",
    "pointwise",
    "foreign",
]

MOST_OPS = 200  # of a part


@attrs.frozen
class Part:
    """Hold the operations of one kernel.

    Args:
        kind: form of the kernel. Example: "product".
        nodes: its nodes in order, with the views between them that keep the order of axes.
        inputs: the nodes that it reads: inputs of the graph, results of other parts, and views of these.
        outputs: its nodes that other parts, or the caller, read.
        why: reasons for fusing its operations, in words.
    """

    kind: PartKind
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    why: tuple[str, ...] = ()


class Areas:
    """Hold an unfinished partition: each operation belongs to an area, which becomes a part.

    Args:
        graph: the graph.
        several: whether rows that are written again may be folded over several dims.
        lies: where elements lie, so that arrays of different orders are not merged; empty where that does not count.
        strict: whether rows are only those whose elements lie together, and a result without columns that depends on no
            fold is in no kernel with folds.
    """

    def __init__(
        self, graph: Graph, several: bool = True, lies: Mapping[int, View] | None = None, strict: bool = False
    ) -> None:
        self.graph = graph
        self.several = several
        self.lies = lies or {}
        self.strict = strict
        self.alike = False  # whether folds of different arrays may be one program
        self.free = free_nodes(graph)
        self.settled = settled_nodes(graph)
        self.of: dict[int, int] = {}
        self.members: dict[int, set[int]] = {}
        self.why: dict[int, list[str]] = {}
        self.rows: dict[frozenset[int], bool] = {}  # by set of operations, whether one program of rows computes it
        for number, node in enumerate(graph.nodes):
            if node.kind not in ("source", "view") and number not in self.free:
                self.of[number] = number
                self.members[number] = {number}
                self.why[number] = []

    def producers(self, number: int, direct: bool = False) -> Iterator[int]:
        """List the operations whose results a node reads, directly or through views.

        With `direct`, only through views that keep the order of axes.
        """
        for i in self.graph.nodes[number].inputs:
            node = self.graph.nodes[i]
            if node.kind == "view":
                if not direct or transparent(self.graph, i):
                    yield from self.producers(i, direct)
            elif i in self.of:
                yield i

    def consumers(self, number: int) -> Iterator[int]:
        """List the operations that read a node, directly or through views."""
        for u in self.graph.users[number]:
            if self.graph.nodes[u].kind == "view":
                yield from self.consumers(u)
            elif u in self.of:
                yield u

    def successors(self, area: int) -> set[int]:
        """List the areas that read an area's results."""
        return {self.of[c] for n in self.members[area] for c in self.consumers(n)} - {area}

    def makes_cycle(self, one: int, other: int) -> bool:
        """Say whether merging two areas would make a cycle: a path from one to the other leads through a third area."""
        latest = max(self.members[other])
        seen: set[int] = set()
        left = [a for a in self.successors(one) if a != other]
        while left:
            area = left.pop()
            if area in seen or min(self.members[area]) > latest:
                continue
            seen.add(area)
            found = self.successors(area)
            if other in found or one in found:
                return True
            left += found
        return False

    def parted(self, one: int, other: int) -> bool:
        """Say whether one area depends on the other's results, directly or through further areas."""
        return other in self.successors(one) or self.makes_cycle(one, other)

    def kept(self, area: int) -> bool:
        """Say whether an area is settled (computed once), and its results are no larger than its inputs."""
        mine, nodes = self.members[area], self.graph.nodes
        if not self.settled.issuperset(mine):
            return False
        read = {i for n in mine for i in nodes[n].inputs if i not in mine}
        return sum(nodes[n].nbytes for n in self.outputs(area)) <= sum(nodes[i].nbytes for i in read)

    def reads_itself(self, inside: set[int]) -> bool:
        """Say whether a node reads another one of a set through a view that moves axes: a kernel would read its result.

        Such a result is complete behind the kernel only.
        """
        for n in inside:
            for i in self.graph.nodes[n].inputs:
                if self.graph.nodes[i].kind == "view":
                    near = self.producers(i, direct=True) if transparent(self.graph, i) else ()
                    if inside.intersection(self.producers(i)).difference(near):
                        return True
        return False

    def merge(self, one: int, other: int, why: str) -> None:
        """Merge one area into another."""
        self.members[other] |= self.members.pop(one)
        self.why[other] = [*self.why.pop(one), *self.why[other], why]
        for number in self.members[other]:
            self.of[number] = other

    def outputs(self, area: int) -> tuple[int, ...]:
        """List the nodes of an area that other areas, or the caller, read."""
        mine = self.members[area]
        return tuple(n for n in sorted(mine) if self.live(n, mine))

    def live(self, number: int, inside: Collection[int]) -> bool:
        """Say whether a node of a set must be stored.

        That is an output of the graph, and a node that is read outside the set, or through a view that moves axes.
        """
        graph = self.graph
        if number in graph.returned:
            return True
        for u in graph.users[number]:
            if graph.nodes[u].kind != "view":
                if u not in inside:
                    return True
            elif not transparent(graph, u) or self.live(u, inside):
                return True
        return False

    def with_views(self, inside: set[int]) -> list[int]:
        """Add to a set the views between its nodes that keep the order of axes."""
        found = set(inside)
        for number in sorted(inside):
            left = list(self.graph.nodes[number].inputs)
            chain: list[int] = []
            while left:
                i = left.pop()
                between = self.graph.nodes[i].kind == "view" and transparent(self.graph, i)
                if between and any(p in inside for p in self.producers(i, direct=True)):
                    chain.append(i)
                    left += self.graph.nodes[i].inputs
            found.update(chain)
        return sorted(found)
