"""The pass that computes pointwise values twice: for folds over rows, which cannot share a kernel with other readers.

A kernel that folds over rows stores no rows. So a value in f32 that a fold over rows and other operations read, as in
the gradients of norms, would be stored, and read again, although it is computed from arrays of 16 bits. The fold gets
copies of these operations instead.
"""

from __future__ import annotations

from fireiron.algebra.unary import FUNCTIONS
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.pack import settled_nodes
from fireiron.graph.row_parts import over_rows

MOST_AGAIN = 32  # operations that are computed again for one value


def recompute(graph: Graph) -> Graph:
    """Copy the pointwise operations before a fold over rows where this saves memory traffic.

    The copies start at arrays of at most 16 bits, and at values of other shapes. This must run last, because `share`
    would undo it.

    Example:
        >>> from fireiron import tensor
        >>> from fireiron.graph.trace import trace_graph
        >>> def gradients(x, gain):
        ...     wide = x.astype("f32") * 2
        ...     return (wide * gain).astype("f16"), wide.sum(0)
        >>> print(recompute(trace_graph(gradients, tensor(64, 32, dtype="f16"), (32,))))
        gradients(x[64, 32].f16, gain[32].f32)
          %1 = cast(x, dtype=f32)                  [64, 32].f32
          %2 = %1 * 2                              [64, 32].f32
          %3 = %2 * gain                           [64, 32].f32
          %4 = cast(%3, dtype=f16)                 [64, 32].f16
          %5 = cast(x, dtype=f32)                  [64, 32].f32
          %6 = %5 * 2                              [64, 32].f32
          %7 = sum(%6, axes=(0,), keepdims=False)  [32].f32
          return %4, %7
    """
    settled = settled_nodes(graph)
    cones = {n: cone for n in range(len(graph.nodes)) if (cone := _again(graph, n, settled))}
    if not cones:
        return graph
    b, new = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        known = dict[int, int]()
        for n in sorted(cones.get(number, ())):
            one = graph.nodes[n]
            known[n] = b.copy(one, tuple(known.get(i, new[i]) for i in one.inputs))
        new[number] = b.copy(node, tuple(known.get(i, new[i]) for i in node.inputs))
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _again(graph: Graph, fold: int, settled: frozenset[int]) -> set[int]:
    """Find the operations that a fold over rows computes again; none where this saves no traffic."""
    if graph.nodes[fold].kind != "fold" or not over_rows(graph, fold):
        return set()
    operand = graph.nodes[fold].inputs[0]
    whole = graph.nodes[operand]
    cone, leaves, left = set[int](), set[int](), [operand]
    while left:
        n = left.pop()
        one = graph.nodes[n]
        plain = one.kind == "pointwise" and one.op != "copy" and not _slow(one.op) and n not in settled
        if plain and one.shape == whole.shape and one.dtype.bits > 16 and n not in graph.returned:
            cone.add(n)
            left += [i for i in one.inputs if i not in cone]
        elif one.op != "constant":
            leaves.add(n)
    others = any(u not in cone and u != fold for n in cone for u in graph.users[n])
    if not others or len(cone) > MOST_AGAIN:
        return set()
    traffic = sum(graph.nodes[n].nbytes * (2 if graph.nodes[n].kind == "pointwise" else 1) for n in leaves)
    return cone if traffic < 2 * whole.nbytes else set()


def _slow(op: str) -> bool:
    return op in FUNCTIONS and FUNCTIONS[op].slots > 1
