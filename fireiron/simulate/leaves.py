"""Statements that access data, on whole arrays; accesses are planned once for each set of loop values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
import numpy as np

from fireiron.algebra.expr import Const, Expr
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import View
from fireiron.simulate.access import MOST_NBYTES, Access, Env, Fault, build, build_partial, granules_of, steps_of
from fireiron.simulate.arithmetic import WRAPPED, widened
from fireiron.simulate.before import refuse_early
from fireiron.simulate.flights import Flight, Flights
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import Array, distinct, every, some, spread
from fireiron.simulate.state import ITERATIONS, WIDE, Look, Place, State, Team
from fireiron.simulate.tracker import Race

WARPGROUP = 128
MOST_KEPT = 24 << 20  # elements of cached index arrays, 8 bytes each


@attrs.define(eq=False)
class Operand:
    """Bind a view to its memory and compiled index expressions.

    Args:
        view: the statement's view.
        storage: the memory.
        offset: computes the view's first element.
        origin: computes the coordinates of that element.
        peek: whether elements are read without checks, since the statement's meaning checks them.
        extents: computes how many rows and columns exist, where these may be fewer than the view's.
        peer: computes the rank of the block whose shared memory holds the elements; None for this block.
    """

    view: View
    storage: Storage
    offset: Callable[[Env], Any]
    origin: tuple[Callable[[Env], Any], ...]
    peek: bool = False
    extents: tuple[Callable[[Env], Any], Callable[[Env], Any]] | None = None
    peer: Callable[[Env], Any] | None = None

    def access(self, env: Env, lanes: tuple[int, int], mask: Array | None) -> Access:
        """List the elements for these lanes."""
        steps = steps_of(self.view.layout, env)
        if self.extents is not None:
            rows = steps_of(self.view.layout[0], env).size
            element = np.arange(steps.size).reshape(1, -1, 1)
            limits = [spread(np.asarray(e(env), np.int64), lanes)[:, None, :] for e in self.extents]
            there = (element % rows < limits[0]) & (element // rows < limits[1])
            whole = every(there)
            there &= np.True_ if mask is None else mask[:, None, :]
            # A microkernel may read contiguous elements by vectors, or one by one.
            if not (whole and self._aligned(env, steps)):
                return build_partial(self.storage, self.offset(env), steps, lanes, there)
        origin = tuple(o(env) for o in self.origin) if self.storage.kind == "GL" else ()
        return build(self.storage, self.offset(env), steps, lanes, mask, origin)

    def _aligned(self, env: Env, steps: Array) -> bool:
        width = min(len(steps) * self.storage.itemsize, MOST_NBYTES)
        start = np.asarray(self.offset(env)) * self.storage.itemsize + self.storage.base
        return self.storage.kind == "RF" or every(start % width == 0)


@attrs.define(eq=False)
class Plan:
    """Hold the accesses of one execution.

    Args:
        reads: the sources, in the statement's order; None where no lane reads.
        writes: the destinations.
        mask: active lanes, or None for all.
        zero: lanes that read zeros instead of the source (iterations, 1, threads), or None.
        count: number of active lanes.
        together: whether all iterations may be executed at once.
        extra: further data of the statement's meaning.
    """

    reads: list[Access | None]
    writes: list[Access]
    mask: Array | None
    zero: Array | None
    count: int
    together: bool = True
    extra: Any = None


SKIP = "skip"  # the plan, or mask, of an execution in which no lane is active
Key: TypeAlias = "tuple[Any, ...]"


@attrs.define(eq=False)
class Leaf:
    """Execute one statement for all lanes.

    Args:
        team: the executing team.
        place: the site, for counters and errors.
        sources: operands that are read.
        targets: operands that are written.
        compute: arrays (iterations, elements, threads) of the sources -> arrays of the targets.
        finish: completes a plan, or raises an error.
        read: the condition under which sources are read (else zeros), or None.
        write: the condition under which the statement is executed, or None.
        needs: the loop variables on which addresses and conditions depend.
        keep: whether plans are cached; plans that depend on the block never are.
        flies: name of the group to wait for before results land, or "".
        adds: whether results are added to the destination, atomically.
    """

    team: Team
    place: Place
    sources: tuple[Operand, ...]
    targets: tuple[Operand, ...]
    compute: Callable[[Plan, list[Array | None]], tuple[Array, ...]]
    finish: Callable[[Plan, Env], None]
    read: Callable[[Env], Any] | None
    write: Callable[[Env], Any] | None
    needs: tuple[str, ...]
    keep: bool
    flies: str = ""
    adds: bool = False
    plans: dict[Key, Plan | str] = attrs.field(factory=dict[Key, "Plan | str"])

    def plan(self, state: State, act: Array | None) -> Plan | str:
        """Return the plan for the current loop values, from the cache or a new one."""
        if not self.keep:
            return self._make(state.env, act)
        key = tuple(state.env[name] for name in self.needs)
        found = self.plans.get(key)
        if found is None:
            found = self._make(state.env, act)
            if self.team.machine.kept < MOST_KEPT:
                self.plans[key] = found
                if isinstance(found, Plan):
                    self.team.machine.kept += sum(a.weight for a in (*found.reads, *found.writes) if a is not None)
        return found

    def run(self, plan: Plan | str) -> None:
        """Read, compute, write, and count."""
        if isinstance(plan, str):
            return
        place = self.place
        self.team.order.tick(place.number)
        values: list[Array | None] = []
        for operand, access in zip(self.sources, plan.reads, strict=True):
            if access is not None and operand.peer is not None:
                visit(self.team, place, access)
            if access is not None and access.storage.fragment is not None:
                self._settled(access, "reads")
            values.append(None if access is None else gather(access) if operand.peek else self.load(access))
        for access, result in zip(plan.writes, self.compute(plan, values), strict=True):
            self.store(access, plan.mask, result)
        place.count += plan.count

    def load(self, access: Access) -> Array:
        """Read a source, after checking that it was written and that no other thread may write it at the same time."""
        storage = access.storage
        if storage.kind == "RF":
            assert storage.initialised is not None
            if access.written != storage.begun:
                if access.rows is not None:
                    written = storage.initialised.take(access.rows, axis=0)
                else:
                    written = storage.initialised.reshape(-1)[access.touched]
                if not every(written):
                    self._uninitialised_registers(access)
                access.written = storage.begun
            return gather(access)
        self._awaited(access)
        self.place.charge(storage.kind, "read", access.traffic)
        if storage.tracker is not None:
            granules, who = granules_of(access, self.keep, self.team.order.partial, self.team.offset)
            self._landed(storage, granules, "reads")
            if storage.must_write:
                self._written(access, granules)
            try:
                storage.tracker.read(granules, who)
            except Race as race:
                everyone = storage.granules(access.touched, access.who + np.int32(self.team.offset))
                raise self.team.machine.race(self.place, race, storage, *everyone) from None
            if self.team.order.peers and storage.kind == "SH":
                self._seen(storage, granules, who)
        return gather(access)

    def store(self, access: Access, mask: Array | None, values: Array) -> None:
        """Write a result of the active lanes."""
        storage = access.storage
        if storage.kind == "RF":
            assert storage.initialised is not None
            if storage.fragment is not None:
                self._settled(access, "writes")
            if access.rows is not None:
                storage.data[access.rows] = values
            else:
                storage.data.reshape(-1)[access.touched] = active(values, access, mask)
            if access.written != storage.begun:
                if access.rows is not None:
                    storage.initialised[access.rows] = True
                else:
                    storage.initialised.reshape(-1)[access.touched] = True
                access.written = storage.begun
            return
        self._awaited(access)
        self.place.charge(storage.kind, "write", access.traffic)
        if storage.tracker is None:
            who = f"{self.place} writes {storage.buffer.name}, which is an input"
            raise self.team.error(self.place, "write-to-input", who, "give the pointer the role output or update")
        granules, who = granules_of(access, self.keep, True, self.team.offset)
        self._landed(storage, granules, "writes")
        if self.team.order.peers and storage.kind == "SH":
            self._looked_at(storage, granules, who)
        if self.flies:
            flight = Flight(self.place, storage, access.touched, active(values, access, mask), granules, who)
            flights = self.team.flights.setdefault(self.flies, Flights(self.team.machine))
            flights.launch(flight)
            return
        try:
            (storage.tracker.add if self.adds else storage.tracker.write)(granules, who)
        except Race as race:
            raise self.team.machine.race(self.place, race, storage, granules, who) from None
        if self.adds:
            checked = self.team.machine.exact and storage.data.dtype in WRAPPED
            wide = widened(storage.data) if checked else None
            np.add.at(storage.data, access.touched, active(values, access, mask))
            if wide is not None:
                np.add.at(wide, access.touched, active(values, access, mask))
                here = np.unique(access.touched)
                self.team.machine.refuse_wrapped(self.place, wide[here], storage.data[here])
        else:
            storage.data[access.touched] = active(values, access, mask)

    def _awaited(self, access: Access) -> None:
        if access.storage.kind == "GL" and self.team.machine.kernel.dependent:
            refuse_early(self.team, self.place, np.unique(access.who) - 1)

    def _landed(self, storage: Storage, granules: Array, verb: str) -> None:
        """Raise an error for elements that an asynchronous access in flight uses."""
        assert storage.tracker is not None
        refuse_flying(self.team, self.place, storage, granules, verb)

    def _seen(self, storage: Storage, granules: Array, who: Array) -> None:
        """Raise an error for a read of another block's write that only barriers within one block order."""
        tracker = storage.tracker
        assert tracker is not None
        hidden = self.team.order.unseen(who, tracker.writer[granules], tracker.write_time[granules])
        if some(hidden):
            at = int(np.argmax(hidden))
            element = storage.name(storage.element_of(int(granules[at])))
            writer, reader = (self.team.machine.local(int(one)) for one in (tracker.writer[granules[at]], who[at]))
            raise self.team.error(
                self.place,
                "narrow-barrier",
                f"{self.place}: {reader} reads {element}, which {writer} wrote, and an mbarrier between them orders "
                "only the writes of its own block",
                WIDE,
            )

    def _looked_at(self, storage: Storage, granules: Array, who: Array) -> None:
        """Raise an error for a write after another block's read that only barriers within one block order."""
        looks = [look for look in self.team.member.looks if look.storage is storage]
        by_granule = np.argsort(granules, kind="stable") if looks else granules
        for look in looks:
            hit = np.isin(look.granules, granules)
            if not some(hit):
                continue
            at = by_granule[np.searchsorted(granules, look.granules[hit], sorter=by_granule)]
            hidden = self.team.order.unread(who[at], look.who[hit], np.full(len(at), look.time, np.int32))
            if some(hidden):
                first = int(np.argmax(hidden))
                element = storage.name(storage.element_of(int(granules[at[first]])))
                writer, reader = (self.team.machine.local(int(one)) for one in (who[at[first]], look.who[hit][first]))
                raise self.team.error(
                    self.place,
                    "narrow-barrier",
                    f"{self.place}: {writer} writes {element}, which {reader} read, and an mbarrier between them "
                    "orders only the accesses of its own block",
                    WIDE,
                )
            look.granules, look.who = look.granules[~hit], look.who[~hit]

    def _settled(self, access: Access, verb: str) -> None:
        """Raise an error for registers that an instruction in flight uses."""
        assert access.storage.fragment is not None
        found = access.storage.fragment.touch(access.rows, access.touched)
        if found is not None:
            register, thread = found
            raise self.team.error(
                self.place,
                "not-arrived",
                f"{self.place}: {self.team.who(thread)} {verb} {access.storage.name(register)}, which an asynchronous "
                f"instruction still uses{uncommitted(self.team, thread)}",
                "commit its group and wait for it first",
            )

    def _make(self, env: Env, act: Array | None) -> Plan | str:
        lanes = (int(env[ITERATIONS]), self.team.threads)
        mask = both(act, self.write(env) if self.write else None, lanes)
        if isinstance(mask, str):
            return SKIP
        if mask is not None:
            mask = spread(mask, lanes)
        reading = both(mask, self.read(env) if self.read else None, lanes)
        reads: list[Access | None] = []
        zero: Array | None = None
        try:
            for operand in self.sources:
                found = operand if operand.peer is None else at_peer(operand, self.team, self.place, env)
                reads.append(None if isinstance(reading, str) else found.access(env, lanes, reading))
        except Fault as fault:
            raise self.team.fault(self.place, fault, "reads") from None
        if reading is not mask:
            zero = (
                np.ones((lanes[0], 1, lanes[1]), bool) if isinstance(reading, str) else ~_full(reading, lanes)[:, None]
            )
        try:
            writes = [operand.access(env, lanes, mask) for operand in self.targets]
        except Fault as fault:
            raise self.team.fault(self.place, fault, "writes") from None
        count = lanes[0] * lanes[1] if mask is None else int(mask.sum())
        plan = Plan(reads, writes, mask, zero, count)
        plan.together = lanes[0] == 1 or independent(plan)
        self.finish(plan, env)
        return plan

    def _uninitialised_registers(self, access: Access) -> None:
        storage, threads = access.storage, self.team.threads
        assert storage.initialised is not None
        if access.rows is not None:
            bad = np.argwhere(~storage.initialised[access.rows])[0]
            register, thread = int(access.rows[bad[0], bad[1]]), int(bad[2])
        else:
            missing = ~storage.initialised.reshape(-1)[access.touched]
            register, thread = divmod(int(access.touched[np.argmax(missing)]), threads)
        raise self.uninitialised(storage, register, thread)

    def _written(self, access: Access, granules: Array) -> None:
        storage = access.storage
        assert storage.tracker is not None
        written = storage.tracker.written(granules)
        if every(written):
            return
        element = storage.element_of(int(granules[np.argmin(written)]))
        raise self.uninitialised(storage, element, int(access.who[np.argmax(access.touched == element)]) - 1)

    def uninitialised(self, storage: Storage, element: int, thread: int) -> SimulationError:
        """Make the error for a read before any write."""
        who = self.team.who(thread)
        text = f"{self.place}: {who} reads {storage.name(element)}, which no thread wrote"
        fix = "load it first, or initialise it" if storage.kind != "GL" else "give the pointer the role update"
        return self.team.error(self.place, "uninitialised-read", text, fix)


def refuse_flying(
    team: Team, place: Place, storage: Storage, granules: Array, verb: str, exempt: Array | None = None
) -> None:
    """Raise an error for granules that an asynchronous access in flight uses.

    Args:
        team: the accessing team.
        place: the statement.
        storage: the memory.
        granules: the accessed granules.
        verb: `reads` or `writes`, for the message.
        exempt: granules whose writes in flight do not matter.

    Raises:
        SimulationError: `not-arrived`, `source-in-flight`.
    """
    tracker = storage.tracker
    if tracker is None or tracker.flying is None or tracker.reading is None:
        return
    flying = tracker.flying[granules] != 0
    if exempt is not None:
        flying &= ~exempt
    if some(flying):
        element = storage.name(storage.element_of(int(granules[np.argmax(flying)])))
        text = f"{place} {verb} {element}, which an asynchronous copy may still write"
        raise team.error(place, "not-arrived", text, "wait for the copy's barrier or group first")
    if verb == "writes":
        reading = tracker.reading[granules] != 0
        if some(reading):
            element = storage.name(storage.element_of(int(granules[np.argmax(reading)])))
            text = f"{place} writes {element} in {team.label}, which an asynchronous instruction may still read"
            raise team.error(place, "source-in-flight", text, "wait for the reader's group first")


def at_peer(operand: Operand, team: Team, place: Place, env: Env) -> Operand:
    """Bind a view of another block's shared memory to that block, whose rank the view gives in this trip.

    Raises:
        SimulationError: `bad-peers`.
    """
    assert operand.peer is not None
    ranks, peers = np.unique(np.asarray(operand.peer(env))), team.machine.cluster_of(team.member)
    if len(ranks) != 1 or not 0 <= int(ranks[0]) < len(peers):
        raise team.error(
            place,
            "bad-peers",
            f"{place}: {team.label} reads shared memory of rank {', '.join(map(str, ranks))} of a cluster of "
            f"{len(peers)}",
            "read from one block of the cluster at a time",
        )
    return attrs.evolve(operand, storage=peers[int(ranks[0])].shared[operand.view.buffer.name])


def visit(team: Team, place: Place, access: Access) -> None:
    """Record reads of another block's shared memory; that block must synchronise before it ends or writes there."""
    storage = access.storage
    member = next(m for m in team.machine.members if m.shared.get(storage.buffer.name) is storage)
    if member is not team.member:
        granules, who = storage.granules(access.touched, access.who + np.int32(team.offset))
        member.looks.append(Look(place, storage, granules, who, team.order.now))


def uncommitted(team: Team, lane: int) -> str:
    """Return a note for an error where the lane's unit never committed the asynchronous work."""
    queues = [groups for (_, first), groups in team.groups.items() if first == lane // WARPGROUP * WARPGROUP]
    return ": its group was not committed" if any(queue.open for queue in queues) else ""


def gather(access: Access) -> Array:
    """Read a view's elements without checks."""
    storage = access.storage
    if access.rows is not None:
        return storage.data.take(access.rows, axis=0)  # several times as fast as an index
    return storage.data.reshape(-1)[access.index] if storage.kind == "RF" else storage.data[access.index]


def asking(operand: Operand, place: Place, team: Team) -> Callable[[State, Any], None]:
    """Compile prefetches to the L2 cache: the simulator only checks that their lines lie in the array."""

    def run(state: State, act: Any) -> None:
        mask = both(act, None, (1, team.threads))
        if not isinstance(mask, str):
            try:
                operand.access(state.env, (1, team.threads), mask)
            except Fault as fault:
                raise team.fault(place, fault, "asks for") from None

    return run


def both(first: Any, second: Any, lanes: tuple[int, int]) -> Any:
    """Join two masks: None where all lanes are active, SKIP where none is.

    Args:
        first: a mask, None or SKIP.
        second: a truth value, an array that broadcasts to the lanes, or None for true.
        lanes: numbers of iterations and threads.
    """
    if second is None or isinstance(first, str):
        return first
    truth = np.asarray(second) != 0
    if truth.ndim == 0:
        return first if truth else SKIP
    joined = spread(truth, lanes) if first is None else spread(first & truth, lanes)
    if every(joined):
        return None
    return joined if some(joined) else SKIP


def independent(plan: Plan) -> bool:
    """Return whether iterations of a thread are independent: none accesses an element that another one writes."""
    (write,) = plan.writes
    storage = write.storage
    inside = [a for a in plan.reads if a is not None and a.storage.kind == storage.kind]
    shared = [a for a in inside if a.storage is storage or storage.kind == "SH"]
    if storage.kind != "RF":
        if not shared:
            return True
        return all(_same(a, write) for a in shared) and _distinct(write)
    if not _distinct(write):
        return False
    return all(_same(a, write) or _disjoint(a, write) for a in shared)


def _place_of(access: Access) -> Array:
    return access.touched if access.rows is None else access.rows


def _same(read: Access, write: Access) -> bool:
    if read.storage is not write.storage or (read.rows is None) != (write.rows is None):
        return False
    return np.array_equal(_place_of(read), _place_of(write))


def _disjoint(read: Access, write: Access) -> bool:
    if (read.rows is None) != (write.rows is None):
        return False
    return not some(np.isin(_place_of(read), _place_of(write)))


def _distinct(access: Access) -> bool:
    flat = _place_of(access).reshape(-1)
    return distinct(flat) == len(flat)


def _full(mask: Array | None, lanes: tuple[int, int]) -> Array:
    return np.ones(lanes, bool) if mask is None else spread(mask, lanes)


def active(values: Array, access: Access, mask: Array | None) -> Array:
    """Return the values of a view's active elements, in the order of `access.touched`."""
    assert access.index is not None
    values = spread(values, access.index.shape)
    if access.active is not None:
        return values[access.active]
    if mask is None:
        return values.reshape(-1)
    return values[spread(mask[:, None, :], values.shape)]


def compiled(expr: Expr | None, make: Callable[[Expr], Callable[[Env], Any]]) -> Callable[[Env], Any] | None:
    """Compile a condition; None where it is always true."""
    return None if expr is None or as_true(expr) else make(expr)


def as_true(expr: Expr) -> bool:
    """Say whether an expression is a constant other than 0."""
    return isinstance(expr, Const) and expr.value != 0
