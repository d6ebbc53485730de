"""Specialised splits: the role `load` fills the ring of a split, the role `math` empties it; mbarriers order them.

The computing role's loop makes the buffers, so it is lowered first. The loading role's loop stands before it, in a
region of kind `fill`; `passes/roles.py` separates the two. The computing role waits until a slot is full, computes,
and releases the slot. The loading role waits until a slot is released, announces the number of bytes to the slot's
mbarrier, and starts the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from fireiron.algebra.arch import BUDGET_STEP, MAX_THREADS, MOST_BUDGET, native
from fireiron.algebra.expr import Expr, Var, and_, as_expr, as_int, eq, ge, lt, proves, select
from fireiron.atoms.flights import flying
from fireiron.atoms.table import chosen_from
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.base.link import Link
from fireiron.base.text import by
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.rewrite import replaced
from fireiron.kernel.ir.statements import (
    THREAD,
    Advance,
    Barrier,
    Call,
    Compute,
    Cursor,
    For,
    If,
    Let,
    Region,
    walk,
)
from fireiron.kernel.lower.context import Body, Context, Recur, Ring, State
from fireiron.kernel.lower.move import Copy, lower_copy, open_load, place_result
from fireiron.kernel.lower.promote import close_chunk, open_chunk
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import Storage
from fireiron.kernel.passes import rings
from fireiron.kernel.passes.turns import Turns
from fireiron.language.decompositions import Done, Load, Microkernel, Split
from fireiron.language.levels import SH, Level, Warp, Warpgroup
from fireiron.language.residual import named_reads

WARPGROUP = Warpgroup.size or 128
WARP = Warp.size or 32
RESULT_SLOTS = 2


def lower_specialised(
    link: Split,
    rest: Tree,
    at: Callable[[Expr], State],
    k: Var,
    trips: Expr,
    context: Context,
    recur: Recur,
    opening: Callable[[], Body],
) -> Body:
    """Lower the loops over chunks of the computing role, which makes the slots, and of the loading role.

    Args:
        link: the split.
        rest: the links below the split.
        at: the lowering state of a chunk.
        k: the chunk's number in the loop.
        trips: number of chunks.
        context: the kernel's facts.
        recur: a function that lowers the links.
        opening: a function that returns the statements directly before the loop; it is called after the loop's body is
            lowered.

    Raises:
        DecompositionError: `role-loads`, `role-copies`, `register-inflight`.
    """
    inner = at(k)
    # Results of steps, which the steps write and no Move fills.
    results = tuple(x for x in rest.asked.loads if inner.residual.operand(x.role) is None)
    loads = tuple(x for x in rest.asked.loads if x not in results)
    if not loads or any(x.memory != SH for x in loads):
        raise DecompositionError(
            "role-loads",
            "specialize() finds no loads to shared memory right below its split",
            fix="load A and B to SH right below the split",
        )
    if inner.progress is not None:
        loads = tuple(load for load in loads if inner.progress.reads(load.role))
    names = frozenset(context.names)
    body = _empty(link, loads, results, rest.behind, at, k, trips, context, recur)
    with context.role(names):
        filling = _fill(link, loads, inner, at, k, trips, context, recur)
    return (filling, *opening(), *body)


def _empty(
    link: Split,
    loads: Sequence[Load],
    results: Sequence[Load],
    rest: Tree,
    at: Callable[[Expr], State],
    k: Var,
    trips: Expr,
    context: Context,
    recur: Recur,
) -> Body:
    assert link.specialised is not None
    context.loaders = link.specialised.producers * WARPGROUP
    context.registers = link.specialised.registers or (0, 0)
    inner = at(k)
    groups = _groups(link, loads, inner)
    rings: list[Ring | None] = []
    cursors: list[Cursor] = []
    lasts: list[Cursor | None] = []
    for group, several, held in groups:
        ring, inner = _slots(link, group, inner, context)
        name = f"{group[0].role}_" if link.skewed else ""
        slots = link.stages + held
        cursor = Cursor(context.name(f"{name}ring"), slots) if ring is None else ring.cursor
        for load in group if ring is None else ():
            inner = _opened(load, link, inner, cursor, context)
            inner.windows[load.role].storage.guarded = True
        rings.append(ring)
        cursors.append(cursor)
        lasts.append(Cursor(context.name(f"{name}last"), slots) if several else None)
    for load in results:  # threads write the next chunk's while others still read this one's
        inner = place_result(load, inner, context, RESULT_SLOTS, k)
    chunk = open_chunk(link, inner, context)
    compute = recur(rest, chunk, context)
    promoted = close_chunk(link, k, at, chunk, context)
    busy, context.busy = context.busy, None
    assert context.threads is not None
    level = readers_of(compute)
    assert level.size is not None
    if None in rings:
        _budgets(link, context)
    for ring, cursor, last, (group, *_) in zip(rings, cursors, lasts, groups, strict=True):
        if ring is None:
            units = context.threads // level.size // context.staggered
            name = f"{group[0].role}_" if link.skewed else ""
            full = Barrier(context.name(f"{name}full"), cursor.slots, _arrivals(group, context))
            empty = Barrier(context.name(f"{name}empty"), cursor.slots, units * len(peers(context)))
            ring = Ring(link, cursor, full, empty, level, {}, [], last)
            context.rings.append(ring)
        ring.splits.append(link)
        ring.storages.update({load.role: inner.windows[load.role].storage for load in group})
    group = next((s.atom.completion for s in walk(compute) if isinstance(s, Call) and starts(s, "products")), "")
    late = link.inflight if group else 0
    if late and _refills(compute):
        raise DecompositionError(
            "register-inflight",
            f"inflight={late}: products read A's registers while the next chunk is loaded there",
            fix="use pipeline(n) without inflight where A comes from registers",
            link=link.link,
        )
    if late and link.promoted is not None:
        raise DecompositionError(
            "promote-inflight",
            f"inflight={late}: products would run on while the sums of their chunk are added",
            fix="use pipeline(n) without inflight beside promote(): other units' products run meanwhile",
            link=link.link,
        )
    body = (*compute, *promoted.ahead) if group else (*promoted.ahead, *compute)
    passing = tuple(Advance(cursor, as_expr(1)) for cursor in (*cursors, *filter(None, lasts)))
    body = (*promoted.begin, *body, *passing, *promoted.after)
    if busy is None:
        skipped = _turns(cursors[0], k, trips, level, link.stages, inner.loop, context)
        return (*promoted.first, For(k, trips, body, link.unrolled, kind="chunks"), *skipped)
    # A unit without rows releases each slot, so that the others continue. No branch surrounds the accumulators: a loop
    # without trips leaves them zero.
    chunks = context.variable("chunks", trips + 1)
    loop = For(k, chunks, body, link.unrolled, kind="chunks")
    idle = For(context.variable("k", trips), trips - chunks, passing, link.unrolled, kind="chunks")
    return (Let(chunks, select(busy, trips, 0)), *promoted.first, loop, idle)


def _groups(link: Split, loads: Sequence[Load], state: State) -> list[tuple[Sequence[Load], bool, bool]]:
    """Group the loads that share a ring; say whether several steps read its slots, and steps of two chunks at once.

    In a skewed loop, the steps up to the skewed one read slots of the next chunk. An array that the steps behind them
    read too is held for a chunk more, and so has one slot more.
    """
    if not link.skewed:
        return [(loads, False, False)]
    assert state.progress is not None
    program, names = state.progress.program, [s.name for s in state.progress.active]
    order = link.order
    ahead = {*order[: order.index(link.skewed)], link.skewed} if link.skewed in order else {link.skewed}
    behind = set(order[order.index(link.skewed_before) :] if link.skewed_before in order else names) - ahead
    read = {x.role: {s.name for s in state.progress.active if x.role in named_reads(program, s)} for x in loads}
    groups: dict[tuple[bool, bool], list[Load]] = {}
    for load in loads:
        groups.setdefault((bool(read[load.role] & ahead), bool(read[load.role] & behind)), []).append(load)
    return [
        (group, len(set[str]().union(*(read[x.role] for x in group))) > 1, both == (True, True))
        for both, group in groups.items()
    ]


def _opened(load: Load, link: Split, state: State, cursor: Cursor, context: Context) -> State:
    """Make a load's buffer in a ring; errors are located at the load."""
    try:
        return open_load(load, state, context, cursor.slots, cursor.slot)
    except FireironError as error:
        raise error.located(load.link, state.path) from None


def _slots(link: Split, loads: Sequence[Load], state: State, context: Context) -> tuple[Ring | None, State]:
    """Return the ring of an earlier K loop that this loop can use, or None; place the loop's operands in it.

    Several products share one split and one ring. Layers have a split each, and share a ring if its slots fit.

    Raises:
        DecompositionError: `role-ring` where a later product's operands have no buffers in the ring.
    """
    for ring in context.rings:
        own = any(split is link for split in ring.splits)
        inside: State | None = state if own or ring.link == link else None
        taken: set[str] = set()
        for load in loads if inside is not None else ():
            inside = None if inside is None else _same_slots(load, inside, ring, taken, context, own)
        if inside is not None:
            return ring, inside
    return None, state


def _same_slots(load: Load, state: State, ring: Ring, taken: set[str], context: Context, own: bool) -> State | None:
    """Place an operand in a free buffer of the ring that has the layout of its tile; None if no buffer has."""
    inside = _opened(load, ring.link, state, ring.cursor, context)
    made = inside.windows[load.role].storage
    del context.storages[made.name]
    context.names.discard(made.name)

    def fits(s: Storage) -> bool:
        free = s.name not in taken
        return free and (s.dtype, s.shape, s.strides, s.swizzle) == (made.dtype, made.shape, made.strides, made.swizzle)

    usual = ring.storages.get(load.role)
    candidates = (*(() if usual is None else (usual,)), *ring.storages.values())
    found = next((s for s in candidates if fits(s)), None)
    if found is None and own:
        tile, operand = by(made.shape), state.residual.operand(load.role)
        assert operand is not None
        raise DecompositionError(
            "role-ring",
            f"no free buffer of the ring is laid out as a tile {tile} of {operand.tensor.name}",
            fix="give all products operands of one element type and order, or drop specialize()",
            link=load.link,
        )
    if found is None:
        return None
    taken.add(found.name)
    return inside.with_window(load.role, attrs.evolve(inside.windows[load.role], storage=found))


def _turns(
    cursor: Cursor, k: Var, trips: Expr, level: Level, slots: int, loop: tuple[int, int], context: Context
) -> Body:
    """Make units execute a main loop in turn; return the statements after it that skip the other units' slots.

    Staggered units execute the loop in turn, and skip the chunks of the other units' tiles; loops of several products
    are one turn. Units with rows of the same layers also execute loops in turn; every unit reads each chunk, so the
    ring must hold all chunks of a layer.
    """
    assert level.size is not None and context.threads is not None
    own = context.staggered > 1
    n = context.staggered if own else context.threads // level.size
    held = as_int(trips)
    if not own and (n == 1 or not context.spec.layers or held is None or held > slots):
        return ()
    unit = context.define("warpgroup", context.thread // level.size, n)
    known = context.turns or Turns(unit, n, level.size, whole=own)
    context.turns = attrs.evolve(known, loops=(*known.loops, k))
    if not own:
        return ()
    context.skipped += trips
    if loop[0] + 1 < loop[1]:
        return ()
    context.prologue.append(Advance(cursor, unit * context.skipped))
    return (Advance(cursor, context.skipped * (n - 1)),)


def _budgets(link: Split, context: Context) -> None:
    """Raise an error for parts of warps, blocks with too many threads, or roles with more registers than there are.

    A launch gives every thread the same number of registers, rounded down to a multiple of 8; roles redistribute them.

    Raises:
        DecompositionError: `role-warps`, `too-many-threads`, `role-registers`.
    """
    assert context.threads is not None
    if context.threads % WARP:
        raise DecompositionError(
            "role-warps",
            f"roles are whole warps, and specialize() leaves {context.threads} threads to compute",
            fix="choose tiles for a multiple of 32 threads, or drop specialize()",
            link=link.link,
        )
    everyone = context.loaders + context.threads
    if everyone > MAX_THREADS:
        raise DecompositionError(
            "too-many-threads",
            f"{context.loaders} threads that load and {context.threads} that compute are {everyone} threads a block, "
            f"above {MAX_THREADS}",
            fix="specialize(producers=1): one thread starts all bulk copies"
            if context.loaders > WARPGROUP
            else "use larger tiles, or fewer units in turn",
            link=link.link,
        )
    load, math = context.registers
    total = load * context.loaders + math * context.threads
    blocks = max(1, context.resident)
    held = native(context.arch).registers_per_sm
    given = min(MOST_BUDGET, held // (blocks * everyone) // BUDGET_STEP * BUDGET_STEP)
    if total > given * everyone:
        most = (given * everyone - load * context.loaders) // context.threads // BUDGET_STEP * BUDGET_STEP
        raise DecompositionError(
            "role-registers",
            f"{context.loaders} threads of {load} registers and {context.threads} of {math} take {total}, "
            f"above the {given * everyone} that a launch of {everyone} threads gets of an SM's {held}"
            + (f", {blocks} blocks sharing them" if blocks > 1 else ""),
            fix=f"give the threads that compute at most {most} registers",
            link=link.link,
        )


def _held(call: Call) -> bool:
    return call.atom.operand("A").memory.registers


def _refills(body: Body) -> bool:
    """Say whether a product's A lies in registers that the same body writes."""
    return any(isinstance(s, Call) and starts(s, "products") and _refilled(s, body) for s in walk(body))


def _refilled(call: Call, body: Body) -> bool:
    """Say whether a product's A lies in registers that the loop over chunks overwrites."""
    a = call.views[0].buffer.name
    return _held(call) and any(
        way == "write" and view.buffer.name == a
        for s in walk(body)
        if isinstance(s, Call | Compute)
        for view, way in reads_and_writes(s)
    )


def readers_of(compute: Body) -> Level:
    """Return the level whose units read the ring; all threads of a unit release a slot together."""
    for statement in walk(compute):
        if isinstance(statement, Call) and starts(statement, "products"):
            return statement.atom.unit
    return Warp


def peers(context: Context) -> tuple[tuple[int, ...], ...]:
    """List the blocks of a cluster whose loads write to this block, as steps along the cluster's dimensions.

    Loads of an operand are shared along the dimensions that it does not have.
    """
    counts = [n for n, _ in context.ranks.values()]
    found: dict[tuple[int, ...], None] = {(0,) * len(counts): None}
    for i, n in enumerate(counts):
        for step in range(1, n):
            found[tuple(step if j == i else 0 for j in range(len(counts)))] = None
    return tuple(found)


def handshake(ring: Ring, context: Context) -> rings.Ring:
    """Describe the arrivals that release a slot: which blocks arrive, and at whose mbarriers."""
    assert ring.level.size is not None
    position, found = context.thread % ring.level.size, peers(context)
    peer = None if len(found) == 1 else _peer(position, context)
    copying = any(other.full.count > 1 for other in context.rings)
    loaders = Var(THREAD, context.loaders) if copying else None
    return rings.Ring(
        ring.cursor, ring.full, ring.empty, ring.level, position, len(found), peer, ring.link.inflight, ring.link.link,
        loaders, ring.last,
    )  # fmt: skip


def _peer(position: Expr, context: Context) -> Expr:
    """Return the rank of the block at whose mbarrier the thread at a position arrives."""
    counts = [n for n, _ in context.ranks.values()]
    mine = [number for _, number in context.ranks.values()]
    total = as_expr(0)
    if sum(n > 1 for n in counts) == 1:
        return position
    # All blocks along the first dimension, this one included, then the others along each further dimension.
    first = next(i for i, n in enumerate(counts) if n > 1)
    coordinates: list[Expr] = list(mine)
    coordinates[first] = select(lt(position, counts[first]), position, mine[first])
    start = counts[first]
    for i, n in enumerate(counts):
        if i == first or n == 1:
            continue
        step = position - start
        other = select(lt(step, mine[i]), step, step + 1)
        inside = and_(ge(position, start), lt(position, start + n - 1))
        coordinates[i] = select(inside, other, mine[i])
        start += n - 1
    for coordinate, n in zip(coordinates, counts, strict=True):
        total = total * n + coordinate
    return total


def _arrivals(loads: Sequence[Load], context: Context) -> int:
    """Return the number of arrivals that fill a slot: one for all bulk copies, and one for each warp that stores."""
    bulk = [is_bulk(load) for load in loads]
    return any(bulk) + (0 if all(bulk) else context.loaders // WARP)


def is_bulk(load: Load) -> bool:
    """Say whether a load is a bulk copy: one thread starts it, and an mbarrier counts its bytes."""
    done = next((x for x in load.move if isinstance(x, Done)), None)
    if done is None or done.atom is None or isinstance(done.atom, Microkernel):
        return False
    return all(flying(atom.completion) == "loads" for atom in chosen_from(done.atom))


def _fill(
    link: Split,
    loads: Sequence[Load],
    inner: State,
    at: Callable[[Expr], State],
    k: Var,
    trips: Expr,
    context: Context,
    recur: Recur,
) -> Region:
    """Lower the loop that fills the slots.

    One thread starts all bulk copies. Copies by way of registers use all threads of the role: they load a chunk's
    elements to registers while they wait for a slot, and store them when the slot is free.
    """
    alone = attrs.evolve(inner, position=as_expr(0), width=1)
    mine = [r for r in context.rings if any(split is link for split in r.splits)]
    first, trip, ahead = Body(), Body(), Body()
    for ring in mine:
        context.signal = (ring.full, ring.cursor.slot)
        bulk: Body = ()
        for load in (x for x in loads if x.role in ring.storages and is_bulk(x)):
            copy = lower_copy(load, alone, ring.storages[load.role], ring.cursor.slot, context, recur)
            bulk += (*copy.start, *copy.finish)
        context.signal = None
        written: Body = ()
        for load in (x for x in loads if x.role in ring.storages and not is_bulk(x)):
            copy = _by_threads(load, link, at, k, ring, context, recur)
            start, finish = copy.start, copy.finish
            first += _present(replaced(start, {k: as_expr(0)}), lt(as_expr(0), trips))
            ahead += _present(replaced(start, {k: k + 1}), lt(k + 1, trips))
            written += finish
        together = bulk and not all(is_bulk(x) for x in loads)
        trip += (If(eq(Var(THREAD, context.loaders), 0), bulk),) if together else bulk
        trip += (*written, Advance(ring.cursor, as_expr(1)))
    loop = For(k, trips, (*trip, *ahead), link.unrolled, kind="chunks")
    return filled((*first, loop), link.link)


def _by_threads(
    load: Load, link: Split, at: Callable[[Expr], State], k: Var, ring: Ring, context: Context, recur: Recur
) -> Copy:
    """Lower a copy by all threads of the loading role, which are treated as a whole block.

    Raises:
        DecompositionError: `role-copies` where the copy does not go through registers.
    """
    threads, context.threads = context.threads, context.loaders
    try:
        whole = attrs.evolve(at(k), position=None, width=None)
        copy = lower_copy(load, whole, ring.storages[load.role], ring.cursor.slot, context, recur)
    finally:
        context.threads = threads
    calls = [s for s in walk((*copy.start, *copy.finish)) if isinstance(s, Call)]
    wrong = next((call for call in calls if call.atom.completion), None)
    if wrong is not None or not copy.finish:
        name = (wrong or calls[0]).atom.name
        raise DecompositionError(
            "role-copies",
            f"{name} cannot fill a ring that another role empties: "
            + ("no barrier counts its bytes" if wrong is not None else "its threads would wait for each chunk's bytes"),
            fix="load by tma(), or by staged(), which loads a chunk to registers while it waits for a slot; or drop "
            "specialize()",
            link=load.link or link.link,
        )
    return copy


def _present(body: Body, condition: Expr) -> Body:
    return body if proves(condition) or not body else (If(condition, body),)


def filled(copies: Body, link: Link | None) -> Region:
    """Put statements of the loading role into a region of kind `fill`."""
    return Region("fill", copies, "", link, "fill")
