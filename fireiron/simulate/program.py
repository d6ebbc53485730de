"""Compile a kernel's statements to Python closures over an environment of loop values, for one team of threads.

A nest of loops around one statement is executed at once, with more lanes, where its iterations are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any, assert_never, cast

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Var, as_int, free
from fireiron.algebra.index.python import to_python
from fireiron.algebra.scalar import without_coordinates
from fireiron.atoms.flights import flying
from fireiron.base.errors import SimulationError
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Advance,
    Arrive,
    Ask,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Prefetch,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    View,
    Vote,
    Wait,
)
from fireiron.simulate.access import Array, Env, Value
from fireiron.simulate.before import refuse_early
from fireiron.simulate.bulk import BulkCopy
from fireiron.simulate.deferred import DeferredMatMul
from fireiron.simulate.groups import deferred
from fireiron.simulate.leaves import SKIP, Leaf, Operand, Plan, as_true, asking, both
from fireiron.simulate.machine import Event
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
from fireiron.simulate.order import some, spread
from fireiron.simulate.ranges import GIVEN, kept, promised
from fireiron.simulate.search import fetcher, finder
from fireiron.simulate.sends import Sends
from fireiron.simulate.state import ITERATIONS, Place, State, Team
from fireiron.simulate.steps import Act, Needs, Run, Scope, Step
from fireiron.simulate.votes import voting, ways_of
from fireiron.simulate.waits import Waits

MOST_LANES = 1 << 20  # most lanes of one execution of a nest


@attrs.frozen(slots=False)
class Nest:
    """Hold loops around one statement.

    Args:
        loops: variables and extents, outermost first.
        steps: definitions of names, and conditions (with an empty name), in order.
        varying: all variables that differ between iterations.
        leaf: the statement.
    """

    loops: tuple[tuple[str, Value], ...] = ()
    steps: tuple[tuple[str, Value], ...] = ()
    varying: Needs = frozenset()
    leaf: Leaf | None = None

    def vary(self, name: str) -> Nest:
        """Add a variable that differs between iterations."""
        return evolve(self, varying=self.varying | {name})


class Compiler:
    """Compile the statements that one team executes."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.values: dict[Expr, Value] = {}
        self.given: dict[Var, None] = {}  # variables of thread, block, blocks and rank, in the order of use

    def beside(self, team: Team) -> Compiler:
        """Make a compiler like this one for another team, which starts where this team splits into roles."""
        return type(self)(team)

    def program(self) -> Step:
        """Compile the kernel's body."""
        scope = Scope().bind(BLOCK, frozenset([BLOCK]))
        for name in (THREAD, BLOCKS, RANK):
            scope = scope.bind(name, frozenset())
        return self.whole(self.team.machine.kernel.body, scope)

    def whole(self, statements: tuple[Statement, ...], scope: Scope) -> Step:
        """Compile all statements of the team, after a check of the variables' ranges that expressions assume."""
        inner, first = self.body(statements, scope), promised(self)
        if inner.run is not None:
            body = inner.run

            def run(state: State, act: Act) -> None:
                first(state, act)
                body(state, act)

            return Step(run)
        assert inner.walk is not None
        walker = inner.walk

        def walk(state: State, act: Act) -> Iterator[Event]:
            first(state, act)
            yield from walker(state, act)

        return Step(None, walk)

    def body(self, statements: tuple[Statement, ...], scope: Scope) -> Step:
        """Compile a sequence of statements; a Let binds its name for those after it."""
        steps: list[Step] = []
        for statement in statements:
            steps.append(self.statement(statement, scope))
            if isinstance(statement, Let):
                scope = scope.bind(statement.var.name, scope.of(statement.value))
            if isinstance(statement, FindGroup):
                groups, needs = statement.groups, scope.of(statement.item)
                for var in (groups.group, groups.first, groups.begin, groups.length):
                    scope = scope.bind(var.name, needs)
            if isinstance(statement, Vote):
                scope = scope.bind(statement.var.name, frozenset([ways_of(statement)]))
            if isinstance(statement, Draw):
                scope = scope.bind(statement.var.name, scope.of(statement.expected))
            if isinstance(statement, Fetch):
                scope = scope.bind(statement.var.name, scope.of(statement.view.offset, statement.present))
        if len(steps) == 1:
            return steps[0]
        runs = [step.run for step in steps if step.run is not None]
        if len(runs) == len(steps):

            def run(state: State, act: Act) -> None:
                for each in runs:
                    each(state, act)

            return Step(run)

        def walk(state: State, act: Act) -> Iterator[Event]:
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
                name, give, check = var.name, self.value(value), kept(self, var, scope)

                def let(state: State, act: Act) -> None:
                    state.env[name] = give(state.env)
                    check(state, act)

                return Step(let)
            case FindGroup(ends=ends):
                find = finder(statement, self.operand(ends).storage.data, self.value)
                place = self.place(None, "FindGroup", scope)

                def search(state: State, act: Act) -> None:
                    refuse_early(self.team, place, self.team.ids(act) - self.team.offset)
                    find(state.env)

                return Step(search)
            case Fetch(view=view):
                place = self.place(None, "Fetch", scope)
                fetch = fetcher(statement, self.operand(view).storage.data, self.value)

                def fetched(state: State, act: Act) -> None:
                    refuse_early(self.team, place, self.team.ids(act) - self.team.offset)
                    fetch(state.env, act)

                return Step(fetched)
            case Draw():
                return Step(self.draw(statement, scope))
            case Leave(condition=condition):
                return Step(leaving(self.value(condition)))
            case Vote():
                return Step(voting(statement, self.operand(statement.flag), self.value(statement.present), self.team))
            case For():
                return self.loop(statement, scope)
            case If(condition=condition, body=body):
                inner = evolve(scope, guard=scope.guard | scope.of(condition))
                return self.conditional(self.value(condition), self.body(body, inner))
            case Region(body=body):
                return self.body(body, scope.enter(statement))
            case (
                Sync()
                | CountIn()
                | Meet()
                | Raise()
                | Lower()
                | Commit()
                | Wait()
                | InitBarriers()
                | Await()
                | Arrive()
                | Advance()
                | Fence()
                | Turn()
                | Roles()
            ):
                return Waits(self, scope).statement(statement)
            case Prefetch():
                return Step(lambda state, act: None)
            case Ask(view=view):
                return Step(asking(self.operand(view), self.place(None, "prefetch", scope), self.team))
            case Call(atom=atom) if flying(atom.completion) in ("stores", "loads"):
                return Step(BulkCopy(self, statement, scope).run)
            case Call(atom=atom) if flying(atom.completion) == "sends":
                return Step(Sends(self, statement, scope).run)
            case Call(atom=atom) if deferred(atom.completion):
                return Step(DeferredMatMul(self, statement, scope).run)
            case Call() | Compute() | Micro():
                leaf = self.leaf(statement, scope)

                def execute(state: State, act: Act) -> None:
                    leaf.run(leaf.plan(state, act))

                return Step(execute)
            case _ as never:
                assert_never(never)

    def conditional(self, condition: Value, inner: Step) -> Step:
        """Compile a condition: the body is executed by the threads where it holds, and skipped if there are none."""
        threads = self.team.threads

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

        def walk(state: State, act: Act) -> Iterator[Event]:
            now = narrow(state, act)
            if not isinstance(now, str):
                yield from walker(state, now)

        return Step(None, walk)

    def loop(self, statement: For, scope: Scope) -> Step:
        """Compile a loop; in a nest around one statement, independent iterations are executed at once."""
        name, extent = statement.var.name, self.value(statement.extent)
        scope = scope.bind(name, frozenset([name]))
        inner, check = self.body(statement.body, scope), kept(self, statement.var, scope)

        def trips(state: State, act: Act) -> Iterable[int]:
            return count() if statement.drawn else range(_trips(extent(state.env), state.team, act))

        if inner.walk is not None:
            walker = inner.walk

            def walk(state: State, act: Act) -> Iterator[Event]:
                with suppress(Left):
                    for at in trips(state, act):
                        state.env[name] = at
                        check(state, act)
                        yield from walker(state, act)

            return Step(None, walk)
        assert inner.run is not None
        body = inner.run

        def run(state: State, act: Act) -> None:
            with suppress(Left):
                for at in trips(state, act):
                    state.env[name] = at
                    check(state, act)
                    body(state, act)

        nest = self.nest(statement, scope)
        return Step(run if nest is None or nest.leaf is None else together(nest, nest.leaf, run, self.team.threads))

    def draw(self, statement: Draw, scope: Scope) -> Callable[[State, Act], None]:
        """Compile a Draw: increment the counter and write the item to shared memory, or read the item there."""
        counter, place = self.operand(statement.counter), (self.operand(statement.place),)
        first, units, items = (self.value(e) for e in (statement.first, statement.units, statement.items))
        name, trip = statement.var.name, statement.trip.name
        item: list[int] = [0]

        def put(plan: Plan, values: list[Array | None]) -> tuple[Array, ...]:
            return (np.full((1, 1, self.team.threads), item[0], np.int32),)

        def take(plan: Plan, values: list[Array | None]) -> tuple[Array, ...]:
            (held,) = values
            assert held is not None
            item[0] = int(held[0, 0, 0 if plan.mask is None else int(np.argmax(plan.mask[0]))])
            return ()

        leaf = Leaf(
            self.team,
            self.place(None, "draw", scope),
            place if statement.reads else (),
            () if statement.reads else place,
            take if statement.reads else put,
            lambda plan, env: None,
            read=None,
            write=None,
            needs=(),
            keep=False,
        )

        def drawn(state: State, act: Act) -> None:
            env = state.env
            if not statement.reads:
                item[0] = _one(first(env))
                if _one(env[trip]):
                    held = counter.storage.data
                    item[0] = _one(units(env)) + int(held[0])
                    held[0] = (held[0] + 1) % _one(items(env))
            leaf.run(leaf.plan(state, act))
            env[name] = item[0]

        return drawn

    def nest(self, statement: Statement, scope: Scope, found: Nest | None = None) -> Nest | None:
        """Find a nest: loops around a single Call or Compute, with Lets, Ifs and Regions between them; else None.

        Args:
            statement: the part of the nest that is not visited yet.
            scope: the loops and regions around this part.
            found: the loops, names and conditions found outside this part; None at the outermost loop.
        """
        nest = found or Nest()
        match statement:
            case For(var=var, extent=extent, body=body):
                if any(leaf.name in nest.varying for leaf in free(extent)):
                    return None
                nest = evolve(nest, loops=(*nest.loops, (var.name, self.value(extent))))
                nest = nest.vary(var.name)
                scope = scope.bind(var.name, scope.of(extent))
            case Region(body=body):
                scope = scope.enter(statement)
            case If(condition=condition, body=body):
                nest = evolve(nest, steps=(*nest.steps, ("", self.value(condition))))
                scope = evolve(scope, guard=scope.guard | scope.of(condition))
            case Call(atom=atom) if deferred(atom.completion):
                return None
            case Call() | Compute():
                return evolve(nest, leaf=self.leaf(statement, scope, nest.varying))
            case (
                Let() | FindGroup() | Fetch() | Vote() | Draw() | Leave() | Sync() | CountIn() | Meet()
                | Raise() | Lower() | Micro() | Commit() | Wait() | InitBarriers() | Await() | Arrive()
                | Advance() | Fence() | Prefetch() | Ask() | Turn() | Roles()
            ):  # fmt: skip
                return None
            case _ as never:
                assert_never(never)
        if not body:
            return None
        for let in body[:-1]:
            if not isinstance(let, Let):
                return None
            nest = evolve(nest, steps=(*nest.steps, (let.var.name, self.value(let.value)))).vary(let.var.name)
            scope = scope.bind(let.var.name, scope.of(let.value))
        return self.nest(body[-1], scope, nest)

    def leaf(self, statement: Call | Compute | Micro, scope: Scope, loops: Needs = frozenset()) -> Leaf:
        """Compile a statement that accesses data."""
        read: Expr | None = None
        lane: Expr | None = None
        places: tuple[Expr, ...] = ()
        team = self.team
        match statement:
            case Call(atom=atom, views=views):
                place = self.place(statement, atom.name, scope)
                lane = statement.lane
                if statement.accumulate is not None and not as_true(statement.accumulate):
                    raise team.error(
                        place, "atom-zeroes", f"{atom.name} cannot take C for zero", "initialise C in a Compute"
                    )
                if atom.kind == "MatMul":
                    sources, targets = views, views[2:3]
                    meaning: Meaning = MatMulMeaning(team, place, atom)
                elif atom.kind == "Reduce":
                    sources, targets, meaning = views[:1], views[1:], MatMulMeaning(team, place, atom)
                elif atom.kind in ("Move", "Add"):
                    sources, targets, read = views[:1], views[1:], statement.read
                    meaning = MoveMeaning(team, place) if atom.unit.size == 1 else CollectiveMeaning(team, place, atom)
                else:
                    sources, targets = views[:1], views[1:]
                    assert lane is not None
                    meaning = ShuffleMeaning(team, place, self.value(lane))
            case Compute(dst=dst, inputs=inputs):
                place = self.place(statement, "compute", scope)
                sources, targets = inputs, (dst,)
                tree, places = without_coordinates(statement.expr, len(inputs))
                meaning = ComputeMeaning(team, place, tree, statement, [self.value(e) for e in places])
            case Micro(views=views, roles=roles, written=written, name=name):
                place = self.place(statement, name, scope)
                sources = views
                targets = tuple(views[roles.index(role)] for role in written)
                meaning = MicroMeaning(team, place, statement)
                meaning.extents = [
                    (self.value(rows), self.value(columns)) for rows, columns in matrix_extents(statement)
                ]
            case _ as never:
                assert_never(never)
        # Loops decide how many lanes there are even where no address depends on them.
        extents = frozenset[str]().union(*(dict(scope.needs).get(name, frozenset()) for name in loops))
        offsets = [view.offset for view in (*sources, *targets)]
        offsets += [view.peer for view in sources if view.peer is not None]
        needs = scope.of(*offsets, *places, read, statement.write, lane) | scope.guard | extents
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
            team=team,
            place=place,
            sources=tuple(made),
            targets=tuple(goals),
            compute=meaning.compute,
            finish=meaning.finish,
            read=self.predicate(read),
            write=self.predicate(statement.write),
            flies=statement.atom.completion if isinstance(statement, Call) else "",
            adds=isinstance(statement, Call) and statement.atom.kind == "Add",
            needs=tuple(sorted(needs)),
            keep=BLOCK not in needs,
        )
        if isinstance(meaning, ShuffleMeaning):
            meaning.leaf = leaf
        return leaf

    def operand(self, view: View, peek: bool = False) -> Operand:
        """Compile a view."""
        storage = self.team.storages[view.buffer.name]
        peer = None if view.peer is None else self.value(view.peer)
        return Operand(view, storage, self.value(view.offset), tuple(map(self.value, view.origin)), peek, peer=peer)

    def predicate(self, expr: Expr | None) -> Value | None:
        """Compile a condition; None where it always holds."""
        return None if expr is None or as_true(expr) else self.value(expr)

    def place(self, statement: Call | Compute | Micro | Sync | Await | Arrive | None, what: str, scope: Scope) -> Place:
        """Return the site of an instruction in its region. Statements that only order others have no row in reports."""
        region = scope.region
        path = region.path if region is not None and region.path else " > ".join(scope.titles)
        title = region.title if region is not None else ""
        link = statement.link if statement is not None else None
        link = link or (region.link if region is not None else None)
        silent = statement is None or isinstance(statement, Await | Arrive)
        where = (path, region.kind, region.buffer) if region is not None else (path, "", "")
        return self.team.machine.site(where, title, what, link, silent)

    def value(self, expr: Expr) -> Value:
        """Compile an index expression to a function of the environment."""
        found = self.values.get(expr)
        if found is None:
            constant = as_int(expr)
            self.given |= dict.fromkeys(leaf for leaf in free(expr) if isinstance(leaf, Var) and leaf.name in GIVEN)
            if constant is not None:
                found = _constant(constant)
            elif isinstance(expr, Var):
                found = _variable(expr.name)
            else:
                found = _computed(expr)
            self.values[expr] = found
        return found


class Left(Exception):
    """Raised to end the loop around a `Leave`."""


def leaving(condition: Value) -> Callable[[State, Act], None]:
    """Compile a Leave; its condition must have one value for all threads of a role."""

    def leave(state: State, act: Act) -> None:
        if bool(np.all(condition(state.env))):
            raise Left

    return leave


def _one(value: Any) -> int:
    """Return the value that all threads have."""
    return int(np.asarray(value).reshape(-1)[0])


def _trips(extent: Any, team: Team, act: Act) -> int:
    """Return a loop's number of trips, which may differ between teams but not inside a team.

    Raises:
        SimulationError: `divergent-loop`.
    """
    found = np.asarray(extent)
    if found.ndim == 0:
        return int(found)
    lanes = np.arange(team.threads) if act is None else np.flatnonzero(act[0])
    trips = spread(found, (1, team.threads))[0][lanes]
    if some(trips != trips[0]):
        lane = int(lanes[np.argmax(trips != trips[0])])
        raise SimulationError(
            "divergent-loop",
            f"{team.who(int(lanes[0]))} runs a loop {int(trips[0])} times, {team.who(lane)} runs it "
            f"{int(trips[lanes == lane][0])} times",
            fix="give the loop the same extent in each warpgroup, and a condition inside",
        )
    return int(trips[0])


@lru_cache(1 << 12)
def _computed(expr: Expr) -> Value:
    """Compile an expression that is neither a constant nor a variable; equal expressions have equal values."""
    names = {leaf.name: f"e[{leaf.name!r}]" for leaf in free(expr)}
    return cast("Value", eval(f"lambda e: {to_python(expr, names)}", {"np": np}))


def _constant(value: int) -> Value:
    def give(env: Env) -> int:
        return value

    return give


def _variable(name: str) -> Value:
    def give(env: Env) -> Any:
        return env[name]

    return give


def together(nest: Nest, leaf: Leaf, one_by_one: Run, threads: int) -> Run:
    """Execute a nest's iterations at once, or in sequence where one depends on another."""

    def run(state: State, act: Act) -> None:
        env = state.env
        extents = [_trips(extent(env), state.team, act) for _, extent in nest.loops]
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
