"""Traces: the events of a block in order: moves started, groups awaited, barriers and phases passed, products computed.

Of a long loop over chunks, only the first iterations and the last one are executed; the trace says how many were left
out. The blocks of a cluster are traced together, since they wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.arch import Arch
from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Var, as_int, evaluate
from fireiron.kernel.analysis.sampling import reads_and_writes, typical_sizes
from fireiron.kernel.ir.statements import (
    BLOCK,
    Advance,
    Arrive,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    FindGroup,
    For,
    Kernel,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Number,
    Pointer,
    Raise,
    Region,
    Statement,
    Sync,
    Turn,
    View,
    Wait,
    walk,
)
from fireiron.language.levels import Block, Cluster
from fireiron.simulate.access import Env
from fireiron.simulate.events import Event, Point, Touch, Trace
from fireiron.simulate.machine import Event as Stop
from fireiron.simulate.order import Array, spread
from fireiron.simulate.program import Compiler
from fireiron.simulate.run import prepare, run_cluster
from fireiron.simulate.state import Machine, State, Team
from fireiron.simulate.steps import Act, Run, Scope, Step, Walk
from fireiron.simulate.teams import members, parts, team_of

LONG = 48  # iterations of a loop without barriers from which on its middle is left out
WAITS = (Wait, Sync, CountIn, Meet, Commit, Await, Arrive, Turn, Raise, Lower)


def trace(
    kernel: Kernel,
    sizes: Mapping[str, int] | None = None,
    block: int = 0,
    chunks: int = 6,
    tiles: int = 4,
    on: Arch | None = None,
) -> Trace:
    """Run one block and the others of its cluster, on zeros and on groups of equal size, and list the block's events.

    Args:
        kernel: the kernel.
        sizes: values of the symbols; a symbol without one has its typical value.
        block: number of the block.
        chunks: number of iterations of a loop over chunks to execute: the first ones, and the last one.
        tiles: the most tiles that a persistent block computes.
        on: the architecture whose issue clocks are used; None for the clocks in the instructions' rows.

    Raises:
        SimulationError: as `simulate` does, except for races.
    """
    values = typical_sizes(kernel, sizes)
    numbers = {p.name: 1.0 for p in kernel.parameters if isinstance(p, Number)}
    arrays = {p.buffer.name: _zeros(p, values) for p in kernel.parameters if isinstance(p, Pointer)}
    arrays |= {s.ends.buffer.name: _equal_groups(s, values) for s in walk(kernel.body) if isinstance(s, FindGroup)}
    machine = prepare(kernel, arrays, values, numbers, track=False, blocks=kernel.cluster)
    each, grid = kernel.cluster, int(evaluate(kernel.grid, values))  # pyright: ignore[reportArgumentType]
    machine.blocks = max(each, -(-grid // each // tiles) * each) if kernel.persistent else grid
    machine.members = list(members(machine, values))
    recorder = Recorder(chunks, block % each, on)
    with np.errstate(all="ignore"):
        programs = [
            Tracing(team_of(machine, member, kernel.body, kernel.threads), recorder).program()
            for member in machine.members
        ]
        run_cluster(machine, programs, block - block % each)
    slots = {b.name: b.slots for b in kernel.buffers}
    took = len({event.tile for event in recorder.events if event.tile is not None and event.rank == recorder.rank})
    return Trace(
        tuple(recorder.events), kernel.threads, slots, recorder.left_out, frozenset(recorder.outer), recorder.rank, took
    )


def _zeros(pointer: Pointer, sizes: Mapping[str, int]) -> Array:
    """Make an array of zeros that takes the memory of one element, whatever its extents."""
    dtype: DType = pointer.buffer.dtype
    shape = tuple(int(evaluate(e, sizes)) for e in pointer.shape)  # pyright: ignore[reportArgumentType]
    strides = [int(evaluate(e, sizes)) * dtype.nbytes for e in pointer.strides]  # pyright: ignore[reportArgumentType]
    flat = np.zeros(1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) // dtype.nbytes, dtype.numpy)
    return np.lib.stride_tricks.as_strided(flat, shape, strides)


def _equal_groups(found: FindGroup, sizes: Mapping[str, int]) -> Array:
    """Divide the rows equally among the groups."""
    count, rows = (int(evaluate(e, sizes)) for e in (found.groups.count, found.groups.rows))  # pyright: ignore[reportArgumentType]
    return (np.arange(1, count + 1) * rows // max(count, 1)).astype(np.int32)


@attrs.define
class Recorder:
    """Collect the events of all teams of a cluster.

    Args:
        chunks: number of iterations of each loop over chunks that are recorded; the others do not run.
        rank: number of the recorded block in its cluster.
        on: the architecture whose issue clocks instructions take.
        events: the events, in the order in which they happened.
        left_out: number of iterations that did not run.
        outer: variables of loops over chunks.
        total: number of iterations of the loop over chunks that began last; the loading role begins first.
        visits: how often each team waited at each barrier.
        leads: for each tile, the role whose loop over chunks began first, and that loop's number of iterations.
    """

    chunks: int
    rank: int
    on: Arch | None = None
    events: list[Event] = attrs.field(factory=list[Event])
    left_out: int = 0
    outer: set[str] = attrs.field(factory=set[str])
    total: int = 0
    visits: dict[tuple[object, ...], int] = attrs.field(factory=dict[tuple[object, ...], int])
    leads: dict[int | None, tuple[str, int]] = attrs.field(factory=dict[int | None, tuple[str, int]])

    def visit(self, rank: int, label: str, meeting: tuple[object, ...]) -> Point:
        """Number a team's wait at a barrier: the n-th of its kind."""
        key = (rank, label, *meeting)
        self.visits[key] = self.visits.get(key, 0) + 1
        return (*meeting, self.visits[key])


class Tracing(Compiler):
    """Compile a team's statements so that each one also records an event."""

    def __init__(self, team: Team, recorder: Recorder) -> None:
        super().__init__(team)
        self.recorder = recorder
        self.depth = 0  # rolled loops around the statement that is compiled
        self.label = _label(team)
        self.ring = math.lcm(*(b.slots for b in team.machine.kernel.buffers), 1)

    def beside(self, team: Team) -> Tracing:
        """Make a compiler like this one for another team."""
        return Tracing(team, self.recorder)

    def statement(self, statement: Statement, scope: Scope) -> Step:
        """Compile a statement, with its events around it."""
        if isinstance(statement, Advance):
            return self._advance(statement, scope)
        if isinstance(statement, Draw):  # only a few blocks run, as if the others took their share
            return super().statement(Let(statement.var, statement.expected), scope)
        if isinstance(statement, Leave):
            return Step(lambda state, act: None)
        step = super().statement(statement, scope)
        match statement:
            case Commit(group=group):
                return self._around(step, Event("commit", group, group=group), scope)
            case Wait(group=group, pending=pending, reads_only=reads):
                return self._around(step, Event("wait", group, pending=pending, group=group, reads_only=reads), scope)
            case Sync(level=level, reason=reason):
                return self._meeting(step, f"{level}: {reason}", self._who(statement), scope)
            case CountIn(level=level):
                units = "Grid: the block counts in" if level == Block else f"Grid: the {level} counts in"
                return self._meeting(step, units, self._who(Sync(level, "")), scope)
            case Meet(level=level):
                return self._meeting(step, "Grid: all units of a tile meet", self._who(Sync(level, "")), scope)
            case Turn(number=number, reason=reason, waits=waits):
                return self._turn(step, number, reason, waits, scope)
            case Await():
                return self._await(step, statement, scope)
            case Arrive():
                return self._arrive(step, statement, scope)
            case Call() | Compute() | Micro():

                def note(state: State, act: Act) -> None:
                    self._note(statement, scope, state.env, 1)

                return _with(step, note, None)
            case For():
                return self._together(step, statement, scope)
            case _:
                return step

    def loop(self, statement: For, scope: Scope) -> Step:
        """Compile a loop; of a long loop over chunks, only the ends are executed."""
        statement = attrs.evolve(statement, drawn=False)
        tiles = self.team.machine.kernel.persistent  # the outermost loop is over tiles
        outer = self.depth == int(tiles) and not statement.unroll
        self.depth += not statement.unroll
        try:
            step = super().loop(statement, scope)
        finally:
            self.depth -= not statement.unroll
        if not outer:
            return step
        if step.run is not None:  # a main loop may need no barrier; a nest of one statement is executed at once
            long = (as_int(statement.extent) or 0) >= LONG and self.nest(statement, scope) is None
        else:
            long = any(isinstance(s, WAITS) for s in walk(statement.body))
        return self._shortened(statement, scope) if long else step

    def _shortened(self, statement: For, scope: Scope) -> Step:
        """Run the first iterations and the last one; the number left out is a multiple of every ring's slots."""
        name, extent, recorder = statement.var.name, self.value(statement.extent), self.recorder
        recorder.outer.add(name)
        self.depth += 1
        body = self.body(statement.body, scope.bind(name, frozenset([name])))
        self.depth -= 1

        def iterations(state: State) -> Iterator[int]:
            total = recorder.total = int(np.asarray(extent(state.env)).flat[0])
            tile = _tile(self.team.machine, state.env)
            who, first_total = recorder.leads.setdefault(tile, (self.label, total))
            skipped = self._skipped(total) if who == self.label else self._skipped_beside(total, first_total)
            first = max(1, min(recorder.chunks - self.ring, total - skipped - 1)) if skipped else total
            for at in (*range(first), *range(first + skipped, total)):
                if skipped and at == first + skipped:
                    recorder.left_out += skipped
                    what = f"{skipped} of {total} iterations of {name} left out"
                    self._tell(Event("gap", what, count=skipped, loop=name), scope, state)
                state.env[name] = at
                yield at

        if body.run is not None:
            each = body.run

            def run(state: State, act: Act) -> None:
                for _ in iterations(state):
                    each(state, act)

            return Step(run)
        assert body.walk is not None
        inner = body.walk

        def walk_(state: State, act: Act) -> Iterator[Stop]:
            for _ in iterations(state):
                yield from inner(state, act)

        return Step(None, walk_)

    def _skipped(self, total: int) -> int:
        """Return how many iterations of a loop over chunks are left out: a multiple of every ring's slots."""
        least = max(self.recorder.chunks, self.ring + 1)
        return max(0, (total - least) // self.ring * self.ring)

    def _skipped_beside(self, total: int, other: int) -> int:
        """Return how many iterations of a loop are left out, so that it stays in step with another role's loop.

        The numbers of iterations differ where a loop is skewed (one iteration less), or computes several chunks in
        each.

        Args:
            total: number of iterations of this loop.
            other: number of iterations of the other role's loop, which began first.
        """
        each = max(1, round(other / max(total, 1)))
        skipped, rest = divmod(self._skipped(other), each)
        return (
            skipped if not rest and skipped < total and abs(other - each * total) <= 2 * each else self._skipped(total)
        )

    def _advance(self, statement: Advance, scope: Scope) -> Step:
        """Advance a cursor; past the chunks of other units' tiles, it counts only chunks that are not left out."""
        by, name = self.value(statement.by), f"# by of {statement.cursor.name}"  # no C identifier
        step = super().statement(attrs.evolve(statement, by=Var(name)), scope)

        def before(state: State, act: Act) -> None:
            moved, total = by(state.env), self.recorder.total
            state.env[name] = moved - moved // total * self._skipped(total) if total else moved

        return _with(step, before, None)

    def _tell(self, event: Event, scope: Scope, state: State) -> None:
        self.recorder.events.append(
            attrs.evolve(
                event, title=event.title or scope.title, loops=_loops(scope, state.env), role=self.label,
                threads=self.team.threads, rank=self.team.member.rank, tile=_tile(self.team.machine, state.env),
            )
        )  # fmt: skip

    def _around(self, step: Step, event: Event, scope: Scope) -> Step:
        """Record an event, then execute its statement."""

        def before(state: State, act: Act) -> None:
            self._tell(event, scope, state)

        return _with(step, before, None)

    def _who(self, statement: Sync) -> tuple[object, ...]:
        """Name the threads that a barrier is for: this team, its role, its block or the cluster."""
        team, level = self.team, statement.level
        if level == Cluster:
            return ("Cluster",)
        if level.size is not None and level.size <= team.threads:
            return (str(level), team.member.rank, self.label)
        return (str(level), team.member.rank, "" if team.role is None else f"role {team.role.name}")

    def _meeting(self, step: Step, what: str, who: tuple[object, ...], scope: Scope) -> Step:
        points: list[Point] = []

        def before(state: State, act: Act) -> None:
            points[:] = [self.recorder.visit(self.team.member.rank, self.label, who)]
            self._tell(Event("meet", what, points=tuple(points)), scope, state)

        def after(state: State, act: Act) -> None:
            self._tell(Event("sync", what, points=tuple(points)), scope, state)

        return _with(step, before, after)

    def _turn(self, step: Step, number: int, reason: str, waits: bool, scope: Scope) -> Step:
        team = self.team
        what, points = f"turn: {reason}", list[Point]()

        def before(state: State, act: Act) -> None:
            known = team.member.turns.get(number)
            points[:] = [("turn", team.member.rank, number, 0 if known is None else known.generation)]
            self._tell(Event("meet", what, points=tuple(points)), scope, state)

        def after(state: State, act: Act) -> None:
            if waits:
                self._tell(Event("sync", what, points=tuple(points)), scope, state)

        return _with(step, before, after)

    def _await(self, step: Step, statement: Await, scope: Scope) -> Step:
        team, name = self.team, statement.barrier.name
        number, parity = self.value(statement.slot), self.value(statement.parity)
        points: list[Point] = []

        def before(state: State, act: Act) -> None:
            at, wanted = (int(np.asarray(give(state.env)).flat[0]) for give in (number, parity))
            slot = team.member.barriers[name][at]
            phase = slot.phase if slot.phase & 1 == wanted else slot.phase - 1
            points[:] = [(team.member.rank, name, at, phase)]

        def after(state: State, act: Act) -> None:
            self._tell(Event("await", f"{name}[{points[0][2]}]", points=tuple(points)), scope, state)

        return _with(step, before, after)

    def _arrive(self, step: Step, statement: Arrive, scope: Scope) -> Step:
        team, name = self.team, statement.barrier.name
        number = self.value(statement.slot)
        peer = None if statement.peer is None else self.value(statement.peer)

        def before(state: State, act: Act) -> None:
            lanes = np.arange(team.threads) if act is None else np.flatnonzero(act[0])
            if not len(lanes):
                return
            at = spread(np.asarray(number(state.env)), (1, team.threads))[0][lanes]
            ranks = np.full(len(lanes), team.member.rank)
            if peer is not None:
                ranks = spread(np.asarray(peer(state.env)), (1, team.threads))[0][lanes]
            pairs = sorted(set(zip(ranks.tolist(), at.tolist(), strict=True)))
            self._tell(Event("arrive", name, points=self._phases(name, pairs)), scope, state)

        return _with(step, before, None)

    def _phases(self, name: str, pairs: list[tuple[int, int]]) -> tuple[Point, ...]:
        """List the current phases of mbarriers, for slots and blocks of the cluster."""
        every = self.team.machine.members
        return tuple((rank, name, at, every[rank].barriers[name][at].phase) for rank, at in pairs)

    def _together(self, step: Step, statement: For, scope: Scope) -> Step:
        """Record the statements of a nest whose iterations were executed at once, without events of their own."""
        if step.walk is not None:
            return step
        found = [s for s in walk(statement.body) if isinstance(s, Call | Compute | Micro)]
        regions = [s for s in walk(statement.body) if isinstance(s, Region)]
        inside = scope.enter(regions[-1]) if regions else scope
        trips = math.prod(as_int(s.extent) or 1 for s in (statement, *walk(statement.body)) if isinstance(s, For))
        said = 0

        def before(state: State, act: Act) -> None:
            nonlocal said
            said = len(self.recorder.events)

        def after(state: State, act: Act) -> None:
            if len(self.recorder.events) == said:
                for each in found:
                    self._note(each, inside, state.env, trips)

        return _with(step, before, after)

    def _note(self, statement: Call | Compute | Micro, scope: Scope, env: Env, count: int) -> None:
        touched: dict[str, list[Touch]] = {"read": [], "write": []}
        for view, way in reads_and_writes(statement):
            touched[way].append(self._touch(view, env))
        event = Event("run", "compute", clocks=1.0, count=count)
        match statement:
            case Call(atom=atom):
                clocks = atom.clocks if self.recorder.on is None else atom.issue_clocks(self.recorder.on)
                event = attrs.evolve(
                    event, what=atom.name, clocks=clocks, flies=bool(atom.completion), group=atom.completion,
                    points=self._signals(statement, env), nbytes=_box(statement),
                )  # fmt: skip
            case Micro(name=name):
                event = attrs.evolve(event, what=name)
            case Compute():
                pass
        event = attrs.evolve(event, reads=tuple(touched["read"]), writes=tuple(touched["write"]))
        self._tell(event, scope, State(self.team, env))

    def _signals(self, statement: Call, env: Env) -> tuple[Point, ...]:
        """List the phases that a bulk copy's bytes count for."""
        if statement.signal is None:
            return ()
        barrier, slot = statement.signal
        at = int(np.asarray(self.value(slot)(env)).flat[0])
        ranks = [self.team.member.rank]
        if statement.peers is not None:
            mask = int(np.asarray(self.value(statement.peers)(env)).flat[0])
            ranks = [rank for rank in range(len(self.team.machine.members)) if mask >> rank & 1]
        return self._phases(barrier.name, [(rank, at) for rank in ranks])

    def _touch(self, view: View, env: Env) -> Touch:
        slot, buffer = 0, view.buffer
        if view.slot is not None and buffer.slots > 1:
            slot = int(np.asarray(self.value(view.slot)(env)).flat[0]) % buffer.slots
        shared = not buffer.memory.registers and (buffer.unit is None or buffer.unit.size is None)
        return Touch(buffer.name, str(buffer.memory), slot, "" if shared else self.label)


def _label(team: Team) -> str:
    """Return a team's label: its role, and its number where the role has several teams."""
    if team.role is None:
        return ""
    firsts = [first for first, _ in parts(team.role)]
    return team.role.name if len(firsts) == 1 else f"{team.role.name} {firsts.index(team.first)}"


def _box(statement: Call) -> int:
    """Return the number of bytes of a bulk copy's box."""
    if statement.map is None:
        return 0
    near = next(view for view in statement.views if str(view.buffer.memory) != "GL")
    return int(near.layout.size) * near.buffer.dtype.bits // 8


def _tile(machine: Machine, env: Env) -> int | None:
    """Return the current work item of a persistent block."""
    found = env.get("tile", env.get("item", env.get("trip"))) if machine.kernel.persistent else None
    return None if found is None else int(np.asarray(found).flat[0])


def _with(step: Step, before: Any, after: Any) -> Step:
    """Call functions before and after a compiled statement."""
    if step.run is not None:
        inner: Run = step.run

        def run(state: State, act: Act) -> None:
            before(state, act)
            inner(state, act)
            if after is not None:
                after(state, act)

        return Step(run)
    assert step.walk is not None
    walker: Walk = step.walk

    def walk_(state: State, act: Act) -> Iterator[Stop]:
        before(state, act)
        yield from walker(state, act)
        if after is not None:
            after(state, act)

    return Step(None, walk_)


def _loops(scope: Scope, env: Env) -> tuple[tuple[str, int], ...]:
    """Return the values of the loop variables around a statement that have a single value now."""
    found: list[tuple[str, int]] = []
    for name, needs in scope.needs:
        if name != BLOCK and needs == frozenset([name]) and isinstance(env.get(name), int):
            found.append((name, int(env[name])))
    return tuple(found)
