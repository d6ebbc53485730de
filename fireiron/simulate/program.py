"""Turn a kernel's statements into closures over an environment of loop values.

A nest of loops around one statement runs at once, as more lanes, where its iterations do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, assert_never, cast

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Var, as_int, free, to_python
from fireiron.kernel.ir import (
    BLOCK,
    THREAD,
    Call,
    Commit,
    Compute,
    CountIn,
    FindGroup,
    For,
    If,
    Let,
    Micro,
    Region,
    Statement,
    Sync,
    View,
    Wait,
    walk,
)
from fireiron.language.levels import Block
from fireiron.simulate.access import Env, Value
from fireiron.simulate.leaves import SKIP, Leaf, Operand, Plan, as_true, both
from fireiron.simulate.machine import Arrival, barrier_mask
from fireiron.simulate.meaning import (
    CollectiveMeaning,
    ComputeMeaning,
    MatMulMeaning,
    Meaning,
    MicroMeaning,
    MoveMeaning,
    ShuffleMeaning,
    matrix_extents,
)
from fireiron.simulate.order import Array
from fireiron.simulate.search import finder
from fireiron.simulate.state import ITERATIONS, Machine, Place, State

MOST_LANES = 1 << 20  # of one execution of a nest

Act: TypeAlias = "Array | None"
Run: TypeAlias = Callable[[State, Act], None]
Walk: TypeAlias = Callable[[State, Act], Iterator[Arrival]]
Needs: TypeAlias = frozenset[str]


@attrs.frozen
class Step:
    """Hold one compiled statement: `run` where it holds no barrier, else `walk`."""

    run: Run | None
    walk: Walk | None = None


@attrs.frozen
class Scope:
    """Say what surrounds a statement.

    Args:
        region: the innermost one.
        titles: of all of them.
        needs: for each variable, the loop variables from which its value follows.
        guard: those of the conditions around.
    """

    region: Region | None = None
    titles: tuple[str, ...] = ()
    needs: tuple[tuple[str, Needs], ...] = ()
    guard: Needs = frozenset()

    def of(self, *exprs: Expr | None) -> Needs:
        """List the loop variables from which expressions follow."""
        known = dict(self.needs)
        found: set[str] = set()
        for expr in exprs:
            if expr is not None:
                for leaf in free(expr):
                    found |= known.get(leaf.name, frozenset())
        return frozenset(found)

    def bind(self, name: str, needs: Needs) -> Scope:
        """Add a variable."""
        return attrs.evolve(self, needs=(*(pair for pair in self.needs if pair[0] != name), (name, needs)))

    def enter(self, region: Region) -> Scope:
        """Go into a region."""
        return attrs.evolve(self, region=region, titles=(*self.titles, region.title))


@attrs.frozen
class Nest:
    """Hold loops around one statement.

    Args:
        loops: variables and extents, outermost first.
        steps: named values, and conditions under an empty name, in order.
        varying: all variables that differ between iterations.
        leaf: the statement.
    """

    loops: tuple[tuple[str, Value], ...] = ()
    steps: tuple[tuple[str, Value], ...] = ()
    varying: Needs = frozenset()
    leaf: Leaf | None = None

    def vary(self, name: str) -> Nest:
        """Add a variable."""
        return attrs.evolve(self, varying=self.varying | {name})


class Compiler:
    """Compile the statements of one kernel for one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.values: dict[Expr, Value] = {}
        self.places: dict[tuple[str, str, str], Place] = {}

    def program(self) -> Step:
        """Compile the kernel's body."""
        scope = Scope().bind(BLOCK, frozenset([BLOCK])).bind(THREAD, frozenset())
        return self.body(self.machine.kernel.body, scope)

    def body(self, statements: tuple[Statement, ...], scope: Scope) -> Step:
        """Compile statements that follow each other; Let binds for those after it."""
        steps: list[Step] = []
        for statement in statements:
            steps.append(self.statement(statement, scope))
            if isinstance(statement, Let):
                scope = scope.bind(statement.var.name, scope.of(statement.value))
            if isinstance(statement, FindGroup):
                groups, needs = statement.groups, scope.of(statement.item)
                for var in (groups.group, groups.first, groups.begin, groups.length):
                    scope = scope.bind(var.name, needs)
        if len(steps) == 1:
            return steps[0]
        runs = [step.run for step in steps if step.run is not None]
        if len(runs) == len(steps):

            def run(state: State, act: Act) -> None:
                for each in runs:
                    each(state, act)

            return Step(run)

        def walk(state: State, act: Act) -> Iterator[Arrival]:
            for step in steps:
                if step.run is not None:
                    step.run(state, act)
                elif step.walk is not None:
                    yield from step.walk(state, act)

        return Step(None, walk)

    def statement(self, statement: Statement, scope: Scope) -> Step:
        """Compile one statement."""
        match statement:
            case Let(var=var, value=value):
                name, give = var.name, self.value(value)

                def let(state: State, act: Act) -> None:
                    state.env[name] = give(state.env)

                return Step(let)
            case FindGroup(ends=ends):
                find = finder(statement, self.operand(ends).storage.data, self.value)
                return Step(lambda state, act: find(state.env))
            case For():
                return self.loop(statement, scope)
            case If(condition=condition, body=body):
                inner = attrs.evolve(scope, guard=scope.guard | scope.of(condition))
                return self.conditional(self.value(condition), self.body(body, inner))
            case Region(body=body):
                return self.body(body, scope.enter(statement))
            case Sync(level=level):
                place = self.place(statement, f"Sync({level})", scope)

                def sync(state: State, act: Act) -> Iterator[Arrival]:
                    yield Arrival(statement, place, barrier_mask(act))

                return Step(None, sync)
            case CountIn():
                return self.count_in(statement, scope)
            case Commit():
                return Step(lambda state, act: self.machine.flights.commit())
            case Wait(pending=pending):
                return Step(lambda state, act: self.machine.flights.wait(pending))
            case Call() | Compute() | Micro():
                leaf = self.leaf(statement, scope)

                def execute(state: State, act: Act) -> None:
                    leaf.run(leaf.plan(state, act))

                return Step(execute)
            case _ as never:
                assert_never(never)

    def count_in(self, statement: CountIn, scope: Scope) -> Step:
        """Compile a block's arrival at a counter: it releases what came before the last barrier, not its own."""
        meeting = Sync(Block, "the block counts in", statement.link)
        place = self.place(meeting, "CountIn", scope)
        counter, count, name = self.operand(statement.counter), self.value(statement.count), statement.var.name
        order = self.machine.order

        def walk(state: State, act: Act) -> Iterator[Arrival]:
            released = order.base if statement.order in ("acq_rel", "release") else order.start
            yield Arrival(meeting, place, barrier_mask(act))
            at, last = int(counter.offset(state.env)), int(count(state.env)) - 1
            here = int(counter.storage.data[at])
            counter.storage.data[at] = 0 if here == last else here + 1
            order.count_in((counter.view.buffer.name, at), released, statement.order in ("acq_rel", "acquire"))
            state.env[name] = int(here == last)

        return Step(None, walk)

    def conditional(self, condition: Value, inner: Step) -> Step:
        """Narrow the active threads for a body, which is skipped where none is left."""
        threads = self.machine.threads

        def narrow(state: State, act: Act) -> Any:
            return both(act, condition(state.env), (int(state.env[ITERATIONS]), threads))

        if inner.run is not None:
            body = inner.run

            def run(state: State, act: Act) -> None:
                now = narrow(state, act)
                if not isinstance(now, str):
                    body(state, now)

            return Step(run)
        assert inner.walk is not None
        walker = inner.walk

        def walk(state: State, act: Act) -> Iterator[Arrival]:
            now = narrow(state, act)
            if not isinstance(now, str):
                yield from walker(state, now)

        return Step(None, walk)

    def loop(self, statement: For, scope: Scope) -> Step:
        """Compile a loop; where it is a nest around one statement, independent iterations run at once."""
        name, extent = statement.var.name, self.value(statement.extent)
        inner = self.body(statement.body, scope.bind(name, frozenset([name])))
        if inner.walk is not None:
            walker = inner.walk

            def walk(state: State, act: Act) -> Iterator[Arrival]:
                for at in range(int(extent(state.env))):
                    state.env[name] = at
                    yield from walker(state, act)

            return Step(None, walk)
        assert inner.run is not None
        body = inner.run

        def run(state: State, act: Act) -> None:
            for at in range(int(extent(state.env))):
                state.env[name] = at
                body(state, act)

        nest = self.nest(statement, scope)
        return Step(run if nest is None or nest.leaf is None else together(nest, nest.leaf, run, self.machine.threads))

    def nest(self, statement: Statement, scope: Scope, found: Nest | None = None) -> Nest | None:
        """Read loops around a single Call or Compute, with the Lets, Ifs and Regions between them.

        Args:
            statement: the rest of the nest.
            scope: what surrounds it.
            found: what lies outside it, itself still without a statement.
        """
        nest = found or Nest()
        match statement:
            case For(var=var, extent=extent, body=body):
                if any(leaf.name in nest.varying for leaf in free(extent)):
                    return None
                nest = attrs.evolve(nest, loops=(*nest.loops, (var.name, self.value(extent))))
                nest = nest.vary(var.name)
                scope = scope.bind(var.name, scope.of(extent))
            case Region(body=body):
                scope = scope.enter(statement)
            case If(condition=condition, body=body):
                nest = attrs.evolve(nest, steps=(*nest.steps, ("", self.value(condition))))
                scope = attrs.evolve(scope, guard=scope.guard | scope.of(condition))
            case Call() | Compute():
                return attrs.evolve(nest, leaf=self.leaf(statement, scope, nest.varying))
            case Let() | FindGroup() | Sync() | Micro() | Commit() | Wait() | CountIn():
                return None
            case _ as never:
                assert_never(never)
        if not body:
            return None
        for let in body[:-1]:
            if not isinstance(let, Let):
                return None
            nest = attrs.evolve(nest, steps=(*nest.steps, (let.var.name, self.value(let.value)))).vary(let.var.name)
            scope = scope.bind(let.var.name, scope.of(let.value))
        return self.nest(body[-1], scope, nest)

    def leaf(self, statement: Call | Compute | Micro, scope: Scope, loops: Needs = frozenset()) -> Leaf:
        """Compile a statement that touches data."""
        read: Expr | None = None
        lane: Expr | None = None
        machine = self.machine
        match statement:
            case Call(atom=atom, views=views):
                place = self.place(statement, atom.name, scope)
                lane = statement.lane
                if atom.kind == "MatMul":
                    sources, targets = views, views[2:3]
                    meaning: Meaning = MatMulMeaning(machine, place, atom)
                elif atom.kind in ("Move", "Add"):
                    sources, targets, read = views[:1], views[1:], statement.read
                    meaning = (
                        MoveMeaning(machine, place) if atom.unit.size == 1 else CollectiveMeaning(machine, place, atom)
                    )
                else:
                    sources, targets = views[:1], views[1:]
                    assert lane is not None
                    meaning = ShuffleMeaning(machine, place, self.value(lane))
            case Compute(dst=dst, inputs=inputs):
                place = self.place(statement, "compute", scope)
                sources, targets = inputs, (dst,)
                meaning = ComputeMeaning(machine, place, statement)
            case Micro(views=views, roles=roles, written=written, name=name):
                place = self.place(statement, name, scope)
                sources = views
                targets = tuple(views[roles.index(role)] for role in written)
                meaning = MicroMeaning(machine, place, statement)
                meaning.extents = [
                    (self.value(rows), self.value(columns)) for rows, columns in matrix_extents(statement)
                ]
            case _ as never:
                assert_never(never)
        # Loops decide how many lanes there are even where no address depends on them.
        extents = frozenset[str]().union(*(dict(scope.needs).get(name, frozenset()) for name in loops))
        offsets = [view.offset for view in (*sources, *targets)]
        needs = scope.of(*offsets, read, statement.write, lane) | scope.guard | extents
        peeks = isinstance(statement, Micro) or meaning.__class__ is ShuffleMeaning
        made = [self.operand(view, peeks and (isinstance(statement, Call) or view in targets)) for view in sources]
        goals = [self.operand(view) for view in targets]
        if isinstance(statement, Micro):
            extents = matrix_extents(statement)
            needs |= scope.of(*(e for each in extents for e in each))
            for operand in (*made, *goals):
                each = extents[statement.views.index(operand.view)]
                if operand.view.layout.rank == 2:
                    operand.extents = self.value(each[0]), self.value(each[1])
        leaf = Leaf(
            machine=machine,
            place=place,
            sources=tuple(made),
            targets=tuple(goals),
            compute=meaning.compute,
            finish=meaning.finish,
            read=self.predicate(read),
            write=self.predicate(statement.write),
            flies=isinstance(statement, Call) and bool(statement.atom.completion),
            adds=isinstance(statement, Call) and statement.atom.kind == "Add",
            needs=tuple(sorted(needs)),
            keep=BLOCK not in needs,
        )
        if isinstance(meaning, ShuffleMeaning):
            meaning.leaf = leaf
        return leaf

    def operand(self, view: View, peek: bool = False) -> Operand:
        """Compile a view."""
        storage = self.machine.storages[view.buffer.name]
        return Operand(view, storage, self.value(view.offset), tuple(map(self.value, view.origin)), peek)

    def predicate(self, expr: Expr | None) -> Value | None:
        """Compile a predicate; None where it always holds."""
        return None if expr is None or as_true(expr) else self.value(expr)

    def place(self, statement: Call | Compute | Micro | Sync, what: str, scope: Scope) -> Place:
        """Find the row of an instruction in its region."""
        region = scope.region
        path = region.path if region is not None and region.path else " > ".join(scope.titles)
        title = region.title if region is not None else ""
        key = (path, title, what)
        if key not in self.places:
            link = statement.link or (region.link if region is not None else None)
            self.places[key] = Place(len(self.machine.places), title, path, what, link)
            self.machine.places.append(self.places[key])
        return self.places[key]

    def value(self, expr: Expr) -> Value:
        """Compile an index expression to a function of the environment."""
        found = self.values.get(expr)
        if found is None:
            constant = as_int(expr)
            if constant is not None:
                found = _constant(constant)
            elif isinstance(expr, Var):
                found = _variable(expr.name)
            else:
                names = {leaf.name: f"e[{leaf.name!r}]" for leaf in free(expr)}
                found = cast("Value", eval(f"lambda e: {to_python(expr, names)}", {"np": np}))
            self.values[expr] = found
        return found


def _constant(value: int) -> Value:
    def give(env: Env) -> int:
        return value

    return give


def _variable(name: str) -> Value:
    def give(env: Env) -> Any:
        return env[name]

    return give


def together(nest: Nest, leaf: Leaf, one_by_one: Run, threads: int) -> Run:
    """Run a nest's iterations at once, or one after the other where one depends on another."""

    def run(state: State, act: Act) -> None:
        env = state.env
        extents = [int(extent(env)) for _, extent in nest.loops]
        count = int(np.prod(extents))
        if count == 0:
            return
        if count * threads > MOST_LANES:
            one_by_one(state, act)
            return
        for (name, _), at in zip(nest.loops, np.indices(extents).reshape(len(extents), count, 1), strict=True):
            env[name] = at
        env[ITERATIONS] = count
        plan = narrowed(state, act)
        env[ITERATIONS] = 1
        if isinstance(plan, Plan) and not plan.together:
            one_by_one(state, act)
        else:
            leaf.run(plan)

    def narrowed(state: State, act: Act) -> Plan | str:
        env = state.env
        lanes = (int(env[ITERATIONS]), threads)
        for name, give in nest.steps:
            if name:
                env[name] = give(env)
            else:
                act = both(act, give(env), lanes)
                if isinstance(act, str):
                    return SKIP
        return leaf.plan(state, act)

    return run


def has_partial_barriers(body: tuple[Statement, ...], threads: int) -> bool:
    """Say whether some barrier orders less than a whole block."""
    return any(isinstance(s, Sync) and s.level.size is not None and s.level.size < threads for s in walk(body))
