"""Copies of what products read from lines that start between vectors, such as scores of 50,257 classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.views import VECTOR_NBYTES, View, base_of

# Kernels of such lines use neither bulk copies nor wgmma. On an H200, in bf16, 4096x768x50257 and 50257x768x4096 took
# 1.75 and 3.24 ms so; of padded lines a training step that has both, and a third product, takes 1.51 ms in all. A copy
# of the 4096x50257 scores took 0.23 ms.
LEAST_READS = 512  # columns or rows of the products that one element of the copy is multiplied with
LEAST_WORK = 4e9  # operations of these products, below which a launch costs more
# Sums over this many lines, as gradients of weights have, pay for a copy of a few megabytes: 64x3 over 65,536 lines
# took 91 us, and 91x512 over 16,384 lines 33 us.
DEEP = 8192
DEEP_NBYTES = 1 << 23


def aligned(graph: Graph, products: Collection[int], views: Mapping[int, View]) -> Graph | None:
    """Let large products read a copy of arrays whose lines start between vectors, one of each array; None without any.

    The lines of copies are padded (`padded_lines`).

    Args:
        graph: the graph.
        products: the products that have kernels of their own.
        views: where elements lie.
    """
    reads: dict[int, list[tuple[int, int]]] = {}  # by array, the products and which of their operands it is
    for number in products:
        for side, i in enumerate(graph.nodes[number].inputs):
            reads.setdefault(base_of(graph, i), []).append((number, side))
    wanted = {base: readers for base, readers in reads.items() if _pays(graph, base, readers, views)}
    if not wanted:
        return None
    b, new, copies = Builder(), dict[int, int](), dict[int, int]()

    def copied(number: int) -> int:
        """Return a view of a copy."""
        node = graph.nodes[number]
        if number not in copies:
            source = b.add("copy", new[number]) if number in wanted else copied(node.inputs[0])
            copies[number] = source if number in wanted else b.copy(node, (source,))
        return copies[number]

    for number, node in enumerate(graph.nodes):
        sides = {side for readers in wanted.values() for n, side in readers if n == number}
        inputs = tuple(copied(i) if side in sides else new[i] for side, i in enumerate(node.inputs))
        new[number] = b.copy(node, inputs)
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _pays(graph: Graph, base: int, readers: Collection[tuple[int, int]], views: Mapping[int, View]) -> bool:
    """Say whether products of padded lines save more than the copy takes."""
    node, view = graph.nodes[base], views[base]
    steps = [s for n, s in zip(view.shape, view.strides, strict=True) if n > 1 and s > 1]
    if node.dtype.bits > 16 or node.op == "copy" or all(s * node.dtype.nbytes % VECTOR_NBYTES == 0 for s in steps):
        return False
    if node.nbytes <= DEEP_NBYTES and any(_along_lines(graph, views, n, side) >= DEEP for n, side in readers):
        return True
    others = sum(graph.nodes[n].shape[-1 if side == 0 else -2] for n, side in readers)
    return others >= LEAST_READS and 2 * node.size * others >= LEAST_WORK


def _along_lines(graph: Graph, views: Mapping[int, View], product: int, side: int) -> int:
    """Return the number of lines of an operand that a product sums over; 0 where it sums along lines."""
    operand = graph.nodes[product].inputs[side]
    axis = -1 if side == 0 else -2
    return 0 if views[operand].strides[axis] == 1 else graph.nodes[operand].shape[axis]
