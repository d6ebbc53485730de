"""Statements that order others: barriers, phases, groups, fences, cursors and roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never, cast

import numpy as np

from fireiron.atoms.flights import flying
from fireiron.kernel.ir.statements import (
    THREAD,
    Advance,
    Arrive,
    Await,
    Commit,
    CountIn,
    Fence,
    InitBarriers,
    Lower,
    Meet,
    Raise,
    Roles,
    Sync,
    Turn,
    Wait,
)
from fireiron.language.levels import Level
from fireiron.simulate.barriers import Gate, Slot, Turnstile
from fireiron.simulate.before import has_waited, refuse_early
from fireiron.simulate.flights import Flights
from fireiron.simulate.groups import Groups, deferred
from fireiron.simulate.lanes import each, uniform
from fireiron.simulate.machine import Arrival, Coroutine, Event, Fork, Gathering, Standing, Waiting
from fireiron.simulate.order import Array, every, some
from fireiron.simulate.state import CursorState, Place, State, Team
from fireiron.simulate.steps import Act, Scope, Step
from fireiron.simulate.teams import parts, team_of

if TYPE_CHECKING:
    from fireiron.simulate.program import Compiler

WARP = 32
WARPGROUP = 128

Ordering: TypeAlias = (
    Sync | CountIn | Meet | Raise | Lower | Commit | Wait | InitBarriers | Await | Arrive | Advance | Fence | Turn
    | Roles
)  # fmt: skip


class Waits:
    """Compile the statements of one team that order others."""

    def __init__(self, compiler: Compiler, scope: Scope) -> None:
        self.compiler = compiler
        self.team = compiler.team
        self.scope = scope

    def statement(self, statement: Ordering) -> Step:
        """Compile one statement."""
        match statement:
            case Sync():
                return self.sync(statement)
            case CountIn():
                return self.count_in(statement)
            case Meet():
                return self.meet(statement)
            case Raise():
                return self.raise_flag(statement)
            case Lower():
                return self.lower_flag(statement)
            case Commit(group=group):
                return Step(lambda state, act: self.commit(group, act))
            case Wait(group=group, pending=pending, reads_only=reads_only):
                return Step(lambda state, act: self.wait(group, pending, reads_only, act))
            case InitBarriers():
                return self.initialise(statement)
            case Await():
                return self.awaiting(statement)
            case Arrive():
                return self.arrive(statement)
            case Advance():
                return self.advance(statement)
            case Fence():
                return self.fence(statement)
            case Turn():
                return self.turn(statement)
            case Roles():
                return self.roles(statement)
            case _ as never:
                assert_never(never)

    def sync(self, statement: Sync) -> Step:
        """Wait at a barrier of a level; inside a role, its units are those of the role."""
        team = self.team
        place = self.compiler.place(statement, f"Sync({statement.level})", self.scope)
        each_block = team.machine.kernel.threads
        first, size = team.member.rank * each_block, each_block
        if team.role is not None:
            first, size = first + team.role.first, team.role.threads

        def walk(state: State, act: Act) -> Iterator[Event]:
            active: Array | None = None
            if act is not None:
                active = np.zeros(team.order.threads, bool)
                active[team.ids(act)] = True
            yield Arrival(statement, place, active, first, size)
            if statement.level.size is None or statement.level.size >= team.threads:
                state.met = team.order.now

        return Step(None, walk)

    def count_in(self, statement: CountIn) -> Step:
        """Count a unit in, by the team of the unit's first thread; it releases accesses before the last barrier."""
        team, order = self.team, self.team.order
        meeting = Sync(statement.level, f"the {statement.level} counts in", statement.link)
        join = self.sync(meeting).walk
        counter, count = self.compiler.operand(statement.counter), self.compiler.value(statement.count)
        releases, acquires = (statement.order in ("acq_rel", way) for way in ("release", "acquire"))
        unit, units = self._first(statement.level), self._units(statement.level)
        place = self.compiler.place(meeting, "CountIn", self.scope)
        assert join is not None

        def walk(state: State, act: Act) -> Iterator[Event]:
            refuse_early(team, place, team.ids(act) - team.offset)
            visit = team.visits[statement.id] = team.visits.get(statement.id, 0) + 1
            key = statement.id, unit, visit
            if team.first == unit:
                at, many = _one(counter.offset(state.env)), _one(count(state.env))
                name = counter.view.buffer.name
                arrived = counter.storage.arrived[at] = counter.storage.arrived.get(at, 0) + units
                if arrived > many:
                    raise team.error(
                        place,
                        "counted-twice",
                        f"{place}: {team.label} counts in at {name}[{at}] as number {arrived} of {many}",
                        "let one thread of each unit that shares the tile count, once",
                    )
                here = int(counter.storage.data[at])
                counter.storage.data[at] = (here + units) % many
                released = max(order.base, state.met) if releases else order.start
                order.count_in((name, at), released, acquires)
                team.member.counted[key] = int(here + units == many)
                self._tell((name, at), releases, acquires)
            yield from join(state, act)
            state.env[statement.var.name] = team.member.counted[key]

        return Step(None, walk)

    def meet(self, statement: Meet) -> Step:
        """Count a unit in, by the team of its first thread, and wait for all units and their accesses."""
        team, machine = self.team, self.team.machine
        meeting = Sync(statement.level, f"the {statement.level} meets the others", statement.link)
        join = self.sync(meeting).walk
        counter, count = self.compiler.operand(statement.counter), self.compiler.value(statement.count)
        unit, units = self._first(statement.level), self._units(statement.level)
        place = self.compiler.place(meeting, "Meet", self.scope)
        assert join is not None

        def walk(state: State, act: Act) -> Iterator[Event]:
            refuse_early(team, place, team.ids(act) - team.offset)
            if team.first == unit:
                at, many = _one(counter.offset(state.env)), _one(count(state.env))
                name, first = f"{counter.view.buffer.name}[{at}]", team.ids(None)[:1]
                if not 0 <= at < counter.storage.size:
                    text = f"{place}: {team.label} counts in at {name}, of {counter.storage.size} counters"
                    raise team.error(place, "out-of-bounds", text, "give each tile a counter of its own")
                gate = machine.gates.setdefault(name, Gate(name))
                gate.arrive(team, place, units, many, team.order.released(first) if machine.check else None)
                yield Gathering(team, place, gate, many, first)
            yield from join(state, act)

        return Step(None, walk)

    def raise_flag(self, statement: Raise) -> Step:
        """Set a flag, by the team of the unit's first thread; it releases accesses before the last barrier."""
        team, order = self.team, self.team.order
        flag = self.compiler.operand(statement.flag)
        unit, units = self._first(statement.level), self._units(statement.level)
        place = self.compiler.place(Sync(statement.level, "", statement.link), "Raise", self.scope)

        def run(state: State, act: Act) -> None:
            refuse_early(team, place, team.ids(act) - team.offset)
            if team.first != unit:
                return
            at = _one(flag.offset(state.env))
            if flag.storage.data[at] or units > 1:
                raise team.error(
                    place,
                    "flag-raised",
                    f"{place}: {team.label} raises {flag.view.buffer.name}[{at}], which is raised already",
                    "let one thread raise it once, and one unit lower it before it is raised again",
                )
            flag.storage.data[at] = 1
            order.count_in((flag.view.buffer.name, at), max(order.base, state.met), False)
            self._tell((flag.view.buffer.name, at), releases=True, acquires=False)

        return Step(run)

    def lower_flag(self, statement: Lower) -> Step:
        """Check that an earlier block has set a flag (a block may only wait for lower ones), and clear it."""
        team, order = self.team, self.team.order
        meeting = Sync(statement.level, f"the {statement.level} waits for a flag", statement.link)
        join = self.sync(meeting).walk
        place = self.compiler.place(meeting, "Lower", self.scope)
        flag = self.compiler.operand(statement.flag)
        unit, units = self._first(statement.level), self._units(statement.level)
        assert join is not None

        def walk(state: State, act: Act) -> Iterator[Event]:
            refuse_early(team, place, team.ids(act) - team.offset)
            if team.first == unit:
                at = _one(flag.offset(state.env))
                if not flag.storage.data[at] or units > 1:
                    once = f", and lowers it {units} times" if units > 1 else ", which no block before raises"
                    raise team.error(
                        place,
                        "flag-not-raised",
                        f"{place}: {team.label} waits for {flag.view.buffer.name}[{at}]{once}",
                        "let blocks wait for lower ones alone: those start earlier",
                    )
                flag.storage.data[at] = 0
                order.count_in((flag.view.buffer.name, at), order.start, True)
                self._tell((flag.view.buffer.name, at), releases=False, acquires=True)
            yield from join(state, act)

        return Step(None, walk)

    def _first(self, level: Level) -> int:
        """Return the first thread of the unit of a level that this team is, or is a part of."""
        role = self.team.role
        return role.first if level.size is None and role is not None else self.team.first

    def _units(self, level: Level) -> int:
        """Return the number of a level's units in this team; each executes a statement once."""
        return 1 if level.size is None else max(1, self.team.threads // level.size)

    def _tell(self, place: tuple[str, int], releases: bool, acquires: bool) -> None:
        """Give all threads the vector clock of the first thread, after a flag or counter in global memory."""
        team, order = self.team, self.team.order
        if not team.machine.check:
            return
        told, first = team.machine.members[0].told, team.ids(None)[:1]
        known = told.get(place)
        if releases:
            row = order.released(first)
            told[place] = row if known is None else np.maximum(row, known)
        if acquires and known is not None:
            order.learn(first, known)

    def commit(self, group: str, act: Act) -> None:
        """Commit the groups of every active thread or unit, or of the whole team."""
        if deferred(group):
            for queue in self._queues(group, act):
                queue.commit()
        else:
            self.team.flights.setdefault(group, Flights(self.team.machine)).commit()

    def wait(self, group: str, pending: int, reads_only: bool, act: Act) -> None:
        """Land the writes of the awaited groups, as late as is legal."""
        if not deferred(group):
            self.team.flights.setdefault(group, Flights(self.team.machine)).wait(pending)
            return
        for queue in self._queues(group, act):
            if reads_only:
                queue.read(pending)
            else:
                queue.land(pending)

    def _queues(self, group: str, act: Act) -> Iterator[Groups]:
        """Return the group queues of the active units; each unit must be active as a whole."""
        for (name, first), queue in self.team.groups.items():
            if name != group:
                continue
            unit = WARPGROUP if flying(group) == "products" else 1
            here = np.ones(1, bool) if act is None else act[0, first : first + unit]
            if some(here) and not every(here):
                place = self.compiler.place(None, group, self.scope)
                idle = self.team.who(first + int(np.argmin(here)))
                raise self.team.error(
                    place,
                    "divergent-call",
                    f"{place}: a warpgroup commits and waits together, but {idle} does not take part",
                    "move it out of the condition",
                )
            if every(here):
                yield queue

    def initialise(self, statement: InitBarriers) -> Step:
        """Initialise mbarriers, by the block's first thread."""
        team = self.team
        place = self.compiler.place(None, "InitBarriers", self.scope)
        first = team.member.rank * team.machine.kernel.threads

        def run(state: State, act: Act) -> None:
            if first not in team.ids(act):
                raise team.error(
                    place,
                    "uninitialised-barrier",
                    f"{place}: thread 0 of block {team.member.block}, which initialises mbarriers, does not "
                    "execute this",
                    "initialise them outside roles and conditions",
                )
            for barrier in statement.barriers:
                for slot in team.member.barriers[barrier.name]:
                    slot.initialise(team, place, first)

        return Step(run)

    def awaiting(self, statement: Await) -> Step:
        """Wait for a phase."""
        team = self.team
        name, slots = statement.barrier.name, statement.barrier.slots
        place = self.compiler.place(statement, f"Await({name})", self.scope)
        number, parity = self.compiler.value(statement.slot), self.compiler.value(statement.parity)
        cursors = [
            cursor
            for cursor in (team.role.cursors if team.role is not None else ())
            if cursor.slots == slots
            and cursor.slot.name in self.scope.of(statement.slot)
            and cursor.parity.name in self.scope.of(statement.parity)
        ]

        def walk(state: State, act: Act) -> Iterator[Event]:
            threads = team.ids(act)
            lanes = threads - team.offset
            at = uniform(number, state.env, team, lanes, place, "slot")
            wanted = uniform(parity, state.env, team, lanes, place, "parity")
            slot = self._slot(team.member.barriers[name], at, place)
            slot.usable(team, place, threads)
            for cursor in cursors:
                if state.env[cursor.slot.name] == at:
                    wraps = state.cursors[cursor.name].wraps
                    phase = wraps if state.env[cursor.parity.name] == wanted else wraps - 1
                    self._in_step(slot, phase, threads, place)
            yield Waiting(team, place, slot, wanted, threads, slot.phase, statement.wide)

        return Step(None, walk)

    def _slot(self, ring: list[Slot], at: int, place: Place) -> Slot:
        if not 0 <= at < len(ring):
            text = f"{place}: slot {at} of a ring of {len(ring)} mbarriers"
            raise self.team.error(place, "out-of-bounds", text, "advance a cursor instead of counting")
        return ring[at]

    def _in_step(self, slot: Slot, phase: int, threads: Array, place: Place) -> None:
        """Check that the parity distinguishes the awaited phase from every phase that may be current meanwhile.

        Raises:
            SimulationError: `phase-ahead`.
        """
        team, order = self.team, self.team.order
        why = ""
        if phase > slot.phase:
            why = f"while phase {slot.phase} runs: the parity says that it is complete"
        elif slot.phase - phase > 1:
            why = f"while phase {slot.phase} runs: the parity says that it is not complete"
        elif phase > 0 and team.machine.check:
            before = slot.completions[phase - 1]
            if before > order.base and some(order.matrix()[threads, slot.column] < before):
                why = f"and nothing tells it that phase {phase - 1} is complete: it may run a phase ahead"
        if why:
            raise team.error(
                place,
                "phase-ahead",
                f"{place}: {team.label} awaits phase {phase} of {slot.name}, {why}",
                "await every phase in turn, or order threads that skip phases behind threads that await them",
            )

    def arrive(self, statement: Arrive) -> Step:
        """Arrive at mbarriers of this block or of other blocks."""
        team = self.team
        name = statement.barrier.name
        place = self.compiler.place(statement, f"Arrive({name})", self.scope)
        number = self.compiler.value(statement.slot)
        peer = None if statement.peer is None else self.compiler.value(statement.peer)

        def run(state: State, act: Act) -> None:
            threads = team.ids(act)
            lanes = threads - team.offset
            numbers = each(number, state.env, team)[lanes]
            members = team.machine.cluster_of(team.member)
            own = members.index(team.member)
            ranks = np.full(len(lanes), own) if peer is None else each(peer, state.env, team)[lanes]
            pairs = cast("set[tuple[int, int]]", set(zip(ranks.tolist(), numbers.tolist(), strict=True)))
            for rank, at in sorted(pairs):
                if not 0 <= rank < len(members):
                    raise team.error(
                        place,
                        "bad-peers",
                        f"{place}: {team.label} arrives at rank {rank} of a cluster of {len(members)}",
                        "arrive at blocks of the cluster",
                    )
                mine = threads[(ranks == rank) & (numbers == at)]
                member = members[rank]
                slot = self._slot(member.barriers[name], at, place)
                slot.usable(team, place, mine)
                if member is team.member:
                    slot.in_turn(team, place, mine)
                else:
                    member.visits += [(int(thread), team.order.now, place) for thread in mine.tolist()]
                slot.arrive(team, place, mine, statement.nbytes, statement.wide)

        return Step(run)

    def advance(self, statement: Advance) -> Step:
        """Advance a cursor; the same threads must always advance it, since each thread has its own copy."""
        team, cursor = self.team, statement.cursor
        place = self.compiler.place(None, f"Advance({cursor.name})", self.scope)
        by = self.compiler.value(statement.by)

        def run(state: State, act: Act) -> None:
            threads = team.ids(act)
            known = state.cursors.get(cursor.name)
            movers = threads.tobytes()
            if known is None or known.movers not in (None, movers):
                text = f"{place}: {team.label} has no such cursor"
                if known is not None:
                    text = f"{place}: not the same threads of {team.label} move the cursor as before"
                raise team.error(place, "divergent-cursor", text, "list it in the role, and move it in all its threads")
            known.movers = movers
            step = uniform(by, state.env, team, threads - team.offset, place, "step")
            turns, slot = divmod(int(state.env[cursor.slot.name]) + step, cursor.slots)
            known.wraps += turns
            state.env[cursor.slot.name] = slot
            state.env[cursor.parity.name] = known.wraps & 1

        return Step(run)

    def fence(self, statement: Fence) -> Step:
        """Order accesses of the active threads."""
        team, kind = self.team, statement.kind
        place = self.compiler.place(None, f"Fence({kind})", self.scope)

        def run(state: State, act: Act) -> None:
            threads = team.ids(act)
            team.order.tick(place.number)
            if kind == "proxy.async":
                team.order.fence(threads)
            elif kind == "grid.wait":
                has_waited(team, threads - team.offset)
            elif kind == "registers":
                for storage in team.storages.values():
                    if storage.fragment is not None:
                        storage.fragment.stale[:, threads - team.offset] = False
            elif kind == "barrier.init":
                for ring in team.member.barriers.values():
                    for slot in ring:
                        if slot.initialised is not None and slot.initialiser in threads:
                            slot.fenced = team.order.now

        return Step(run)

    def turn(self, statement: Turn) -> Step:
        """Arrive at a numbered barrier, and wait at it if the statement does."""
        team, number = self.team, statement.number
        place = self.compiler.place(None, f"Turn({number})", self.scope)

        def walk(state: State, act: Act) -> Iterator[Event]:
            threads = team.ids(act)
            warps = np.unique(threads // WARP)
            if len(threads) != WARP * len(warps):
                raise team.error(
                    place,
                    "divergent-barrier",
                    f"{place}: {len(threads)} threads of {team.label} arrive at barrier {number}, which counts whole "
                    "warps",
                    "make the condition uniform in each Warp",
                )
            turnstile = team.member.turns.setdefault(number, Turnstile(statement.threads))
            if not turnstile.arrived:
                turnstile.threads = statement.threads
            again = not turnstile.arrived.isdisjoint(threads.tolist())
            if (
                turnstile.threads != statement.threads
                or len(turnstile.arrived) + len(threads) > turnstile.threads
                or again
            ):
                raise team.error(
                    place,
                    "too-many-arrivals",
                    f"{place}: {len(threads)} threads of {team.label} arrive at barrier {number} for "
                    f"{statement.threads}, where {len(turnstile.arrived)} of {turnstile.threads} are"
                    + (", among them these threads" if again else ""),
                    "let each thread arrive once a turn, and all arrivals state the same number of threads",
                )
            generation = turnstile.generation
            turnstile.arrive(team.order, threads)
            if statement.waits:
                yield Standing(team, place, number, turnstile, generation, threads)

        return Step(None, walk)

    def roles(self, statement: Roles) -> Step:
        """Split a block's threads into teams that run at the same time."""
        parent = self.team
        place = self.compiler.place(None, "Roles", self.scope)
        made: list[tuple[Team, Step]] = []
        for role in statement.roles:
            scope = self.scope
            for cursor in role.cursors:
                for name in (cursor.slot.name, cursor.parity.name):
                    scope = scope.bind(name, frozenset([name]))
            for first, threads in parts(role):
                team = team_of(parent.machine, parent.member, role.body, threads, first, role)
                made.append((team, self.compiler.beside(team).whole(role.body, scope)))

        def walk(state: State, act: Act) -> Iterator[Event]:
            if act is not None or parent.role is not None:
                raise parent.error(
                    place,
                    "divergent-call",
                    f"{place}: only a whole block parts into roles",
                    "move it out of the condition",
                )
            yield Fork([_begin(team, step, state) for team, step in made])

        return Step(None, walk)


def _one(value: Any) -> int:
    """Return a value that is the same for all threads of a team."""
    return int(np.asarray(value).flat[0])


def _narrowed(value: Any, parent: Team, team: Team) -> Any:
    """Return a team's entries of a value that has an entry for each thread of the block."""
    if not isinstance(value, np.ndarray):
        return value
    found = cast("Array", value)
    varies = found.ndim > 0 and found.shape[-1] == parent.threads
    return found[..., team.first : team.first + team.threads] if varies else found


def _begin(team: Team, step: Step, state: State) -> Coroutine:
    """Start a team of a role, with its threads' entries of all values; `thread` counts from the role's first thread."""
    assert team.role is not None
    env: dict[str, Any] = {name: _narrowed(value, state.team, team) for name, value in state.env.items()}
    env[THREAD] = np.arange(team.threads) + (team.first - team.role.first)
    for cursor in team.role.cursors:
        env[cursor.slot.name] = env[cursor.parity.name] = 0
    inner = State(team, env, {cursor.name: CursorState() for cursor in team.role.cursors})
    mask = np.zeros(team.order.threads, bool)
    mask[team.ids(None)] = True
    return Coroutine(mask, steps_of(step, inner), team.label, top=False)


def steps_of(step: Step, state: State) -> Iterator[Event]:
    """Execute a team's program as a generator, which stops where the team may have to wait."""
    if step.run is not None:
        step.run(state, None)
    elif step.walk is not None:
        yield from step.walk(state, None)
