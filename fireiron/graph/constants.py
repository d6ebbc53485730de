"""The pass that computes nodes that depend on no input."""

from __future__ import annotations

from math import prod
from typing import Any

from fireiron.graph.evaluate import value_of
from fireiron.graph.nodes import Builder, Data, Graph, Node, rewritten
from fireiron.graph.operations import PLACES

MOST_BYTES = 1 << 20  # largest folded array: a larger one costs more to keep than to compute


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes by their values where all their inputs are numbers or known arrays.

    Coordinates (`iota`) stay, because kernels compute them without reading memory, and folds of them are computed here,
    because the points of a kernel's folds are those of its arrays. A number that is repeated over the
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
        if node.kind == "fold":
            known = _folded(b, node, inputs[0])
            if known is not None:
                return known
        if not given or node.kind == "foreign" or any(g.op not in ("constant", "array") for g in given):
            return None
        scalar = all(g.op == "constant" for g in given) and node.shape == ()
        if not scalar and (node.nbytes > MOST_BYTES or node.op == "broadcast" or node.kind == "composite"):
            return None
        value = value_of(node, [value_of(g, ()) for g in given])
        return b.constant(value.item(), node.dtype) if scalar else b.array(Data.of(value, node.dtype))

    return rewritten(graph, change)


def _folded(b: Builder, node: Node, source: int) -> int | None:
    """Compute a fold of what depends on no input; None for other folds, and where that takes large arrays."""
    if _repeated(b, b.nodes[source]):
        known, axes = b.nodes[b.nodes[source].inputs[0]], tuple[int, ...](node["axes"])
        value = _fold_of_equals(node, known["value"], prod(b.nodes[source].shape[a] for a in axes))
        if value is None:
            return None
        number = b.constant(value, node.dtype)
        return b.add("broadcast", number, shape=node.shape) if node.shape else number
    values = _values(b, source)
    if values is None:
        return None
    value = value_of(node, [values])
    return b.array(Data.of(value, node.dtype)) if node.shape else b.constant(value.item(), node.dtype)


def _fold_of_equals(node: Node, value: float, number: int) -> float | None:
    """Fold equal values; None where integers exceed the type of the result."""
    if node.op in ("max", "min"):
        return value
    if node.op in PLACES:
        return 0
    if node.dtype.kind == "float":
        import numpy as np

        with np.errstate(all="ignore"):
            made = np.float64(value)
            return (made * number if node.op == "sum" else made**number).item()
    bits = node.dtype.bits - node.dtype.signed
    if node.op == "prod" and abs(value) > 1 and number > bits:
        return None
    made = value * number if node.op == "sum" else value**number
    return made if -(2**bits) <= made < 2**bits else None


def _values(b: Builder, number: int) -> Any:
    """Compute the elements of a node that depends on no input; None for other nodes and for large ones."""
    left, cone = [number], set[int]()
    while left:
        n = left.pop()
        node = b.nodes[n]
        known = node.op in ("constant", "array", "iota")
        if node.nbytes > MOST_BYTES or not (known or node.kind in ("pointwise", "view")):
            return None
        left += [i for i in node.inputs if i not in cone]
        cone.add(n)
    values: dict[int, Any] = {}
    for n in sorted(cone):
        values[n] = value_of(b.nodes[n], [values[i] for i in b.nodes[n].inputs])
    return values[number]


def _repeated(b: Builder, node: Node) -> bool:
    """Say whether a node repeats a number over a shape."""
    return node.op == "broadcast" and b.nodes[node.inputs[0]].op == "constant"


def _spread(b: Builder, number: int) -> int:
    """Replace a repeated number by an array."""
    node = b.nodes[number]
    if not _repeated(b, node) or node.nbytes > MOST_BYTES:
        return number
    return b.array(Data.of(value_of(node, [value_of(b.nodes[node.inputs[0]], ())]), node.dtype))
