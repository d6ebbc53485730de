"""Exchanges in a cluster: the mbarriers that order a block's writes of a buffer and the other blocks' reads of it.

States of folds are sent: an mbarrier of the receiving block counts the bytes that all blocks send to it. One thread
announces the bytes before its block sends, and threads wait for them before their first read. A warp synchronises
before its lanes send, since what it sends tells the receivers that it has read the states of the trip before.

Sums of products stay in the block that made them, and other blocks read them. With roles or staggered units, a barrier
of the whole cluster is not possible, so two mbarriers that count warps take its place. A warp arrives at the first
mbarrier after its last write, and waits for it before its first read. The warp arrives at the second mbarrier after its
reads, and waits for it at the end of the trip; until then no block overwrites the buffer or ends. The arrival after the
reads stands after the computations with the values that were read, so that its fence delays no computation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from fireiron.algebra.expr import Expr, gt, lt, proves
from fireiron.base.link import Link
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import (
    Arrive,
    Await,
    Barrier,
    Call,
    Compute,
    For,
    If,
    Micro,
    Region,
    Roles,
    Statement,
    Sync,
    walk,
)
from fireiron.language.levels import Warp

Body = tuple[Statement, ...]
WARP = Warp.size or 32


@attrs.frozen
class Exchange:
    """Describe buffers that blocks of a cluster read in each other's shared memory, and their mbarriers.

    Args:
        buffers: the buffers' names.
        written: the mbarrier that completes when the warps of all blocks have written.
        taken: the mbarrier that completes when the warps of all reading blocks have read.
        lane: a thread's index in its warp.
        readers: number of blocks that read: the first blocks of the cluster.
        writers: number of blocks that write.
        slot: slot of both mbarriers: the unit's number, where units take turns.
        parity: parity of the phases of this trip.
        link: the split that needs the exchange.
    """

    buffers: tuple[str, ...]
    written: Barrier
    taken: Barrier
    lane: Expr
    readers: int
    writers: int
    slot: Expr
    parity: Expr
    link: Link | None = attrs.field(default=None, eq=False, repr=False)

    def tell(self, barrier: Barrier, blocks: int) -> Statement:
        """Make a warp arrive at the barrier of each of the first blocks, one lane for each block."""
        arrive = Arrive(barrier, self.slot, peer=self.lane, wide=True, link=self.link)
        return If(lt(self.lane, blocks), (arrive,))

    def awaits(self, barrier: Barrier) -> Statement:
        """Wait for this trip's phase of a barrier."""
        return Await(barrier, self.slot, self.parity, wide=True, link=self.link)

    def meet(self, reason: str) -> Statement:
        """Synchronise a warp before one lane arrives for all lanes."""
        return Sync(Warp, reason, self.link)

    def writes(self, s: Statement) -> bool:
        """Say whether a statement writes a buffer."""
        return _touches(s, self.buffers, "write", peer=False)

    def reads(self, s: Statement) -> bool:
        """Say whether a statement reads a buffer of another block."""
        return _touches(s, self.buffers, "read", peer=True)


@attrs.frozen
class Sent:
    """Describe buffers that blocks of a cluster send to, and the mbarrier that counts the bytes.

    Args:
        buffers: the buffers' names.
        barrier: the mbarrier.
        slot: slot of the mbarrier in this trip.
        parity: of the phase of this trip.
        nbytes: bytes that a block receives in a trip.
        alone: the condition that holds for one thread of a block.
        link: the split that needs the exchange.
    """

    buffers: tuple[str, ...]
    barrier: Barrier
    slot: Expr
    parity: Expr
    nbytes: int
    alone: Expr
    link: Link | None = attrs.field(default=None, eq=False, repr=False)

    def writes(self, s: Statement) -> bool:
        """Say whether a statement sends to a buffer."""
        return _touches(s, self.buffers, "write", peer=True)

    def reads(self, s: Statement) -> bool:
        """Say whether a statement reads what was sent to a buffer."""
        return _touches(s, self.buffers, "read", peer=False)

    def ordered(self, body: Body) -> Body:
        """Announce the bytes before the first send of a body, and wait for them before the first read."""
        sends = next(i for i, s in enumerate(body) if self.writes(s))
        first = next(i for i, s in enumerate(body) if self.reads(s))
        announced = (
            If(self.alone, (Arrive(self.barrier, self.slot, self.nbytes, link=self.link),)),
            Sync(Warp, "the warp has read the states of the trip before", self.link),
        )
        awaited = Await(self.barrier, self.slot, self.parity, self.link)
        return (*body[:sends], *announced, *body[sends:first], awaited, *body[first:])


def tell_peers(body: Body, exchanges: Sequence[Exchange | Sent]) -> Body:
    """Insert the arrivals and waits that order accesses of buffers which blocks of a cluster exchange.

    Args:
        body: the kernel's statements, or a role's.
        exchanges: the buffers with their mbarriers.
    """
    for exchange in exchanges:
        body = _inside(body, exchange)
    return body


def _inside(body: Body, exchange: Exchange | Sent) -> Body:
    """Insert arrivals and waits into the innermost body whose statements write the buffer and read it."""
    if isinstance(exchange, Sent) and any(map(exchange.writes, body)) and not any(map(_both(exchange), body)):
        return exchange.ordered(body)
    for i, s in enumerate(body):
        if not (exchange.writes(s) and exchange.reads(s)):
            continue
        before, behind = body[:i], body[i + 1 :]
        if isinstance(s, Roles):
            return (*before, Roles(tuple(attrs.evolve(r, body=_inside(r.body, exchange)) for r in s.roles)), *behind)
        assert isinstance(s, For | If | Region)
        if any(exchange.writes(x) and exchange.reads(x) for x in s.body):
            return (*before, attrs.evolve(s, body=_inside(s.body, exchange)), *behind)
        if isinstance(exchange, Sent):
            return (*before, attrs.evolve(s, body=exchange.ordered(s.body)), *behind)
        return (*before, attrs.evolve(s, body=_handed(s.body, exchange)), *_behind(s.body, behind, exchange))
    return body


def _both(exchange: Sent) -> Callable[[Statement], bool]:
    return lambda s: exchange.writes(s) and exchange.reads(s)


def _touches(s: Statement, names: Sequence[str], way: str, peer: bool) -> bool:
    """Say whether a statement reads or writes a buffer: this block's, or through a view of another block's."""
    return any(
        view.buffer.name in names and how == way and (view.peer is not None) == peer
        for x in walk((s,))
        if isinstance(x, Call | Compute | Micro)
        for view, how in reads_and_writes(x)
    )


def _handed(body: Body, exchange: Exchange) -> Body:
    """Insert an arrival after the last write, and a wait before the first read."""
    last = max(i for i, s in enumerate(body) if exchange.writes(s))
    first = min(i for i, s in enumerate(body) if exchange.reads(s))
    told = (exchange.meet("the warp has written its sums"), exchange.tell(exchange.written, exchange.readers))
    awaited: Body = (exchange.awaits(exchange.written), body[first])
    match body[first]:
        case If(condition=condition, body=inner):
            awaited = (If(condition, (awaited[0], *inner)),)
        case _:
            pass
    return (*body[: last + 1], *told, *body[last + 1 : first], *awaited, *body[first + 1 :])


def _behind(exchanged: Body, rest: Body, exchange: Exchange) -> Body:
    """Insert an arrival after a warp's reads, in blocks that read, and the wait for the other warps."""
    reader = next(s for s in exchanged if exchange.reads(s))
    ends = exchange.awaits(exchange.taken)
    if not isinstance(reader, If):
        return (*_told(rest, exchange), ends)
    where = next((i for i, s in enumerate(rest) if isinstance(s, If) and s.condition == reader.condition), None)
    if where is None:
        return (*rest, If(reader.condition, _told((), exchange)), ends)
    busy = rest[where]
    assert isinstance(busy, If)
    return (*rest[:where], If(busy.condition, _told(busy.body, exchange)), *rest[where + 1 :], ends)


def _told(body: Body, exchange: Exchange) -> Body:
    """Insert an arrival after a body; the warp synchronises before it, unless a statement of the body does so."""
    met = () if _meets(body) else (exchange.meet("the warp has read its part of the sums"),)
    return (*body, *met, exchange.tell(exchange.taken, exchange.writers))


def _meets(body: Body) -> bool:
    """Say whether a body always synchronises whole warps, whatever the conditions in it."""
    for statement in body:
        match statement:
            case Sync(level=level):
                if level.size is None or level.size % WARP == 0:
                    return True
            case If(body=inner) if any(starts(s, "stores") for s in inner):
                return True  # a barrier of the unit stands ahead of a bulk store
            case Region(body=inner):
                if _meets(inner):
                    return True
            case For(body=inner) if proves(gt(statement.extent, 0)):
                if _meets(inner):
                    return True
            case _:
                pass
    return False
