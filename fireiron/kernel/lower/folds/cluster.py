"""Folds over the blocks of a cluster, which access each other's shared memory.

A program's state: one warp of a group sends it to all blocks, or each warp does. An mbarrier of each block counts the
bytes that it receives (`passes/exchanges.py`). No barrier of the cluster is needed, whose fence would wait for all
accesses of global memory in flight: the stores of the row before, and the loads of the next ones.

A product's partial sums: each thread writes its registers to its block's shared memory. Threads of equal index hold the
same elements in all blocks, so each thread reads and adds, for its block's share, the registers of the threads of its
index in the other blocks. Two mbarriers, which count warps, order this (`passes/exchanges.py`): one completes when all
blocks have written, the other when all blocks have read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, as_int, eq, free, lt, proves
from fireiron.algebra.scalar import Arg
from fireiron.atoms.table import PEER_LOADS, matching, send
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import RANK, THREAD, Barrier, Buffer, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.folds.lanes import exchanged
from fireiron.kernel.lower.folds.places import LANES, Table, replicas, seated
from fireiron.kernel.lower.folds.shared import in_turn, staging
from fireiron.kernel.lower.folds.shares import Share
from fireiron.kernel.lower.folds.state import Open, begin, joined
from fireiron.kernel.lower.parallel import numbered
from fireiron.kernel.lower.registers import add, each_register, loop, move, temporary, vector, widest
from fireiron.kernel.lower.window import Partial, Storage
from fireiron.kernel.passes.exchanges import Exchange, Sent
from fireiron.language.levels import RF, SH, Block, Thread


def over_cluster(opened: Open, table: Table, state: State, context: Context) -> Body:
    """Fold over the blocks of a cluster: one warp of a group sends its state to all blocks, whose warps read it."""
    if not in_cluster(opened, context):
        return ()
    count, _, group, seat = seated(opened, table)
    post = _post(opened, count, table, context)
    (first, *_) = opened.storages

    def get(r: Expr) -> Body:
        def of_block(peer: Expr) -> Body:
            return post.taken(peer * count + group, r)

        return loop(context, "peer", context.joined, of_block)

    sent = post.sent(group)
    body = (
        *(sent if proves(eq(seat, 0)) else (If(eq(seat, 0), sent),)),
        *begin(opened, context),
        *each_register(first, context, get),
    )
    title = f"{opened.step.name} over {context.joined} blocks of a cluster"
    return (Region(title, body, state.path, opened.link),)


def in_cluster(opened: Open, context: Context) -> bool:
    """Say whether several blocks of a cluster hold parts of the fold, and all blocks need the folded value."""

    def ranked(place: Expr) -> bool:
        return any(v.name == RANK for v in free(context.expanded(place)))

    apart = any(map(ranked, opened.apart.values()))
    return not apart and any(ranked(opened.places[d.name]) for d in opened.step.over)


def over_warps_of_cluster(opened: Open, table: Table, state: State, context: Context) -> Body:
    """Fold over the warps of all blocks of a cluster: each warp sends its state to all blocks.

    Each lane reads the state of one warp in each block; the lanes fold these states by shuffles.
    """
    count, ways, group, seat = seated(opened, table)
    lane = Var(THREAD, len(table.kept)) % LANES
    post = _post(opened, count * ways, table, context)
    (first, *_) = opened.storages
    near = 1 << (ways - 1).bit_length()  # number of neighbouring lanes that fold by shuffles

    def get(r: Expr) -> Body:
        def of_block(peer: Expr) -> Body:
            return post.taken((peer * count + group) * ways + lane % near, r)

        read = loop(context, "peer", context.joined, of_block)
        there = lt(lane % near, ways)
        return read if proves(there) else (If(there, read),)

    met: Body = ()
    for bit in reversed(range(near.bit_length() - 1)):
        met += exchanged(opened, lane ^ (1 << bit), context)
    body = (
        *post.sent(group * ways + seat),
        *begin(opened, context),
        *each_register(first, context, get),
        *met,
    )
    title = f"{opened.step.name} over {ways} warps of {context.joined} blocks of a cluster"
    return (Region(title, body, state.path, opened.link),)


@attrs.frozen(eq=False)
class _Post:
    """Hold the buffers through which the blocks of a cluster send each other the states of a fold.

    In a loop, trips use two slots in turn. A block sends its state of a trip after all its warps have read those of the
    trip before; so a block that has all states of a trip may overwrite those of the trip before it, in every block.

    Args:
        opened: the fold.
        buffers: one for each scalar of the state: the states of all blocks, block after block.
        others: one register for each of them.
        places: number of warps of a block that send states.
        lanes: number of different states of a warp's lanes, number of this lane's state, and number of this lane among
            the lanes that hold it; these lanes send to different blocks.
        signal: the mbarrier that counts the bytes of a trip's states, and its slot.
        turn: number of the trip, None where there is no loop.
        context: the kernel's facts.
    """

    opened: Open
    buffers: tuple[Buffer, ...]
    others: tuple[View, ...]
    places: int
    lanes: tuple[int, Expr, Expr]
    signal: tuple[Barrier, Expr]
    turn: Expr | None
    context: Context

    def at(self, place: Expr, register: Expr) -> Expr:
        """Return the place of this lane's state, of one of its registers, in a trip's states."""
        (first, *_), (count, state, _) = self.opened.storages, self.lanes
        return (place * first.size + register) * count + state

    def sent(self, warp: Expr) -> Body:
        """Send a warp's state to all blocks, as number `warp` of this block's states."""
        opened, context, ways = self.opened, self.context, self.context.joined
        (first, *_), (count, _, replica) = opened.storages, self.lanes
        place = Var(RANK, ways) * self.places + warp

        def to(peer: Expr) -> Body:
            def put(r: Expr) -> Body:
                return tuple(
                    Call(
                        send(into.dtype), (View(buffer_of(s), r), in_turn(into, self.at(place, r), self.turn, peer)),
                        signal=self.signal, link=opened.link,
                    )
                    for into, s in zip(self.buffers, opened.storages, strict=True)
                )  # fmt: skip

            return each_register(first, context, put)

        def some(number: Expr) -> Body:
            peer = number * (LANES // count) + replica
            there = lt(peer, ways)
            return to(peer) if proves(there) else (If(there, to(peer)),)

        return loop(context, "peer", -(-ways * count // LANES), some)

    def taken(self, place: Expr, register: Expr) -> Body:
        """Fold a register of the state at a place into this lane's."""
        place = self.at(place, register)
        held = [View(buffer_of(s), register) for s in self.opened.storages]
        taken = tuple(
            Compute(other, Arg(0, source.dtype), (in_turn(source, place, self.turn),), link=self.opened.link)
            for other, source in zip(self.others, self.buffers, strict=True)
        )
        return (*taken, *joined(self.opened, held, self.others, self.context))


def _post(opened: Open, places: int, table: Table, context: Context) -> _Post:
    """Make the buffers for a fold's states, and the mbarrier that counts their bytes."""
    lanes, turn = replicas(table), trip_of(opened, context)
    ways, (first, *_) = context.joined, opened.storages
    total = ways * places * first.size * lanes[0]
    buffers: list[Buffer] = []
    for s in opened.storages:
        staged = staging(f"{s.name}_cluster", s.dtype, as_expr(total), context, opened.link, turn)
        context.storages[staged.name].guarded = True
        buffers.append(buffer_of(context.storages[staged.name]))
    signal = signal_of(buffers, turn, opened.link, context)
    others = tuple(View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages)
    return _Post(opened, tuple(buffers), others, places, lanes, signal, turn, context)


def trip_of(opened: Open, context: Context) -> Expr | None:
    """Return the number of the trip around a fold; None where there is no loop."""
    number, count = numbered(opened.loops)
    number = as_expr(context.trip * count + number)
    return None if as_int(number) == 0 else number


def signal_of(
    buffers: Sequence[Buffer], turn: Expr | None, link: Link | None, context: Context
) -> tuple[Barrier, Expr]:
    """Make the mbarrier that counts the bytes of a trip's states, which fill a slot of each buffer; return its slot."""
    nbytes = sum((as_int(b.size) or 0) * b.dtype.nbytes for b in buffers)
    assert nbytes, "a fold's registers are counted"
    here = Barrier(context.name(f"{buffers[0].name}_full"), 1 if turn is None else 2, 1)
    context.barriers.append(here)
    slot, parity = (as_expr(0),) * 2 if turn is None else (turn % 2, turn // 2 % 2)
    names = tuple(b.name for b in buffers)
    context.exchanges.append(Sent(names, here, slot, parity, nbytes, eq(context.thread, 0), link))
    return here, slot


def exchange(
    sums: Sequence[tuple[Storage, Storage]], share: Share, partial: Partial, parity: Expr, context: Context
) -> Body:
    """Write each block's sums to shared memory, and add the other blocks' sums of this block's part.

    Args:
        sums: of each product, the sums that this block holds, and the registers for the sums of its part.
        share: the parts of a tile.
        partial: the blocks.
        parity: parity of the phases of this trip.
        context: the kernel's facts.
    """
    storage, _ = sums[0]
    ways, rank, dtype, link = partial.ways, partial.way, storage.dtype, partial.link
    size, threads = as_int(storage.size), (context.threads or 1) // context.staggered
    assert isinstance(ways, int) and size is not None
    units = context.staggered
    if threads % LANES:
        raise DecompositionError(
            "parallel-cluster",
            f"by_cluster() counts whole warps, and a block has {threads} threads",
            fix=f"tile so that a block has a multiple of {LANES} threads, or drop reduce=by_cluster()",
            link=link,
        )
    turn = as_expr(0) if units == 1 else context.define("warpgroup", context.thread // threads, units)
    thread = context.thread if units == 1 else context.thread % threads
    count = widest(gcd(size, share.run, share.ownership.size, share.stride), dtype)
    stagings: list[Buffer] = []
    for held, _ in sums:
        staging = Storage(
            context.name(f"{held.name}_sh"), SH, dtype, (size * threads,), (1,), as_expr(size * threads), Block,
            slots=units, guarded=True, link=link,
        )  # fmt: skip
        context.storages[staging.name] = staging
        stagings.append(buffer_of(staging))
    warps = threads // LANES
    written = Barrier(context.name("summed"), units, ways * warps)
    taken = Barrier(context.name("taken"), units, share.count * warps)
    context.barriers += [written, taken]
    names, lane = tuple(s.name for s in stagings), context.thread % LANES
    context.exchanges.append(Exchange(names, written, taken, lane, share.count, ways, turn, parity, link))
    vec = temporary(f"{storage.name}_vec", dtype, count, context)
    put = move(RF, SH, dtype, count)
    (take,) = matching("Move", (count,), (dtype, dtype), (SH, RF), Thread, table=PEER_LOADS)

    def part(number: int, register: Expr, peer: Expr | None = None) -> View:
        place = turn * (size * threads) + register * threads + thread * count
        return attrs.evolve(vector(stagings[number], place, count), slot=turn if units > 1 else None, peer=peer)

    def write(number: int) -> Body:
        held = buffer_of(sums[number][0])

        def one(i: Expr) -> Body:
            return (Call(put, (vector(held, i * count, count), part(number, i * count)), link=link),)

        return loop(context, "i", size // count, one)

    def of(number: int, distance: Expr) -> Callable[[Expr], Body]:
        summed = buffer_of(sums[number][1])

        def read(i: Expr) -> Body:
            register = rank * share.stride + as_expr(share.steps(i * count))
            there = part(number, register, (rank + distance) % ways)
            if as_int(distance) == 0:
                return (Call(take, (there, vector(summed, i * count, count)), link=link),)
            into = vector(vec, as_expr(0), count)
            return (Call(take, (there, into), link=link), *add(summed, i * count, vec, count, context))

        return read

    def added(number: int) -> Body:
        own = loop(context, "i", vectors, of(number, as_expr(0)))
        return (*own, *loop(context, "w", ways - 1, lambda w: loop(context, "i", vectors, of(number, w + 1))))

    vectors = share.ownership.size // count
    numbers = range(len(sums))
    reading = tuple(s for number in numbers for s in added(number))
    return (
        *(s for number in numbers for s in write(number)),
        *(reading if share.count == ways else (If(lt(rank, share.count), reading),)),
    )
