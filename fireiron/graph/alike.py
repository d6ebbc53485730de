"""Equal parts of a graph: kernels are made for one of equal layers, and the others reuse them with their own arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from fireiron.graph.areas import Part
from fireiron.graph.nodes import Graph
from fireiron.graph.views import View, has_padding

if TYPE_CHECKING:
    from fireiron.graph.lowered import Operand
    from fireiron.graph.plan import Launch


@attrs.frozen
class Form:
    """Hold all that a part's kernels depend on, except the numbers of its nodes.

    Args:
        key: equal for parts that can share kernels.
        numbers: numbers of the part's nodes, in the order in which the key describes them.
    """

    key: tuple[object, ...]
    numbers: tuple[int, ...] = attrs.field(eq=False)


def form_of(graph: Graph, part: Part, views: Mapping[int, View], free: frozenset[int]) -> Form:
    """Describe a part: its operations, where its inputs and outputs lie, and the other readers of its results.

    Args:
        graph: the graph of the part.
        part: the part.
        views: for each node, where its elements lie in memory.
        free: nodes that each reader computes for itself.
    """
    inside, places, key = set(part.nodes), dict[int, int](), list[object]()

    def place(number: int) -> int:
        if number in places:
            return places[number]
        node, view = graph.nodes[number], views[number]
        computed = number in inside or number in free
        read = tuple(place(i) for i in node.inputs) if computed else ()
        base = place(view.node) if view.node != number else -1
        places[number] = len(places)
        lies = base, view.offset, view.shape, view.strides
        said = (node.op, node.attributes) if computed else ("given", has_padding(graph, view))
        key.append((computed, said, read, node.shape, node.dtype, lies))
        return places[number]

    for number in part.nodes:
        at = place(number)
        others = (graph.nodes[u] for u in graph.users[number] if u not in inside)
        seen = sorted((u.op, u.shape, repr(u.attributes) if u.kind == "view" else "") for u in others)
        key.append((at, number in graph.returned, tuple(seen)))
    read, written = (tuple(place(i) for i in numbers) for numbers in (part.inputs, part.outputs))
    return Form((part.kind, part.why, read, written, *key), tuple(places))


def moved(launches: Sequence[Launch], form: Form, to: Form) -> list[Launch]:
    """Translate the launches of a part to an equal part's nodes."""
    number = dict(zip(form.numbers, to.numbers, strict=True))

    def there(operand: Operand) -> Operand:
        return attrs.evolve(operand, view=attrs.evolve(operand.view, node=number[operand.view.node]))

    def one(launch: Launch) -> Launch:
        old, kernel = launch.part, launch.kernel
        nodes, inputs, outputs = (tuple(number[i] for i in each) for each in (old.nodes, old.inputs, old.outputs))
        part = attrs.evolve(old, nodes=nodes, inputs=inputs, outputs=outputs)
        if kernel is not None:
            read = {name: there(operand) for name, operand in kernel.inputs.items()}
            kernel = attrs.evolve(kernel, inputs=read, outputs=tuple(map(there, kernel.outputs)))
        return attrs.evolve(launch, part=part, kernel=kernel)

    return [one(launch) for launch in launches]
