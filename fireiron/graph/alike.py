"""Parts that are alike: those of equal layers get their kernels once, and other layers the same with other arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from fireiron.graph.nodes import Graph
from fireiron.graph.partition import Part
from fireiron.graph.views import View

if TYPE_CHECKING:
    from fireiron.graph.lower import Operand
    from fireiron.graph.plan import Launch


@attrs.frozen
class Form:
    """Hold what a part's kernels depend on, apart from the numbers of its nodes.

    Args:
        key: equal for parts that are alike.
        numbers: of the nodes that the key speaks of, in its order.
    """

    key: tuple[object, ...]
    numbers: tuple[int, ...] = attrs.field(eq=False)


def form_of(graph: Graph, part: Part, views: Mapping[int, View], free: frozenset[int]) -> Form:
    """Describe a part: its operations, the places of what it reads and writes, and who else reads its results.

    Args:
        graph: the graph of the part.
        part: any.
        views: the places of the elements of all nodes.
        free: the nodes that are computed again wherever they are read.
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
        said = (node.op, node.attributes) if computed else ("given",)
        key.append((computed, said, read, node.shape, node.dtype, lies))
        return places[number]

    for number in part.nodes:
        at = place(number)
        others = (graph.nodes[u] for u in graph.users[number] if u not in inside)
        seen = sorted((u.op, u.shape, repr(u.attributes) if u.kind == "view" else "") for u in others)
        key.append((at, number in graph.outputs, tuple(seen)))
    read, written = (tuple(place(i) for i in numbers) for numbers in (part.inputs, part.outputs))
    return Form((part.kind, part.why, read, written, *key), tuple(places))


def moved(launches: Sequence[Launch], form: Form, to: Form) -> list[Launch]:
    """Give the launches of a part to another one that is alike."""
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
