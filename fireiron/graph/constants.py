"""The pass that computes nodes that depend on no input."""

from __future__ import annotations

from fireiron.graph.evaluate import value_of
from fireiron.graph.nodes import Builder, Data, Graph, Node, rewritten
from fireiron.graph.operations import i64

MOST_BYTES = 1 << 20  # largest folded array: a larger one costs more to keep than to compute


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes by their values where all their inputs are numbers or known arrays.

    Coordinates (`iota`) stay, because kernels compute them without reading memory. A number that is repeated over the
    shape of a product's operand becomes an array, because products read matrices.

    Example:
        >>> from fireiron.graph.composites import Ops
        >>> from fireiron.graph.nodes import Builder
        >>> from fireiron.algebra.dtypes import f32
        >>> b = Builder()
        >>> x = b.input("x", (8,), f32)
        >>> print(fold_constants(b.graph("g", [Ops(b).mul(x, Ops(b).sqrt(b.constant(16, f32)))])))
        g(x[8].f32)
          %1 = x * 4  [8].f32
          return %1
    """

    def change(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
        given = [b.nodes[i] for i in inputs]
        if node.op == "matmul" and any(_repeated(b, g) and g.nbytes <= MOST_BYTES for g in given):
            return b.add("matmul", *(_spread(b, i) for i in inputs))
        if not given or node.kind == "foreign" or any(g.op not in ("constant", "array") for g in given):
            return None
        scalar = all(g.op == "constant" for g in given) and node.shape == ()
        if not scalar and (node.nbytes > MOST_BYTES or node.op == "broadcast" or node.kind == "composite"):
            return None
        if node.dtype == i64:
            return None
        value = value_of(node, [value_of(g, ()) for g in given])
        return b.constant(value.item(), node.dtype) if scalar else b.array(Data.of(value, node.dtype))

    return rewritten(graph, change)


def _repeated(b: Builder, node: Node) -> bool:
    """Say whether a node repeats a number over a shape."""
    return node.op == "broadcast" and b.nodes[node.inputs[0]].op == "constant"


def _spread(b: Builder, number: int) -> int:
    """Replace a repeated number by an array."""
    node = b.nodes[number]
    if not _repeated(b, node) or node.nbytes > MOST_BYTES:
        return number
    return b.array(Data.of(value_of(node, [value_of(b.nodes[node.inputs[0]], ())]), node.dtype))
