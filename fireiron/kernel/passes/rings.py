"""Rings of shared memory between roles: derives the waits and arrivals at their mbarriers.

A ring's cursor gives the slot of a trip's accesses; advancing it moves a role to the next slot. Before the first copy
to a slot, the loading role waits until the slot's readers are done, and announces the number of bytes that will land.
Before its first access, a reader waits until these bytes have landed. After a unit's last access, one thread of the
unit arrives (releases the slot). Where threads read the slot themselves, a fence and a barrier of the unit precede the
arrival, since bulk copies overwrite the slot. Where the products of some chunks stay in flight, the arrival is delayed
by as many slots. mbarriers are initialised before roles begin, and no block ends while another block may still arrive
at its mbarriers.

A buffer that a role fills once has one mbarrier: its bytes are announced before the copies, and awaited before the
first statement that reads the buffer, outside loops. No reader arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import attrs

from fireiron.algebra.expr import Expr, Select, Var, and_, as_expr, as_int, closed, eq, free, ge, lt, select
from fireiron.base.link import Link
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Await,
    Barrier,
    Call,
    Compute,
    Cursor,
    Fence,
    For,
    If,
    InitBarriers,
    Let,
    Micro,
    Region,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    walk,
    within,
)
from fireiron.language.levels import SH, Cluster, Level, Warp

Body = tuple[Statement, ...]
READY = 7  # the numbered barrier after which roles may use their mbarriers


@attrs.frozen
class Ring:
    """Hold the mbarriers of a ring, and facts about the threads that arrive at them.

    Args:
        cursor: the name of the cursor; each role has its own.
        full: the mbarrier that completes when a slot's bytes have landed.
        empty: the mbarrier that completes when the slot's readers are done, in all blocks that its copies write to.
        level: level of the units that read a slot.
        position: a thread's index in its unit.
        tells: number of threads of a unit that arrive at `empty`, each at a different block's barrier.
        peer: the rank of the block whose barrier a thread arrives at; None for this block only.
        inflight: number of slots that products may still read when their unit continues.
        link: the split that needs the ring.
        fillers: a thread's index in the loading role, where the role's threads write slots of this ring or of another
            one; None where one thread starts bulk copies and the others are idle.
        last: the cursor of the slot that readers release, where it lies behind the slot that they wait for.
        awaits, releases: whether the cursor's readers wait for the slot's bytes, and release the slot.
    """

    cursor: Cursor
    full: Barrier
    empty: Barrier
    level: Level
    position: Expr
    tells: int
    peer: Expr | None
    inflight: int
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    fillers: Expr | None = None
    last: Cursor | None = None
    awaits: bool = True
    releases: bool = True

    def halves(self, body: Body) -> tuple[Ring, ...]:
        """List the ring for each cursor of its readers: of two, one waits for slots and the other releases them."""
        if self.last is None or not any(isinstance(s, Advance) and s.cursor == self.last for s in walk(body)):
            return (self,)
        return attrs.evolve(self, releases=False), attrs.evolve(self, cursor=self.last, awaits=False)

    def release(self, slot: Expr, condition: Expr | None = None) -> Statement:
        """Make one thread of each unit (or one for each block) arrive, after the unit has read the slot."""
        here = eq(self.position, 0) if self.peer is None else lt(self.position, self.tells)
        if condition is not None and as_int(condition) != 1:
            here = and_(here, condition)
        return If(here, (Arrive(self.empty, slot, peer=self.peer, link=self.link),))

    def behind(self, count: int) -> Expr:
        """Return the slot that lies a number of slots behind the cursor."""
        slot = self.cursor.slot
        if not count:
            return slot
        return select(lt(slot, count), slot + (self.cursor.slots - count), slot - count)

    def moves(self, s: Statement) -> bool:
        """Say whether a statement is a loop that advances through the ring slot by slot, and no loop in it does."""
        if not isinstance(s, For) or any(isinstance(x, For) and self.passes(x) for x in s.body):
            return False
        return any(isinstance(x, Advance) and x.cursor == self.cursor for x in s.body)

    def passes(self, s: Statement) -> bool:
        """Say whether a statement, or one in its body, advances to the next slot; it then has its own waits."""
        return any(isinstance(x, Advance) and x.cursor == self.cursor for x in walk((s,)))

    def filled(self, s: Statement) -> bool:
        """Say whether copies to the ring start in a statement, or threads write a slot of it."""
        written = self.fillers is not None and any(True for _ in self._touching(s, "write"))
        return written or self.full.name in _signals(s)

    def read(self, s: Statement) -> bool:
        """Say whether a statement reads the slot where the cursor is."""
        return any(True for _ in self.readers(s))

    def readers(self, s: Statement) -> Iterator[Call | Compute | Micro]:
        """List the statements that read the cursor's slot."""
        return self._touching(s, "read")

    def _touching(self, s: Statement, touch: str) -> Iterator[Call | Compute | Micro]:
        for x in walk((s,)):
            if isinstance(x, Call | Compute | Micro) and any(
                v.buffer.memory == SH and v.slot is not None and self.cursor.slot in free(v.slot)
                for v, way in reads_and_writes(x)
                if way == touch
            ):
                yield x


@attrs.frozen
class Once:
    """Hold the mbarrier that counts the bytes of a buffer that a role fills once.

    Args:
        buffer: the buffer's name.
        full: the mbarrier that completes when all bytes have landed.
        link: the load.
    """

    buffer: str
    full: Barrier
    link: Link | None = attrs.field(default=None, eq=False, repr=False)

    def filled(self, s: Statement) -> bool:
        """Say whether copies to the buffer start in a statement."""
        return self.full.name in _signals(s)

    def read(self, s: Statement) -> bool:
        """Say whether a statement reads the buffer."""
        return any(
            v.buffer.name == self.buffer and way == "read"
            for x in walk((s,))
            if isinstance(x, Call | Compute | Micro)
            for v, way in reads_and_writes(x)
        )

    def announced(self, body: Body) -> Body:
        """Announce the bytes before the copies, outside loops around them."""
        i = next(i for i, s in enumerate(body) if self.filled(s))
        s = body[i]
        if isinstance(s, If) or (isinstance(s, Region) and _signals(s) != {self.full.name}):
            return (*body[:i], attrs.evolve(s, body=self.announced(s.body)), *body[i + 1 :])
        nbytes = landing(tuple(x for x in body if self.filled(x)))
        return (*body[:i], Arrive(self.full, as_expr(0), nbytes, link=self.link), *body[i:])

    def awaited(self, body: Body) -> Body:
        """Wait for the bytes before the first statement that reads the buffer, outside loops and conditions.

        A block that reads nothing also waits, since no copy may be in flight when a block ends.
        """
        i = next(i for i, s in enumerate(body) if self.read(s))
        s = body[i]
        if isinstance(s, Region) and not any(self.read(x) for x in body[i + 1 :]):
            return (*body[:i], attrs.evolve(s, body=self.awaited(s.body)), *body[i + 1 :])
        return (*body[:i], Await(self.full, as_expr(0), as_expr(0), self.link), *body[i:])


def _signals(s: Statement) -> set[str]:
    """List the names of the mbarriers that count the bytes of a statement's copies."""
    return {x.signal[0].name for x in walk((s,)) if isinstance(x, Call) and x.signal is not None}


def hand_over(body: Body, rings: Sequence[Ring], once: Sequence[Once], others: Sequence[Barrier], cluster: int) -> Body:
    """Insert the mbarrier waits and arrivals that order the roles of a kernel.

    Args:
        body: the kernel's statements, with a `Roles` where roles share rings.
        rings: the rings that the roles share.
        once: the buffers that a role fills once.
        others: other mbarriers of the kernel.
        cluster: number of blocks of a cluster.
    """
    barriers = (*(b for ring in rings for b in (ring.full, ring.empty)), *others)
    if not barriers:
        return body
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Roles):
            roles = tuple(_role(role, rings, once, s.roles, cluster) for role in s.roles)
            out += [*_set_up(barriers, cluster), Roles(roles)]
        else:
            out.append(s)
    return tuple(out) if rings else (*_set_up(barriers, cluster), *out)


def _set_up(barriers: tuple[Barrier, ...], cluster: int) -> Body:
    """Initialise mbarriers, and add a barrier of the cluster where blocks arrive at mbarriers of other blocks."""
    made = (InitBarriers(barriers), Fence("barrier.init", "others use the barriers, and bulk copies do"))
    together = Sync(Cluster, "barriers are initialised before peers use them", relaxed=True)
    return (*made, together) if cluster > 1 else made


def _role(role: Role, rings: Sequence[Ring], once: Sequence[Once], roles: tuple[Role, ...], cluster: int) -> Role:
    body = role.body
    for one in once:
        if any(one.filled(s) for s in body):
            body = one.announced(body)
        elif any(one.read(s) for s in body):
            body = one.awaited(body)
    for ring in rings:
        for half in ring.halves(role.body):
            body = _guarded(body, half)
    if any(ring.filled(s) for ring in rings for s in role.body):
        # A peer must not send to, or arrive at, a block that has ended.
        drains = tuple(_drain(ring) for ring in rings if ring.peer is not None)
        body = tuple(x for s in body for x in (_with(s, drains) if any(r.filled(s) for r in rings) else (s,)))
    if cluster == 1:
        # The thread that initialises the barriers is the first, of the first role: it need not wait for itself.
        everyone, why = sum(r.threads for r in roles), "barriers are initialised before they are used"
        alone = role.first == 0 and all(ring.fillers is None for ring in rings)
        body = (Turn(READY, everyone, not alone, why), *body)
    return attrs.evolve(role, body=body)


def _with(s: Statement, more: Body) -> Body:
    return (If(s.condition, (*s.body, *more)),) if isinstance(s, If) and more else (s, *more)


def _drain(ring: Ring) -> Statement:
    """Wait until all slots are released."""
    slot = Var("slot", ring.cursor.slots)
    body = (
        Await(ring.empty, ring.cursor.slot, 1 - ring.cursor.parity, ring.link),
        Advance(ring.cursor, as_expr(1)),
    )
    return For(slot, as_expr(ring.cursor.slots), body, kind="slots")


def _guarded(body: Body, ring: Ring) -> Body:
    """Insert waits and arrivals into a role's loops over a ring's slots."""
    out: list[Statement] = []
    left: tuple[Statement, ...] = ()  # arrivals that are still owed after a loop, and after turns that follow it
    for i, s in enumerate(body):
        if left and not _turns(s):
            out += left
            left = ()
        if ring.moves(s):
            assert isinstance(s, For)
            if sum(isinstance(x, Advance) and x.cursor == ring.cursor for x in s.body) > 1:
                s = attrs.evolve(s, body=_straight(s.body, ring))
            elif ring.filled(s):
                s = _filling(s, ring)
            else:
                late = ring.inflight if any(starts(x, "products") for x in ring.readers(s)) else 0
                s = _reading(s, ring, late)
                left = (ring.release(ring.behind(late), _present(s, body[:i])),) if late else ()
        elif isinstance(s, For | If | Region):
            inner = _guarded(s.body, ring)
            s = s if inner is s.body else attrs.evolve(s, body=inner)
        out.append(s)
    out = list(_straight(tuple(out), ring))
    same = len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True)) and not left
    return body if same else (*out, *left)


def _straight(body: Body, ring: Ring) -> Body:
    """Insert waits and arrivals for single slots: before, between and after loops through the ring."""
    out: list[Statement] = []
    slot: list[Statement] = []  # statements since the ring advanced
    for s in body:
        moves = isinstance(s, Advance) and s.cursor == ring.cursor
        if moves and any(map(ring.filled, slot)):
            slot = list(_filled_slot(tuple(slot), ring))
        elif moves and any(map(ring.read, slot)):
            slot = list(_guarded_slot(tuple(slot), ring, ring.release(ring.cursor.slot)))
        slot.append(s)
        if ring.passes(s):
            out += slot
            slot = []
    return (*out, *slot)


def _guarded_slot(body: Body, ring: Ring, release: Statement) -> Body:
    """Insert a wait for a slot's bytes before its first reader, and an arrival after its last one."""
    first = next((i for i, s in enumerate(body) if ring.read(s)), 0)
    last: list[Statement] = []
    if any(not starts(x, "products") for s in body for x in ring.readers(s)):
        last.append(Fence("proxy.async", "the slot is read before a bulk copy overwrites it"))
        last.append(Sync(ring.level, "all threads have read the slot", ring.link))
    head = (Await(ring.full, ring.cursor.slot, ring.cursor.parity, ring.link),) if ring.awaits else ()
    return (*body[:first], *head, *body[first:], *last, *((release,) if ring.releases else ()))


def _filling(loop: For, ring: Ring) -> For:
    """Insert, before a slot's copies, a wait for its readers and the announcement of the copies' bytes."""
    return attrs.evolve(loop, body=_filled_slot(loop.body, ring))


def _filled_slot(body: Body, ring: Ring) -> Body:
    """Insert, before the copies in a body, a wait for the slot's readers and the announcement of the copies' bytes."""
    cursor = ring.cursor
    places = [i for i, s in enumerate(body) if ring.filled(s)]
    copies = tuple(body[i] for i in places)
    free = Await(ring.empty, cursor.slot, 1 - cursor.parity, ring.link)
    nbytes = landing(copies)
    announced = (Arrive(ring.full, cursor.slot, nbytes, link=ring.link),) if nbytes else ()
    first, last = places[0], places[-1] + 1
    if ring.fillers is None:
        return (*body[:first], free, *announced, *body[first:])
    # One thread announces the bytes that its copies bring; a thread of each warp tells what the warp has written.
    filled = tuple(
        attrs.evolve(s, body=(*announced, *s.body)) if isinstance(s, If) and ring.full.name in _signals(s) else s
        for s in body[first:last]
    )
    told = (
        Fence("proxy.async", "threads write the slot before products read it"),
        Sync(Warp, "the warp has written its part of the slot", ring.link),
        If(eq(ring.fillers % (Warp.size or 32), 0), (Arrive(ring.full, cursor.slot, link=ring.link),)),
    )
    told = told if ring.full.count > 1 else ()  # else bulk copies alone fill it
    return (*body[:first], free, *filled, *told, *body[last:])


def _reading(loop: For, ring: Ring, late: int) -> For:
    """Insert a wait for a slot's bytes before its readers, and an arrival after them, before the next slot."""
    end = next(i for i, s in enumerate(loop.body) if isinstance(s, Advance) and s.cursor == ring.cursor)
    release = ring.release(ring.behind(late), ge(loop.var, late) if late else None)
    return attrs.evolve(loop, body=(*_guarded_slot(loop.body[:end], ring, release), *loop.body[end:]))


def _present(loop: For, before: Body) -> Expr | None:
    """Return the condition that a loop has any trips; None where it always has."""
    for s in before:
        if isinstance(s, Let) and s.var == loop.extent:
            value = closed(s.value)
            if isinstance(value, Select) and as_int(value.otherwise) == 0:
                return value.condition
    return None


def _turns(s: Statement) -> bool:
    return isinstance(s, Turn) or (isinstance(s, If) and all(isinstance(x, Turn) for x in s.body))


def landing(body: Body) -> int:
    """Return the number of bytes that bulk copies write to one block."""
    return sum(times * _landing(call) for call, times in _repeated(body))


def _landing(call: Call) -> int:
    """Return the number of bytes that land in one block by a load of which each block of the cluster starts a part."""
    assert call.map is not None
    return prod(call.map.box) * call.map.buffer.dtype.nbytes * call.sent


def _repeated(body: Body) -> Iterator[tuple[Call, int]]:
    """Visit each Call, with the number of times that its loops repeat it."""
    for statement, around in within(body):
        if isinstance(statement, Call) and statement.signal is not None:
            trips = [as_int(loop.extent) for loop in around if isinstance(loop, For)]
            yield statement, prod(n for n in trips if n is not None)
