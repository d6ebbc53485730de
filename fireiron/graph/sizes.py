"""Plans for a batch that changes from call to call: kernels take it as a symbol, and all else is numbers.

A graph is made at a prime number of the batch, its sample, which divides no other number of the graph: what it divides
is a multiple of the batch. A second sample shows whether each number is the same or such a multiple; a graph that has
others (a mean over the batch, a batch and one more) is refused, and each batch then has a plan of its own. `Plan.sized`
writes another batch into a plan: its kernels stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from fireiron.algebra.expr import Expr, Symbol
from fireiron.base.errors import FireironError
from fireiron.front.dynamic import bucket
from fireiron.graph.nodes import Graph, Node

if TYPE_CHECKING:
    from fireiron.graph.lower import Operand
    from fireiron.graph.plan import Launch, Plan

NAME = "batch"
MOST_TRIES = 6  # primes that are tried as samples
# Attributes that hold no sizes; `sizes` are those that a call of a library was traced with, and cannot change.
FIXED = frozenset({"number", "axis", "axes", "order", "call", "dtype", "label", "keepdims", "sizes", "dims"})
T = TypeVar("T")


@attrs.frozen
class Batch:
    """Hold the batch of a graph whose numbers are those of a sample.

    Args:
        sample: a prime number, which divides the graph's multiples of the batch and no other number.
        symbol: stands for the batch in kernels.
    """

    sample: int
    symbol: Symbol

    def expression(self, number: int) -> int | Expr:
        """Write a number of the sample's graph with the symbol.

        Example:
            >>> made = Batch(13, Symbol("batch"))
            >>> print(made.expression(26 * 64), made.expression(64))
            batch * 128 64
        """
        factor, power = _parted(number, self.sample)
        made: int | Expr = factor
        for _ in range(power):
            made = made * self.symbol
        return made

    def at(self, value: T, batch: int) -> T:
        """Give a number of the sample's graph, or a tuple that holds some, at another batch."""
        if isinstance(value, tuple):
            return cast(T, tuple(self.at(each, batch) for each in cast("tuple[object, ...]", value)))
        return cast(T, _moved(value, self.sample, batch)) if type(value) is int else value


def _parted(number: int, sample: int) -> tuple[int, int]:
    """Part a number into a factor and a power of the sample."""
    power = 0
    while number and number % sample == 0:
        number, power = number // sample, power + 1
    return number, power


def _moved(number: int, sample: int, batch: int) -> int:
    factor, power = _parted(number, sample)
    return factor * batch**power


def samples(batch: int) -> Iterator[int]:
    """List prime numbers of a batch's bucket, and of the next where there are few, those near the batch first.

    Example:
        >>> list(samples(8))[:4], list(samples(32))[:3]
        ([7, 5, 11, 3], [31, 29, 37])
    """
    found = [n for n in range(3, max(64, 4 * batch)) if all(n % d for d in range(2, int(n**0.5) + 1))]
    yield from sorted(found, key=lambda n: (abs(n - batch), n))


def symbolic(make: Callable[[int], Graph], batch: int, arch: str | None = None, **options: Any) -> Plan | None:
    """Make the plan that serves all batches of a bucket.

    Returns None where the graph's numbers do not allow it, or a part has a kernel for a number of its batch alone.

    Args:
        make: makes the graph at a batch.
        batch: one of the bucket, which schedules are chosen for.
        arch: the target.
        options: as `plan` takes them.
    """
    from fireiron.graph.plan import plan
    from fireiron.graph.views import materialised, outputs_apart, views_of

    rules = {key: options[key] for key in ("rounding", "range") if key in options}
    size = attrs.evolve(bucket(batch), name=NAME, typical=batch)
    tried = [n for n, _ in zip(samples(batch), range(MOST_TRIES), strict=False)]
    last: tuple[int, Graph, Graph] | None = None
    for number in tried:
        graph = make(number)
        passed = graph.passes(**rules).graph
        if last is not None and aligned(last[2], passed, last[0], number):
            made = plan(last[1], arch, batch=Batch(last[0], size), **options)
            # The places of elements, which sums of several numbers give, are compared too.
            there, orders = materialised(outputs_apart(passed, options.get("together", ())))
            views = {i: view for i, view in views_of(there, orders).items() if view is not None}
            same = {i: attrs.evolve(v, **_at(made.batch, v, number)) for i, v in made.views.items()}
            return made if views == same and not _less(made) else None
        last = number, graph, passed
    return None


def _less(made: Plan) -> bool:
    """Say whether a part has no kernel that would have one if the batch were a number."""
    from fireiron.graph.lower import Misfit, lowered

    for launch in made.launches:
        if launch.kernel is None and not launch.once and launch.part.kind != "foreign":
            try:
                lowered(made.graph, launch.part, made.views, made.arch)
            except (Misfit, FireironError):
                continue
            return True
    return False


def _at(size: Batch | None, view: Any, batch: int) -> dict[str, Any]:
    assert size is not None
    return {name: size.at(getattr(view, name), batch) for name in ("offset", "shape", "strides")}


def aligned(graph: Graph, other: Graph, sample: int, number: int) -> bool:
    """Say whether a graph at one batch is another at a second batch, where multiples of the batch are replaced.

    Args:
        graph: at the sample.
        other: at the other batch.
        sample: the first batch.
        number: the second batch.
    """

    def same(one: object, two: object) -> bool:
        if isinstance(one, tuple) and isinstance(two, tuple):
            mine, theirs = cast("tuple[object, ...]", one), cast("tuple[object, ...]", two)
            return len(mine) == len(theirs) and all(map(same, mine, theirs))
        if isinstance(one, int) and isinstance(two, int) and not isinstance(one, bool):
            return two == _moved(one, sample, number)
        return one == two

    def alike(one: Node, two: Node) -> bool:
        mine, theirs = (dict(n.attributes) for n in (one, two))
        known = "data" in mine or one.op == "constant"
        equal = mine.keys() == theirs.keys() and all(
            v == theirs[k] if known or k in FIXED else same(v, theirs[k]) for k, v in mine.items() if k != "call"
        )
        return equal and (one.op, one.dtype) == (two.op, two.dtype) and same(one.shape, two.shape)

    plain = (graph.inputs, graph.outputs) == (other.inputs, other.outputs) and len(graph.nodes) == len(other.nodes)
    return plain and all(
        one.inputs == two.inputs and alike(one, two) for one, two in zip(graph.nodes, other.nodes, strict=True)
    )


def resized(graph: Graph, size: Batch, batch: int) -> Graph:
    """Write a batch into a graph."""
    return attrs.evolve(graph, nodes=tuple(_resized(node, size, batch) for node in graph.nodes))


def _resized(node: Node, size: Batch, batch: int) -> Node:
    known = node.op == "constant" or "data" in dict(node.attributes)
    attributes = tuple((k, v if known or k in FIXED else size.at(v, batch)) for k, v in node.attributes)
    return attrs.evolve(node, attributes=attributes, shape=size.at(node.shape, batch))


def sized(plan: Plan, batch: int) -> Plan:
    """Write a batch into a plan: the graph, the places of elements, and the memory; the kernels stay.

    Args:
        plan: with a symbolic batch.
        batch: of its bucket.
    """
    from fireiron.graph.plan import planned_memory

    size = plan.batch
    assert size is not None

    def operand(one: Operand) -> Operand:
        return attrs.evolve(one, view=attrs.evolve(one.view, **_at(size, one.view, batch)))

    def launch(one: Launch) -> Launch:
        kernel = one.kernel
        if kernel is not None:
            read = {name: operand(each) for name, each in kernel.inputs.items()}
            kernel = attrs.evolve(kernel, inputs=read, outputs=tuple(map(operand, kernel.outputs)))
        return attrs.evolve(one, kernel=kernel)

    graph, launches = resized(plan.graph, size, batch), tuple(map(launch, plan.launches))
    views = {i: attrs.evolve(view, **_at(size, view, batch)) for i, view in plan.views.items()}
    given = resized(plan.passed.given, size, batch)
    passed = attrs.evolve(plan.passed, given=given, graph=resized(plan.passed.graph, size, batch))
    made = attrs.evolve(
        plan, passed=passed, graph=graph, launches=launches, views=views,
        memory=planned_memory(given, graph, launches, views), sizes={NAME: batch},
    )  # fmt: skip
    made.runner.compiled = plan.runner.compiled
    return made
