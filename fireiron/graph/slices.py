"""The pass that slices inputs instead of what is computed from them, where only slices of the result are read."""

from __future__ import annotations

from math import prod

from fireiron.graph.nodes import Builder, Graph, Node
from fireiron.graph.operations import Shape
from fireiron.graph.views import base_of

At = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # starts, stops and steps


def raise_slices(graph: Graph) -> Graph:
    """Where all readers of a pointwise value are slices, slice its inputs instead.

    The operations then join the parts of the slices' readers, as in the gradient of a rotary embedding. Values that
    are computed from products or folds stay whole: their kernels compute the operations too.

    Example:
        >>> from fireiron.graph.trace import trace_graph
        >>> def halves(x, y):
        ...     made = x * y
        ...     return made[:, :4] - made[:, 4:]
        >>> print(raise_slices(trace_graph(halves, (2, 8), (8,))))
        halves(x[2, 8].f32, y[8].f32)
          %1 = slice(x, starts=(0, 0), steps=(1, 1), stops=(2, 4))  [2, 4].f32
          %2 = slice(y, starts=(0,), steps=(1,), stops=(4,))        [4].f32
          %3 = %1 * %2                                              [2, 4].f32
          %4 = slice(x, starts=(0, 4), steps=(1, 1), stops=(2, 8))  [2, 4].f32
          %5 = slice(y, starts=(4,), steps=(1,), stops=(8,))        [4].f32
          %6 = %4 * %5                                              [2, 4].f32
          %7 = %3 - %6                                              [2, 4].f32
          return %7
    """
    whole = _read_in_slices(graph)
    if not whole:
        return graph
    b, new, known = Builder(), dict[int, int](), dict[tuple[int, At], int]()

    def sliced(number: int, at: At) -> int:
        node, key = graph.nodes[number], (number, at)
        if key not in known:
            if number in whole:
                shapes = [graph.nodes[i].shape for i in node.inputs]
                given = (sliced(i, _of(at, node.shape, s)) for i, s in zip(node.inputs, shapes, strict=True))
                known[key] = b.add(node.op, *given, **dict(node.attributes))
            elif _is_all(at, node.shape):
                known[key] = new[number]
            else:
                known[key] = b.add("slice", new[number], starts=at[0], stops=at[1], steps=at[2])
        return known[key]

    for number, node in enumerate(graph.nodes):
        if number in whole:
            continue
        if node.op == "slice" and node.inputs[0] in whole:
            new[number] = sliced(node.inputs[0], _at(node))
        else:
            new[number] = b.copy(node, tuple(new[i] for i in node.inputs))
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _at(node: Node) -> At:
    return tuple(node["starts"]), tuple(node["stops"]), tuple(node["steps"])


def _is_all(at: At, shape: Shape) -> bool:
    return at == ((0,) * len(shape), tuple(shape), (1,) * len(shape))


def _of(at: At, shape: Shape, operand: Shape) -> At:
    """Return the slice of an operand that repeats over a shape."""
    lead = len(shape) - len(operand)
    axes = [(0, 1, 1) if n == 1 else (at[0][a + lead], at[1][a + lead], at[2][a + lead]) for a, n in enumerate(operand)]
    starts, stops, steps = zip(*axes, strict=True) if axes else ((), (), ())
    return tuple(starts), tuple(stops), tuple(steps)


def _read_in_slices(graph: Graph) -> set[int]:
    """Find pointwise operations on inputs and results of the library that slices alone read, directly or behind others.

    Pointwise operations, folds or concatenations read the slices. Of a value no more elements are sliced than it has.
    """
    nodes, users, outputs = graph.nodes, graph.users, set(graph.outputs)

    def stored(number: int) -> bool:
        base = nodes[base_of(graph, number)]
        return base.kind == "source" or base.op == "foreign"

    def joins(number: int) -> bool:
        """Say whether what a slice's readers compute can join the operations before the slice."""
        kinds = {nodes[r].kind for r in users[number]}
        return nodes[number].op == "slice" and number not in outputs and kinds <= {"pointwise", "fold", "copy"}

    found = set[int]()
    for number in reversed(range(len(nodes))):
        node = nodes[number]
        if node.kind != "pointwise" or node.op == "copy" or number in outputs or not users[number]:
            continue
        cut = [nodes[u] for u in users[number] if u not in found]
        fits = all(joins(u) if u not in found else nodes[u].shape == node.shape for u in users[number])
        if fits and sum(prod(each.shape) for each in cut) <= prod(node.shape):
            found.add(number)
    while left := {
        n for n in found
        if not all(i in found or stored(i) for i in nodes[n].inputs)
        or not all(u in found or nodes[u].op == "slice" for u in users[n])
    }:  # fmt: skip
        found -= left
    return found
