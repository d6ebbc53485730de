"""Copies of slices that start between vectors: kernels of folds and products read vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fireiron.graph.areas import Part
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.views import VECTOR_NBYTES, View


def between_vectors(view: View, nbytes: int) -> bool:
    """Say whether an array's lines would be read by vectors, but for its first element's place.

    Where no elements lie side by side, no vectors are read.

    Example:
        >>> view = View(0, 3, (8, 32), (64, 1))
        >>> between_vectors(view, 2), between_vectors(view, 16)  # a slice x[:, 3:35] of rows of 64 elements
        (True, False)
        >>> between_vectors(View(0, 3, (8, 32), (63, 1)), 2)  # single elements are read
        False
    """
    lane = VECTOR_NBYTES // nbytes
    if not any(n > 1 and s == 1 for n, s in zip(view.shape, view.strides, strict=True)):
        return False
    steps = [s for n, s in zip(view.shape, view.strides, strict=True) if n > 1 and s > 1]
    while lane > 1 and any(s % lane for s in steps):
        lane //= 2
    return view.offset % max(1, lane) != 0


def at_vectors(graph: Graph, parts: Sequence[Part], views: Mapping[int, View]) -> Graph | None:
    """Let folds and products read a copy of what starts between vectors; None where nothing does.

    Pointwise kernels read such arrays by shorter vectors.
    """
    wanted: dict[int, set[int]] = {}  # by array, the operations that read its copy
    for part in parts:
        if part.kind in ("pointwise", "foreign"):
            continue
        for n in part.nodes:
            for i in graph.nodes[n].inputs:
                large = graph.nodes[i].size > 1 and graph.nodes[i].dtype.bits >= 8
                if i in part.inputs and large and between_vectors(views[i], graph.nodes[i].dtype.nbytes):
                    wanted.setdefault(i, set()).add(n)
    if not wanted:
        return None
    b, new, copies = Builder(), dict[int, int](), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        known = dict[int, int]()
        for i in node.inputs:
            if number in wanted.get(i, ()):
                if i not in copies:
                    copies[i] = b.add("copy", new[i])
                known[i] = copies[i]
        new[number] = b.copy(node, tuple(known.get(i, new[i]) for i in node.inputs))
    return b.graph(graph.name, [new[i] for i in graph.outputs])
