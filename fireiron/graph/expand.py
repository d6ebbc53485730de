"""The pass that replaces composite operations by simpler ones."""

from __future__ import annotations

from fireiron.graph.composites import EXPANSIONS, Ops, column
from fireiron.graph.nodes import Builder, Graph, Node, rewritten
from fireiron.graph.windows import simplified


def expand(graph: Graph) -> Graph:
    """Replace each composite (softmax, a norm, gelu, attention, ...) by products, folds and pointwise operations.

    Products with one column become sums of rows, convolutions whose windows do not overlap become products, and the
    bias of a convolution becomes a sum of its own.

    Example:
        >>> from fireiron import nn
        >>> from fireiron.graph.trace import trace_graph
        >>> print(expand(trace_graph(nn.softmax, (8, 64))))
        softmax(x[8, 64].f32)
          %1 = max(x, axes=(1,), keepdims=True)   [8, 1].f32
          %2 = x - %1                             [8, 64].f32
          %3 = exp(%2)                            [8, 64].f32
          %4 = sum(%3, axes=(1,), keepdims=True)  [8, 1].f32
          %5 = 1 / %4                             [8, 1].f32
          %6 = %3 * %5                            [8, 64].f32
          return %6
    """

    def change(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
        made = {"matmul": column, "conv": simplified}.get(node.op) or EXPANSIONS.get(node.op)
        return None if made is None else made(Ops(b), node, inputs)

    return rewritten(graph, change)
