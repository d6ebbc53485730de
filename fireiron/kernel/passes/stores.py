"""Bulk stores in flight: derives the fences before them, the commits after them, and the waits for their sources.

A bulk store may read shared memory at any time after its issue. A fence and a barrier of the unit stand between the
threads' writes there and the store. One thread commits the store's group. The same thread waits for earlier groups
before its unit refills a slot of the staging ring that an earlier store may still read. A block ends only after all
stores have read their sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from fireiron.algebra.expr import Expr, Var, and_, as_expr, eq, free, ge, ne
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import (
    THREAD,
    Buffer,
    Call,
    Commit,
    Compute,
    Fence,
    For,
    If,
    Micro,
    Region,
    Roles,
    Statement,
    Sync,
    View,
    Wait,
    walk,
)
from fireiron.language.levels import SH, Block, Level

Body = tuple[Statement, ...]


def await_stores(body: Body, threads: int, buffers: Iterable[Buffer]) -> Body:
    """Insert the fences, barriers, commits and waits that a kernel's bulk stores need.

    Args:
        body: the kernel's statements, without fences, commits and waits of bulk stores.
        threads: number of threads of a block.
        buffers: the buffers of shared memory, with their offsets.
    """
    if not any(starts(s, "stores") for s in walk(body)):
        return body
    shared = [b for b in buffers if b.memory == SH]
    over = frozenset(
        b.name
        for b in shared
        for c in shared
        if c is not b and c.offset < b.offset + b.nbytes and b.offset < c.offset + c.nbytes
    )
    if not any(isinstance(s, Roles) for s in body):
        return _whole(body, threads, over)
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Roles):
            s = Roles(tuple(attrs.evolve(r, body=_whole(r.body, r.threads, over)) for r in s.roles))
        out.append(s)
    return tuple(out)


def _whole(body: Body, threads: int, over: frozenset[str]) -> Body:
    groups = dict.fromkeys(c.atom.completion for c in walk(body) if isinstance(c, Call) and starts(c, "stores"))
    return (*_Pass(threads, over).run(body, ()), *(Wait(group, 0, reads_only=True) for group in groups))


@attrs.define
class _Pass:
    """Hold the state of the walk at a place.

    Args:
        threads: number of threads of the block or role.
        over: names of the buffers that overlay other buffers.
        drained: the level whose units have, in this trip, waited for all their stores of earlier trips.
        begun: names of the buffers from which earlier statements store.
    """

    threads: int
    over: frozenset[str]
    drained: Level | None = None
    begun: set[str] = attrs.field(factory=set[str])

    def run(self, body: Body, loops: tuple[For, ...]) -> Body:
        """Walk a body; insert the statements that order the filling of slots and their stores."""
        out: list[Statement] = []
        for i, s in enumerate(body):
            source = next(_sources(s), None)
            filled = None if source is None else _filled(body, i, source)
            if source is None or filled is None:
                out.append(self.inside(s, loops))
                continue
            buffer, level = source.buffer, source.buffer.unit or Block
            first = eq(Var(THREAD, self.threads) % (level.size or self.threads), 0)
            group = next(c.atom.completion for c in walk((s,)) if isinstance(c, Call) and starts(c, "stores"))
            link = next((x.link for x in body[filled : filled + 1] if isinstance(x, Region)), None)
            at = len(out) - (i - filled)
            free_ = self.free(source, body[filled], first, group, loops)
            self.begun.add(buffer.name)
            out[at:at] = free_
            out.append(Fence("proxy.async", f"{buffer.name} is written before a bulk store reads it"))
            out.append(Sync(level, f"{buffer.name} is written before it is read", link))
            out.append(s)
            out.append(If(first, (Commit(group),)))
        return tuple(out)

    def inside(self, s: Statement, loops: tuple[For, ...]) -> Statement:
        if not any(starts(x, "stores") for x in walk((s,))):
            return s
        if isinstance(s, For):
            if s.kind == "items":
                self.drained = None
            return attrs.evolve(s, body=self.run(s.body, (*loops, s)))
        if isinstance(s, If | Region):
            return attrs.evolve(s, body=self.run(s.body, loops))
        return s

    def free(self, source: View, fill: Statement, first: Expr, group: str, loops: tuple[For, ...]) -> Body:
        """Insert, before a slot is filled, a wait for the last store that reads it."""
        buffer, level = source.buffer, source.buffer.unit or Block
        slots, trip = buffer.slots, as_expr(0) if source.slot is None else source.slot
        total = 1 + (trip.range[1] or 0)
        waits: Body = (If(first, (Wait(group, slots - 1, reads_only=True),)),)
        if total % slots:  # the first tile uses the slot of the previous round's last tile
            again = (If(and_(first, ne(trip, 0)), (Wait(group, slots - 1, reads_only=True),)),) if total > 1 else ()
            waits = (If(and_(first, eq(trip, 0)), (Wait(group, 0, reads_only=True),)), *again)
        link = fill.link if isinstance(fill, Region) else None
        freed = (*waits, Sync(level, f"{buffer.name} is read before it is overwritten", link))
        others = [loop for loop in loops if loop.var not in free(trip)]
        unread = all(loop.kind == "items" for loop in others) and (not others or self.drained == level)
        if unread and buffer.name not in self.over | self.begun:  # only later rounds find a slot that is still read
            return (If(ge(trip, slots), freed),) if total > slots else ()
        if slots == 1 or total == 1:
            self.drained = level
        return freed


def _sources(s: Statement) -> Iterator[View]:
    """List the views that bulk stores in a statement read."""
    for x in walk((s,)):
        if isinstance(x, Call) and starts(x, "stores"):
            yield from (v for v in x.views if v.buffer.memory == SH)


def _filled(body: Body, end: int, source: View) -> int | None:
    """Find the first statement in a body, after the previous store, that fills the source of a store."""
    found: int | None = None
    for i in reversed(range(end)):
        if any(v.buffer.name == source.buffer.name for v in _sources(body[i])):
            break
        if any(v.buffer.name == source.buffer.name for v in _written(body[i])):
            found = i
    return found


def _written(s: Statement) -> Iterator[View]:
    for x in walk((s,)):
        if isinstance(x, Call | Compute | Micro):
            yield from (v for v, way in reads_and_writes(x) if way == "write")
