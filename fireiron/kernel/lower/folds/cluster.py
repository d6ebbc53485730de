"""Folds over the blocks of a cluster, which read each other's shared memory.

A program's state: one warp of a group writes it, and all warps read the states of all blocks.

A product's partial sums: each thread writes its registers to its block's shared memory. Threads of equal index hold the
same elements in all blocks, so each thread reads and adds, for its block's share, the registers of the threads of its
index in the other blocks. Two mbarriers, which count warps, order this (`passes/exchanges.py`): one completes when all
blocks have written, the other when all blocks have read.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, as_int, eq, free, lt, proves
from fireiron.algebra.scalar import Arg
from fireiron.atoms.table import PEER_LOADS, load_of_peer, matching
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import RANK, THREAD, Barrier, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.folds.lanes import exchanged
from fireiron.kernel.lower.folds.places import LANES, Table, seated
from fireiron.kernel.lower.folds.shared import in_turn, staging, turn_of
from fireiron.kernel.lower.folds.shares import Share
from fireiron.kernel.lower.folds.state import Open, begin, joined
from fireiron.kernel.lower.parallel import numbered
from fireiron.kernel.lower.registers import add, each_register, loop, move, temporary, vector, widest
from fireiron.kernel.lower.window import Partial, Storage
from fireiron.kernel.passes.exchanges import Exchange
from fireiron.language.levels import RF, SH, Block, Thread


def over_cluster(opened: Open, table: Table, state: State, context: Context) -> Body:
    """Fold over the blocks of a cluster: one warp of a group writes its state, all warps read all blocks' states."""
    if not in_cluster(opened, context):
        return ()
    count, _, group, seat = seated(opened, table)
    (first, *_) = opened.storages
    size, lane = first.size, Var(THREAD, len(table.kept)) % LANES
    turn = turn_of(opened, context)
    total = count * LANES * size
    shared = [staging(f"{s.name}_cluster", s.dtype, total, context, opened.link, turn) for s in opened.storages]
    if context.loaders:  # a loading role runs at the same time, and does not execute barriers of the cluster
        for each in shared:
            _by_mbarriers(each.name, opened, context)
        shared = [buffer_of(context.storages[each.name]) for each in shared]
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]

    def place(r: Expr) -> Expr:
        return (group * size + r) * LANES + lane

    def put(r: Expr) -> Body:
        return tuple(
            Compute(in_turn(to, place(r), turn), Arg(0, to.dtype), (View(buffer_of(s), r),), link=opened.link)
            for to, s in zip(shared, opened.storages, strict=True)
        )

    def get(r: Expr) -> Body:
        held = [View(buffer_of(s), r) for s in opened.storages]

        def of_block(peer: Expr) -> Body:
            taken = tuple(
                Call(load_of_peer(source.dtype), (in_turn(source, place(r), turn, peer), other), link=opened.link)
                for other, source in zip(others, shared, strict=True)
            )
            return (*taken, *joined(opened, held, others, context))

        return loop(context, "peer", context.joined, of_block)

    left = each_register(first, context, put)
    body = (
        left if proves(eq(seat, 0)) else (If(eq(seat, 0), left),),
        begin(opened, context),
        each_register(first, context, get),
    )
    title = f"{opened.step.name} over {context.joined} blocks of a cluster"
    return (Region(title, tuple(x for part in body for x in part), state.path, opened.link),)


def _by_mbarriers(name: str, opened: Open, context: Context) -> None:
    """Order a buffer's accesses by two mbarriers, where a fold writes it once and each block reads it."""
    context.storages[name].guarded = True
    warps, ways = (context.threads or LANES) // LANES, context.joined
    written, taken = (Barrier(context.name(word), 1, ways * warps) for word in ("left", "taken"))
    context.barriers += [written, taken]
    number, count = numbered(opened.loops)
    parity, lane = (context.trip * count + number) % 2, context.thread % LANES
    context.exchanges.append(Exchange(name, written, taken, lane, ways, ways, as_expr(0), parity, opened.link))


def in_cluster(opened: Open, context: Context) -> bool:
    """Say whether several blocks of a cluster hold parts of the fold, and all blocks need the folded value."""

    def ranked(place: Expr) -> bool:
        return any(v.name == RANK for v in free(context.expanded(place)))

    apart = any(map(ranked, opened.apart.values()))
    return not apart and any(ranked(opened.places[d.name]) for d in opened.step.over)


def over_warps_of_cluster(opened: Open, table: Table, state: State, context: Context) -> Body:
    """Fold over the warps of all blocks of a cluster: each warp writes its state, and after a barrier reads all.

    Each lane reads the states of one warp, of one block after another; the lanes fold them by shuffles.
    """
    count, ways, group, seat = seated(opened, table)
    (first, *_) = opened.storages
    size, turn, lane = first.size, turn_of(opened, context), Var(THREAD, len(table.kept)) % LANES
    total = as_expr(count * ways) * size
    shared = [staging(f"{s.name}_cluster", s.dtype, total, context, opened.link, turn) for s in opened.storages]
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]
    near = 1 << (ways - 1).bit_length()  # number of neighbouring lanes that fold by shuffles

    def put(r: Expr) -> Body:
        place = (group * ways + seat) * size + r
        return tuple(
            Compute(in_turn(to, place, turn), Arg(0, to.dtype), (View(buffer_of(s), r),), link=opened.link)
            for to, s in zip(shared, opened.storages, strict=True)
        )

    def get(r: Expr) -> Body:
        held = [View(buffer_of(s), r) for s in opened.storages]
        place = (group * ways + lane % near) * size + r

        def of_block(peer: Expr) -> Body:
            taken = tuple(
                Call(load_of_peer(source.dtype), (in_turn(source, place, turn, peer), other), link=opened.link)
                for other, source in zip(others, shared, strict=True)
            )
            return (*taken, *joined(opened, held, others, context))

        read = loop(context, "peer", context.joined, of_block)
        there = lt(lane % near, ways)
        return read if proves(there) else (If(there, read),)

    met: Body = ()
    for bit in reversed(range(near.bit_length() - 1)):
        met += exchanged(opened, lane ^ (1 << bit), context)
    body = (
        If(eq(lane, 0), each_register(first, context, put)),
        *begin(opened, context),
        *each_register(first, context, get),
        *met,
    )
    title = f"{opened.step.name} over {ways} warps of {context.joined} blocks of a cluster"
    return (Region(title, body, state.path, opened.link),)


def exchange(storage: Storage, result: Storage, share: Share, partial: Partial, parity: Expr, context: Context) -> Body:
    """Write each block's sums to shared memory, and add the other blocks' sums of this block's part."""
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
    staging = Storage(
        context.name(f"{storage.name}_sh"), SH, dtype, (size * threads,), (1,), as_expr(size * threads), Block,
        slots=units, guarded=True, link=link,
    )  # fmt: skip
    context.storages[staging.name] = staging
    warps = threads // LANES
    written = Barrier(context.name("summed"), units, ways * warps)
    taken = Barrier(context.name("taken"), units, share.count * warps)
    context.barriers += [written, taken]
    context.exchanges.append(
        Exchange(staging.name, written, taken, context.thread % LANES, share.count, ways, turn, parity, link)
    )
    held, summed, shared = buffer_of(storage), buffer_of(result), buffer_of(staging)
    vec = temporary(f"{storage.name}_vec", dtype, count, context)
    put = move(RF, SH, dtype, count)
    (take,) = matching("Move", (count,), (dtype, dtype), (SH, RF), Thread, table=PEER_LOADS)

    def place(register: Expr) -> Expr:
        return turn * (size * threads) + register * threads + thread * count

    def part(register: Expr, peer: Expr | None = None) -> View:
        return attrs.evolve(vector(shared, place(register), count), slot=turn if units > 1 else None, peer=peer)

    def write(i: Expr) -> Body:
        return (Call(put, (vector(held, i * count, count), part(i * count)), link=link),)

    def of(number: Expr) -> Callable[[Expr], Body]:
        def read(i: Expr) -> Body:
            register = rank * share.stride + as_expr(share.steps(i * count))
            there = part(register, (rank + number) % ways)
            if as_int(number) == 0:
                return (Call(take, (there, vector(summed, i * count, count)), link=link),)
            into = vector(vec, as_expr(0), count)
            return (Call(take, (there, into), link=link), *add(summed, i * count, vec, count, context))

        return read

    vectors = share.ownership.size // count
    own = loop(context, "i", vectors, of(as_expr(0)))
    others = loop(context, "w", ways - 1, lambda w: loop(context, "i", vectors, of(w + 1)))
    reading: Body = (*own, *others)
    return (
        *loop(context, "i", size // count, write),
        *(reading if share.count == ways else (If(lt(rank, share.count), reading),)),
    )
