"""The pass that merges equal nodes."""

from __future__ import annotations

from fireiron.graph.nodes import Builder, Graph, Node, rewritten
from fireiron.graph.operations import COMMUTATIVE


def share(graph: Graph) -> Graph:
    """Merge equal nodes; the operands of commutative operations are sorted first, so that a + b equals b + a.

    Example:
        >>> from fireiron.graph.trace import trace_graph
        >>> print(share(trace_graph(lambda x, y: (x + y) * (y + x), (8,), (8,), name="square")))
        square(x[8].f32, y[8].f32)
          %1 = x + y    [8].f32
          %2 = %1 * %1  [8].f32
          return %2
    """

    def change(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
        if node.op not in COMMUTATIVE:
            return None
        ordered = tuple(sorted(inputs, key=lambda i: (b.nodes[i].op == "constant", b.nodes[i].kind == "source", i)))
        return b.copy(node, ordered)

    return rewritten(graph, change, shared=True)
