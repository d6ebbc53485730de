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
import numpy as np

from fireiron.algebra.expr import Expr, Var, affine, as_expr, as_int, eq, free, lt, minimum, proves
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg
from fireiron.atoms.table import PEER_LOADS, load_of_peer, matching
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.ownership import SPAN, Ownership
from fireiron.kernel.ir.statements import RANK, THREAD, Barrier, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of, descend
from fireiron.kernel.lower.folds.lanes import exchanged
from fireiron.kernel.lower.folds.places import LANES, Table, seated
from fireiron.kernel.lower.folds.portions import joined as of_modes
from fireiron.kernel.lower.folds.portions import placed
from fireiron.kernel.lower.folds.shared import in_turn, staging, turn_of
from fireiron.kernel.lower.folds.state import Open, begin, joined
from fireiron.kernel.lower.parallel import numbered
from fireiron.kernel.lower.registers import add, each_register, loop, move, temporary, vector, widest
from fireiron.kernel.lower.storage import fresh_window, register_storage
from fireiron.kernel.lower.window import Partial, Storage, Window, cut
from fireiron.kernel.passes.exchanges import Exchange
from fireiron.language.decompositions import ByCluster, Epilog
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
    if context.loaders:  # a role that copies runs at the same time, and meets in no barrier of the cluster
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
    """Let two mbarriers order the writes and reads of a buffer that a fold writes once and each block reads."""
    context.storages[name].guarded = True
    warps, ways = (context.threads or LANES) // LANES, context.joined
    written, taken = (Barrier(context.name(word), 1, ways * warps) for word in ("left", "taken"))
    context.barriers += [written, taken]
    number, count = numbered(opened.loops)
    parity, lane = (context.trip * count + number) % 2, context.thread % LANES
    context.exchanges.append(Exchange(name, written, taken, lane, ways, ways, as_expr(0), parity, opened.link))


def in_cluster(opened: Open, context: Context) -> bool:
    """Say whether several blocks of a cluster hold parts of the fold, and all need the folded value."""

    def ranked(place: Expr) -> bool:
        return any(v.name == RANK for v in free(context.expanded(place)))

    apart = any(map(ranked, opened.apart.values()))
    return not apart and any(ranked(opened.places[d.name]) for d in opened.step.over)


def over_warps_of_cluster(opened: Open, table: Table, state: State, context: Context) -> Body:
    """Fold over the warps of all blocks of a cluster: each warp leaves its state, and one barrier later all read all.

    Lanes read the states of one warp each, of one block after another, and fold them by shuffles.
    """
    count, ways, group, seat = seated(opened, table)
    (first, *_) = opened.storages
    size, turn, lane = first.size, turn_of(opened, context), Var(THREAD, len(table.kept)) % LANES
    total = as_expr(count * ways) * size
    shared = [staging(f"{s.name}_cluster", s.dtype, total, context, opened.link, turn) for s in opened.storages]
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]
    near = 1 << (ways - 1).bit_length()  # lanes that fold among themselves

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


@attrs.frozen
class Share:
    """Describe the part of a tile that each of the first blocks of a cluster finishes: equal runs of columns, or rows.

    Args:
        count: number of blocks that finish a part.
        dim: the dim along which the tile is cut; "" where one block finishes the whole tile.
        size: extent of a part.
        ownership: the threads and registers of a part's elements.
        stride: registers from one part to the next.
        steps: register of a part -> steps from its first one.
        run: registers of a part that are neighbours in the whole tile too.
    """

    count: int
    dim: str
    size: int
    ownership: Ownership
    stride: int
    steps: Layout
    run: int


@attrs.frozen
class Meeting:
    """Hold the state after the blocks of a cluster have added their sums.

    Args:
        window: the sums of this block's part.
        output: the part in C.
        inside: the lowering state of the part.
        state: the lowering state above the epilog.
        head: statements that add the sums.
        busy: the condition under which a block has a part; None if all blocks have one.
    """

    window: Window
    output: Window
    inside: State
    state: State
    head: Body = ()
    busy: Expr | None = None

    def around(self, finish: Body) -> Body:
        """Put the statements of the sum before those that finish a part."""
        return (*self.head, *(finish if self.busy is None else (If(self.busy, finish),)))


def meet(
    window: Window, parts: list[Partial], output: Window, inside: State, state: State, link: Epilog, context: Context
) -> Meeting:
    """Add the sums of a cluster's blocks, where a parallel split says so.

    Args:
        window: this block's sums.
        parts: the units that hold sums of the same elements.
        output: the tile in C.
        inside: the lowering state of the tile.
        state: the lowering state above the epilog.
        link: the epilog.
        context: the kernel's.

    Raises:
        DecompositionError: `parallel-cluster` where the threads of a block are no whole warps.
    """
    partial = next((x for x in parts if isinstance(x.reduce, ByCluster) and x.ways != 1), None)
    if partial is None:
        return Meeting(window, output, inside, state)
    storage, rank = window.storage, partial.way
    assert isinstance(partial.ways, int) and isinstance(partial.reduce, ByCluster) and storage.ownership is not None
    most = min(partial.ways, partial.reduce.shares or partial.ways)
    # Ops that fold rows need whole rows.
    rows = any(beside.fold is not None for beside in link.outputs)
    share = divide(storage.ownership, output, 1 if rows else most, context)
    if share.count > 1:
        parts_of = {share.dim: cut(share.size, share.size * share.count)}
        # Blocks beyond the last part have no part, and skip this code.
        numbers = {share.dim: rank if share.count == partial.ways else minimum(rank, share.count - 1)}
        state, inside = (descend(x, parts_of, numbers) for x in (state, inside))
        output = state.windows["C"]
    result = register_storage("sum", output, storage.memory, storage.dtype, state, context, storage.link)
    result.ownership, result.size = share.ownership, as_expr(share.ownership.size)
    number, count = numbered(inside.loops)
    parity = (context.trip * count + number) % 2
    head = _exchange(storage, result, share, partial, parity, context)
    title = f"Reduce({partial.ways})({storage.memory})(Cluster)"
    busy = None if share.count == partial.ways else lt(rank, share.count)
    region = Region(title, head, partial.path, partial.link, "fold", storage.name)
    return Meeting(fresh_window(result, output), output, inside, state, (region,), busy)


def divide(held: Ownership, output: Window, most: int, context: Context) -> Share:
    """Divide a tile's columns, else its rows, into the most parts of which each thread holds the same registers.

    Args:
        held: which thread holds which element of the tile.
        output: the tile in C.
        most: largest number of parts.
        context: names variables.
    """
    whole = Share(1, "", 0, held, 0, Layout(held.size, 1), held.size)
    found = whole
    if held.opaque or held.access.limits or held.access.guards:
        return found
    for axis in (len(output.axes) - 1, len(output.axes) - 2):
        for count in range(most, found.count, -1):
            share = _cut(held, output, axis, count, context)
            if share is not None:
                found = share
                break
    return found


def _cut(held: Ownership, output: Window, axis: int, count: int, context: Context) -> Share | None:
    """Cut the outermost register loop along an axis; None where the parts would not be tiles."""
    access, extent, rank = held.access, output.axes[axis].size, len(output.axes)
    if not isinstance(extent, int) or extent % count:
        return None
    slopes = affine(access.coordinates[axis], [loop.var for loop in access.loops])
    if slopes is None:
        return None
    along = [i for i, loop in enumerate(access.loops) if as_int(as_expr(slopes[0][loop.var])) not in (None, 0)]
    if not along:
        return None
    which = max(along, key=lambda i: as_int(as_expr(slopes[0][access.loops[i].var])) or 0)
    trips = access.extents[which]
    if trips % count:
        return None
    loops, kept, weight = list(access.loops), list[tuple[int, int]](), access.count
    for i in reversed(range(len(loops))):
        kept.append((trips // count if i == which else access.extents[i], weight))
        weight *= access.extents[i]
    stride = next(n * step for i, (n, step) in zip(reversed(range(len(loops))), kept, strict=True) if i == which)
    steps = of_modes([(access.count, 1), *kept])
    loop_ = loops[which]
    var = context.variable(loop_.var.name, trips // count)
    fewer = attrs.evolve(loop_, var=var, trips=as_expr(trips // count))
    loops = [x for i, x in enumerate(loops) if i != which or trips > count]
    loops = [fewer if x is loop_ else x for x in loops]
    place: dict[Expr, Expr] = {loop_.var: var if trips > count else as_expr(0)}
    made = Ownership(
        placed(access, place, tuple(loops)), placed(held.written, place, tuple(loops)), held.threads,
        "the sum of the ways",
    )  # fmt: skip
    keys, one, unit = access.keys(held.threads), made.access.keys(held.threads), SPAN ** (rank - 1 - axis)
    registers = np.asarray(steps(np.arange(made.size)) if made.size > 1 else np.zeros(1, np.int64))
    size = extent // count
    if (one // unit % SPAN >= size).any():
        return None
    if any((keys[:, p * stride + registers] != one + p * size * unit).any() for p in range(count)):
        return None
    run = steps.leaves[0][0] if steps.leaves[0][1] == 1 else 1
    assert isinstance(run, int)
    return Share(count, output.axes[axis].dim, size, made, stride, steps, run)


def _exchange(
    storage: Storage, result: Storage, share: Share, partial: Partial, parity: Expr, context: Context
) -> Body:
    """Let each block write its sums, and read the other blocks' sums of its part."""
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
