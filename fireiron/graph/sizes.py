"""Plans for a batch and a length that change from call to call: these sizes are symbols in the kernels.

First, a graph is made with a prime number, the sample, in place of each size. A number of the graph that this prime
divides must be a multiple of the size. Graphs at further primes then show whether each number is a constant or such a
multiple. Graphs with other numbers (a mean over the batch, the batch plus one) are refused, and each size gets a plan
of its own. `Plan.sized` writes other sizes into a plan, and keeps its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from fireiron.algebra.expr import Expr, Symbol
from fireiron.base.errors import FireironError, UsageError
from fireiron.base.link import here
from fireiron.front.dynamic import bucket
from fireiron.graph.nodes import Graph, Node

if TYPE_CHECKING:
    from fireiron.graph.lowered import Operand
    from fireiron.graph.plan import Launch, Plan

NAMES = ("batch", "length")
MOST_TRIES = 6  # primes that are tried as samples
# Attributes that hold no sizes; `sizes` are those that a call of a library was traced with, and cannot change.
FIXED = frozenset({
    "number", "axis", "axes", "order", "call", "dtype", "label", "keepdims", "sizes", "dims", "window", "stride",
    "pads", "dilation", "groups", "count_pad",
})  # fmt: skip
T = TypeVar("T")


@attrs.frozen
class Samples:
    """Hold the samples of a graph: the primes that stand for its sizes.

    Args:
        numbers: a prime number for each size; it divides the multiples of this size in the graph, and no other number.
        symbols: for each size, its symbol in kernels.
    """

    numbers: tuple[int, ...]
    symbols: tuple[Symbol, ...]

    def expression(self, number: int) -> int | Expr:
        """Write a number of the graph as an expression of the symbols.

        Example:
            >>> made = Samples((13, 7), (Symbol("batch"), Symbol("length")))
            >>> print(made.expression(26 * 64), made.expression(64), made.expression(13 * 49))
            batch * 128 64 batch * length * length
        """
        made, powers = _parted(number, self.numbers)
        expression: int | Expr = made
        for symbol, power in zip(self.symbols, powers, strict=True):
            for _ in range(power):
                expression = symbol if expression == 1 else expression * symbol
        return expression

    def at(self, value: T, sizes: Sequence[int]) -> T:
        """Return a number of the graph, or a tuple of numbers, at other sizes."""
        if isinstance(value, tuple):
            return cast(T, tuple(self.at(each, sizes) for each in cast("tuple[object, ...]", value)))
        return cast(T, _moved(value, self.numbers, sizes)) if type(value) is int else value

    def named(self, sizes: Sequence[int]) -> dict[str, int]:
        """Return sizes by the names of their symbols."""
        return {symbol.name: n for symbol, n in zip(self.symbols, sizes, strict=True)}


def _parted(number: int, primes: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Factor a number into powers of the primes and the rest."""
    powers: list[int] = []
    for prime in primes:
        power = 0
        while number and number % prime == 0:
            number, power = number // prime, power + 1
        powers.append(power)
    return number, tuple(powers)


def _moved(number: int, primes: Sequence[int], sizes: Sequence[int]) -> int:
    factor, powers = _parted(number, primes)
    for size, power in zip(sizes, powers, strict=True):
        factor *= size**power
    return factor


def samples(size: int) -> Iterator[int]:
    """Yield primes in a size's bucket, and in the next one if there are few, those closest to the size first.

    Example:
        >>> list(samples(8))[:4], list(samples(32))[:3]
        ([7, 5, 11, 3], [31, 29, 37])
    """
    found = [n for n in range(3, max(64, 4 * size)) if all(n % d for d in range(2, int(n**0.5) + 1))]
    yield from sorted(found, key=lambda n: (abs(n - size), n))


def symbolic(
    make: Callable[..., Graph], sizes: Sequence[int], arch: str | None = None, names: Sequence[str] = NAMES,
    **options: Any,
) -> Plan | None:  # fmt: skip
    """Make a plan for all sizes of a bucket: all batches, or all pairs of a batch and a length.

    The result is None where the graph's numbers do not allow it, or a part has a kernel only for fixed numbers.

    Args:
        make: a function from sizes to the graph.
        sizes: one or two sizes, each in its bucket; schedules are chosen for these.
        arch: the target.
        names: names of the symbols.
        options: as `plan` takes them.

    Raises:
        UsageError: `graph-sizes`.
    """
    from fireiron.graph.plan import plan
    from fireiron.graph.views import materialised, outputs_apart, views_of

    if len(sizes) not in (1, 2):
        fix = "make a plan for each value of the others"
        raise UsageError("graph-sizes", f"a plan takes one or two sizes, not {len(sizes)}", fix=fix, link=here())
    rules = {key: options[key] for key in ("rounding", "range") if key in options}
    symbols = tuple(attrs.evolve(bucket(n), name=name, typical=n) for n, name in zip(sizes, names, strict=False))
    alike: list[tuple[tuple[int, ...], Graph, Graph]] = []
    for numbers in _tried(sizes):
        graph = make(*numbers)
        passed = graph.passes(**rules).graph
        if alike and not aligned(alike[0][2], passed, alike[0][0], numbers):
            alike.clear()
        alike.append((numbers, graph, passed))
        if _decided([each[0] for each in alike]):
            break
    else:
        return None
    primes, graph, _ = alike[0]
    made = plan(graph, arch, samples=Samples(primes, symbols), **options)
    # The places of elements, which sums of several numbers give, are compared too.
    for numbers, _, passed in alike[1:]:
        there, orders = materialised(outputs_apart(passed, options.get("together", ())))
        views = {i: view for i, view in views_of(there, orders).items() if view is not None}
        if views != {i: attrs.evolve(v, **_at(made.samples, v, numbers)) for i, v in made.views.items()}:
            return None
    return None if _less(made) else made


def _decided(tried: Sequence[tuple[int, ...]]) -> bool:
    """Say whether a number that is equal in all these graphs must be a constant, not a sum or difference of sizes."""
    if len(tried[0]) == 1:
        return len(tried) == 2
    steps = [(one - tried[0][0], other - tried[0][1]) for one, other in tried[1:]]
    return any(a * d != b * c for a, b in steps for c, d in steps)


def _tried(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield combinations of samples to try; no prime occurs twice."""
    left, seen = [samples(n) for n in sizes], set[int]()
    for _ in range(MOST_TRIES):
        numbers: list[int] = []
        for each in left:
            numbers.append(next(n for n in each if n not in seen))
            seen.add(numbers[-1])
        yield tuple(numbers)


def _less(made: Plan) -> bool:
    """Say whether a part without a kernel would have one if the sizes were numbers."""
    from fireiron.graph.lower import lowered
    from fireiron.graph.lowered import Misfit

    for launch in made.launches:
        if launch.kernel is None and not launch.once and launch.part.kind != "foreign":
            try:
                lowered(made.graph, launch.part, made.views, made.arch)
            except (Misfit, FireironError):
                continue
            return True
    return False


def _at(known: Samples | None, view: Any, sizes: Sequence[int]) -> dict[str, Any]:
    assert known is not None
    return {name: known.at(getattr(view, name), sizes) for name in ("offset", "shape", "strides")}


def aligned(graph: Graph, other: Graph, primes: Sequence[int], sizes: Sequence[int]) -> bool:
    """Say whether replacing the multiples of the samples in one graph gives the other graph.

    Args:
        graph: the graph at the samples.
        other: the graph at the other sizes.
        primes: the samples.
        sizes: the other sizes.
    """

    def same(one: object, two: object) -> bool:
        if isinstance(one, tuple) and isinstance(two, tuple):
            mine, theirs = cast("tuple[object, ...]", one), cast("tuple[object, ...]", two)
            return len(mine) == len(theirs) and all(map(same, mine, theirs))
        if isinstance(one, int) and isinstance(two, int) and not isinstance(one, bool):
            return two == _moved(one, primes, sizes)
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


def resized(graph: Graph, known: Samples, sizes: Sequence[int]) -> Graph:
    """Replace the samples in a graph by sizes."""
    return attrs.evolve(graph, nodes=tuple(_resized(node, known, sizes) for node in graph.nodes))


def _resized(node: Node, known: Samples, sizes: Sequence[int]) -> Node:
    held = node.op == "constant" or "data" in dict(node.attributes)
    attributes = tuple((k, v if held or k in FIXED else known.at(v, sizes)) for k, v in node.attributes)
    return attrs.evolve(node, attributes=attributes, shape=known.at(node.shape, sizes))


def sized(plan: Plan, sizes: Sequence[int]) -> Plan:
    """Replace the samples in a plan by sizes: in the graph, the views and the memory; kernels stay the same.

    Args:
        plan: a plan with symbols.
        sizes: a size for each symbol, in the symbol's bucket.
    """
    from fireiron.graph.plan import planned_memory

    known = plan.samples
    assert known is not None

    def operand(one: Operand) -> Operand:
        return attrs.evolve(one, view=attrs.evolve(one.view, **_at(known, one.view, sizes)))

    def launch(one: Launch) -> Launch:
        kernel = one.kernel
        if kernel is not None:
            read = {name: operand(each) for name, each in kernel.inputs.items()}
            kernel = attrs.evolve(kernel, inputs=read, outputs=tuple(map(operand, kernel.outputs)))
        return attrs.evolve(one, kernel=kernel)

    graph, launches = resized(plan.graph, known, sizes), tuple(map(launch, plan.launches))
    views = {i: attrs.evolve(view, **_at(known, view, sizes)) for i, view in plan.views.items()}
    given = resized(plan.passed.given, known, sizes)
    passed = attrs.evolve(plan.passed, given=given, graph=resized(plan.passed.graph, known, sizes))
    made = attrs.evolve(
        plan, passed=passed, graph=graph, launches=launches, views=views,
        memory=planned_memory(given, graph, launches, views), sizes=known.named(sizes),
    )  # fmt: skip
    made.runner.compiled = plan.runner.compiled
    return made
