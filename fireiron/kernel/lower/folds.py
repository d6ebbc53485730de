"""Folds of programs: the state in each thread, and the carriers that combine states of several threads.

The places of threads' points say which threads hold parts of one value. Lanes of a warp combine first: they exchange
states by shuffles, along those bits of the lane number that change only the folded dims. Then warps combine through
shared memory. Threads that hold the same points (replicas) are not folded. In the end every thread that held a part
holds the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
import numpy as np

from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import Expr, Symbol, Var, as_expr, as_int, eq, evaluate, free, lt, ne, proves, substitute
from fireiron.algebra.scalar import Arg, Constant, Coordinate, Scalar, Select, substituted
from fireiron.atoms.table import exchange, load_of_peer
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.analysis.ownership import RegisterLoop, fit
from fireiron.kernel.ir.statements import RANK, THREAD, Buffer, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.pointwise import compute, temporary
from fireiron.kernel.lower.reduce import loop
from fireiron.kernel.lower.storage import register_storage
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.language.contractions import kept_in_order
from fireiron.language.levels import RF, SH, Block, Warp
from fireiron.language.steps import Fold, Step, identity_of

LANES = Warp.size or 32
MOST_AT_ONCE = (
    32  # registers of a state that a thread reads of several warps at once, and that lie in memory of their own
)


@attrs.define(eq=False)
class Open:
    """Hold a fold while points are folded into it.

    Args:
        step: whose fold it is.
        windows: the state's scalars in registers, by role.
        link: the author's link that opened it.
        loops: those around the fold.
        places: where a thread's first point lies along each of the step's dims; set when the first point is folded.
        guards: the conditions under which a thread has any points; set at the same time.
        results: the step's outputs in registers, once it is closed.
        whole: whether every thread that holds a part of a value already holds the whole value.
        apart: where the chunks of an online loop start along its dims. Units of a split above the loop start at
            different places: each unit folds by itself, and their states are combined behind the loop.
    """

    step: Step
    windows: dict[str, Window]
    link: Link | None = None
    loops: tuple[RegisterLoop, ...] = ()
    places: dict[str, Expr] = attrs.field(factory=dict[str, Expr])
    guards: tuple[Expr, ...] = ()
    results: dict[str, Window] = attrs.field(factory=dict[str, Window])
    whole: bool = False
    apart: Mapping[str, Expr] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """Name the windows of the state's scalars."""
        return tuple(self.windows)

    @property
    def fold(self) -> Fold:
        """Give the monoid."""
        assert self.step.fold is not None
        return self.step.fold

    @property
    def storages(self) -> tuple[Storage, ...]:
        """List the registers of the state's scalars."""
        return tuple(w.storage for w in self.windows.values())


@attrs.frozen(eq=False)
class Shared:
    """Hold a fold whose parts lie in several blocks, and the place where its parts in this block became one."""

    opened: Open
    state: State


def open_fold(step: Step, state: State, context: Context, link: Link | None) -> Open:
    """Make the registers of a fold's state: one value for each point of the step's kept dims at this place."""
    fold = step.fold
    assert fold is not None
    extents = [(d.name, state.residual.extents[d.name]) for d in kept_in_order(step)]
    axes = tuple(Axis(dim, 0 if extent is None else extent, as_expr(0)) for dim, extent in extents)
    windows: dict[str, Window] = {}
    for i, dtype in enumerate(fold.dtypes):
        name = step.name.lower() if len(fold.dtypes) == 1 else f"{step.name.lower()}_{i}"
        storage = register_storage(name, Window(_nowhere(), axes), RF, dtype, state, context, link)
        windows[f"{step.name} state {i}"] = Window(storage, axes)
    return Open(step, windows, link, state.loops)


def _nowhere() -> Storage:
    return Storage("", RF, f32, (), (), as_expr(0), Block)


def begin(opened: Open, context: Context) -> Body:
    """Set the state to the fold of no points."""
    body: Body = ()
    for storage, identity in zip(opened.storages, identity_of(opened.fold), strict=True):
        _known(opened)
        value = Constant(identity.value if identity.dtype.kind == "float" else int(identity.value), identity.dtype)
        body += each_register(storage, context, lambda r, s=storage, v=value: (Compute(View(buffer_of(s), r), v),))
    return body


def each_register(storage: Storage, context: Context, body: Callable[[Expr], Body]) -> Body:
    """Do something for each register of a tensor."""
    return loop(context, "i", storage.size, body)


def _known(opened: Open) -> None:
    if any(s.ownership is None for s in opened.storages):
        raise DecompositionError(
            "ownership-unknown",
            f"nothing below computes step {opened.step.name}",
            fix="close the chain by .done() below a load of what the step reads",
        )


def operands_of(step: Step, held: int) -> tuple[Scalar, ...]:
    """Give the state after one point is folded in, as expressions of the state and of the step's reads."""
    fold = step.fold
    assert fold is not None
    body = substituted(step.body, [Arg(i + held, ref.dtype) for i, ref in enumerate(step.reads)])
    lifted = [substituted(tree, (body,)) for tree in fold.lift]
    mine = [Arg(i, dtype) for i, dtype in enumerate(fold.dtypes)]
    made = [substituted(tree, (*mine, *lifted)) for tree in fold.combine]
    if fold.insert:
        made = [substituted(tree, (*mine, body)) for tree in fold.insert]
    if step.where is None or condition_of(step) is not None:
        return tuple(made)
    present = substituted(step.where, [Arg(i + held, ref.dtype) for i, ref in enumerate(step.reads)])
    return tuple(Select(present, new, old) for new, old in zip(made, mine, strict=True))


def condition_of(step: Step) -> Expr | None:
    """Give the condition on indices under which a point is folded; None where it depends on values or always holds."""
    return ne(step.where.value, 0) if isinstance(step.where, Coordinate) else None


def together(
    held: Sequence[View],
    trees: Sequence[Scalar],
    views: tuple[View, ...],
    mask: Expr | None,
    context: Context,
    link: Link | None,
) -> Body:
    """Assign all scalars of a state at once: each new value is computed from the old values."""
    if len(held) == 1:
        return compute(held[0], trees[0], views, mask, context, link)
    fresh = [View(temporary("next", v.buffer.dtype, 1, context), as_expr(0)) for v in held]
    body: Body = ()
    for to, tree in zip(fresh, trees, strict=True):
        body += compute(to, tree, views, mask, context, link)
    for to, source in zip(held, fresh, strict=True):
        body += (Compute(to, Arg(0, to.buffer.dtype), (source,), mask, link),)
    return body


def joined(opened: Open, held: Sequence[View], others: Sequence[View], context: Context) -> Body:
    """Combine a thread's state with another state."""
    body = together(held, opened.fold.combine, (*held, *others), None, context, opened.link)
    for stage in opened.fold.settle:
        body += together(held, stage, tuple(held), None, context, opened.link)
    return body


def close(opened: Open, state: State, context: Context) -> Body:
    """Combine the parts that threads of a block or cluster hold into one value; `finish` makes outputs of it."""
    _known(opened)
    body: Body = ()
    if context.threads is not None and opened.places and not opened.whole:
        table = tabulated(opened, context.threads, context)
        body += _over_lanes(opened, table, context)
        body += over_warps(opened, table, state, context)
        body += _over_cluster(opened, table, state, context)
    return body


@attrs.frozen(eq=False)
class Table:
    """Number the places of threads' points: equal numbers mean equal places.

    Args:
        kept: by thread, the place along the step's kept dims.
        over: by thread, the place along the folded dims.
        busy: whether the thread has any points; the others hold the fold of no points, which changes no result.
    """

    kept: Any
    over: Any
    busy: Any

    @property
    def one_a_warp(self) -> bool:
        """Say whether all lanes of a warp fold parts of one value; its first lane then holds the value."""
        if len(self.kept) % LANES:
            return False
        kept, busy = self.kept.reshape(-1, LANES), self.busy.reshape(-1, LANES)
        return bool((kept == kept[:, :1]).all() and (busy[:, 0] == busy.any(axis=1)).all())


def tabulated(opened: Open, threads: int, context: Context) -> Table:
    """Evaluate the places of all threads. Block and loop indices shift all places alike, so they are left out."""

    def evaluated(e: Expr) -> Any:
        e = context.expanded(e)
        # Symbolic sizes take their largest value; with 0 all chunks would lie at one place.
        env: dict[str, Any] = {v.name: v.range[1] if isinstance(v, Symbol) else 0 for v in free(e)}
        env[THREAD] = np.arange(threads)
        return np.broadcast_to(np.asarray(evaluate(e, env)), (threads,))

    def numbered(places: Sequence[Expr]) -> Any:
        if not places:
            return np.zeros(threads, np.int64)
        rows = np.stack([evaluated(place) for place in places])
        return np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)

    busy = np.ones(threads, bool)
    for guard in opened.guards:
        busy = busy & (evaluated(guard) != 0)
    kept, over = ([opened.places[d.name] for d in dims] for dims in (opened.step.kept, opened.step.over))
    return Table(numbered([*kept, *opened.apart.values()]), numbered(over), busy)


def _over_lanes(opened: Open, table: Table, context: Context) -> Body:
    """Fold over the lanes of a warp: for each bit of the lane number, lanes that differ in it are combined.

    Raises:
        DecompositionError: `fold-lanes` where the lanes that hold parts of one value do not differ by whole bits of the
        lane number.
    """
    threads = len(table.kept)
    every = np.arange(threads)
    bits: list[int] = []
    for bit in reversed(range((LANES - 1).bit_length())):
        other = every ^ (1 << bit)
        if (other >= threads).any():
            continue
        both = table.busy & table.busy[other]
        alike = (table.kept[other] == table.kept) & (table.over[other] != table.over)
        if both.any() and alike[both].all():
            bits.append(1 << bit)
    _explained(opened, table, bits)
    lane = Var(THREAD, threads) % LANES
    body: Body = ()
    for bit in bits:
        body += exchanged(opened, lane ^ bit, context)
    return body


def _explained(opened: Open, table: Table, bits: Sequence[int]) -> None:
    """Refuse lanes that share a value but do not differ by whole bits of the lane number."""
    subsets: Any = np.zeros(1, np.int64)
    for bit in bits:
        subsets = np.concatenate((subsets, subsets ^ bit))
    every: Any = np.arange(len(table.kept))
    met: Any = every[:, None] ^ subsets[None, :]
    # Idle threads count as places of their own.
    over = cast(Any, np.where(table.busy, table.over, table.over.max() + 1 + every))
    places = cast(Any, np.sort(over[met], axis=1))
    once = bool((places[:, 1:] > places[:, :-1]).all())
    mine = every[table.busy]
    triples = np.unique(np.stack((mine // LANES, table.kept[mine], table.over[mine])), axis=1)
    pairs, parts = np.unique(triples[:2], axis=1, return_counts=True)
    most = {(int(w), int(k)): int(n) for (w, k), n in zip(pairs.T, parts, strict=True)}
    reached = table.busy[met].sum(axis=1)
    whole = all(reached[t] == most[int(t) // LANES, int(table.kept[t])] for t in mine)
    if not once or not whole:
        raise _irregular(opened)


def _irregular(opened: Open) -> DecompositionError:
    dims = ", ".join(d.name for d in opened.step.over)
    return DecompositionError(
        "fold-lanes",
        f"the lanes that hold parts of {opened.step.name} along {dims} differ in no whole bits of their numbers",
        fix="give lanes a power of two of equal parts",
        link=opened.link,
    )


def exchanged(opened: Open, lane: Expr, context: Context) -> Body:
    """Combine every thread's state with that of another lane."""
    (storage, *_) = opened.storages
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]

    def of_register(r: Expr) -> Body:
        held = [View(buffer_of(s), r) for s in opened.storages]
        calls = tuple(
            Call(exchange(mine.buffer.dtype.nbytes), (mine, other), lane=lane, link=opened.link)
            for mine, other in zip(held, others, strict=True)
        )
        return (*calls, *joined(opened, held, others, context))

    return each_register(storage, context, of_register)


def seated(opened: Open, table: Table) -> tuple[int, int, Expr, Expr]:
    """Divide the warps of a block into groups; the warps of a group hold parts of the same values.

    Returns the number of groups, the number of warps in each, this thread's group, and the index of its warp in the
    group.

    Raises:
        DecompositionError: `fold-warps` where groups differ in size, lie irregularly, or lack a part.
    """
    threads = len(table.kept)
    keys: list[tuple[int, int]] = []
    for first in range(0, threads, LANES):
        lanes = np.arange(first, min(first + LANES, threads))
        busy = lanes[table.busy[lanes]]
        if len(busy):
            keys.append((int(table.kept[busy[0]]), int(table.over[busy[0]])))
        else:  # an idle warp follows the warps of the group before it
            keys.append((keys[-1][0] if keys else 0, -1 - first))
    copies = [keys[:w].count(key) for w, key in enumerate(keys)]  # replicas form groups of their own
    groups: list[tuple[int, int]] = []
    seats: list[int] = []
    for w, (value, _) in enumerate(keys):
        group = (value, copies[w])
        seats.append(groups.count(group))
        groups.append(group)
    ways = max(seats) + 1
    names = list(dict.fromkeys(groups))
    if any(groups.count(name) != ways for name in names):
        raise _unequal(opened)
    group_of, seat_of = (fit(np.array(t, dtype=np.int64)) for t in ([names.index(g) for g in groups], seats))
    if group_of is None or seat_of is None:
        raise _unequal(opened)
    _require_met(opened, table, np.array([names.index(g) for g in groups]))
    warp = Var(THREAD, threads) // LANES
    group, seat = (as_expr(layout(warp)) if layout.size > 1 else as_expr(0) for layout in (group_of, seat_of))
    return len(names), ways, group, seat


def _require_met(opened: Open, table: Table, groups: Any) -> None:
    """Refuse groups of warps where a part of a value is missing, or lies in other lanes.

    Raises:
        DecompositionError: `fold-warps`.
    """
    thread = np.flatnonzero(table.busy)
    kept, over, group = table.kept[thread], table.over[thread], groups[thread // LANES]
    seats = np.unique(np.stack((group, thread % LANES, kept)), axis=1)
    of_lane = np.unique(seats[:2], axis=1, return_counts=True)[1]
    values, parts = np.unique(np.unique(np.stack((kept, over)), axis=1)[0], return_counts=True)
    held = np.unique(np.stack((group, kept, over)), axis=1)
    mine, found = np.unique(held[:2], axis=1, return_counts=True)
    if (of_lane > 1).any() or (found < parts[np.searchsorted(values, mine[1])]).any():
        dims = ", ".join(d.name for d in opened.step.over)
        raise DecompositionError(
            "fold-warps",
            f"parts of {opened.step.name} along {dims} lie in several warps, and in each warp at other lanes",
            fix="give whole warps to every value: parallel(Warp) along what is folded, or tiles of 32 threads",
            link=opened.link,
        )


def _over_cluster(opened: Open, table: Table, state: State, context: Context) -> Body:
    """Fold over the blocks of a cluster: one warp of a group writes its state, all warps read all blocks' states."""

    def ranked(place: Expr) -> bool:
        return any(v.name == RANK for v in free(context.expanded(place)))

    if any(map(ranked, opened.apart.values())) or not any(ranked(opened.places[d.name]) for d in opened.step.over):
        return ()
    count, _, group, seat = seated(opened, table)
    (first, *_) = opened.storages
    size, lane = first.size, Var(THREAD, len(table.kept)) % LANES
    turn = _turn(opened, context)
    shared = [_staging(opened, s, count * LANES * size, context, "cluster", turn) for s in opened.storages]
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]

    def place(r: Expr) -> Expr:
        return (group * size + r) * LANES + lane

    def put(r: Expr) -> Body:
        return tuple(
            Compute(_in_turn(to, place(r), turn), Arg(0, to.dtype), (View(buffer_of(s), r),), link=opened.link)
            for to, s in zip(shared, opened.storages, strict=True)
        )

    def get(r: Expr) -> Body:
        held = [View(buffer_of(s), r) for s in opened.storages]

        def of_block(peer: Expr) -> Body:
            taken = tuple(
                Call(load_of_peer(source.dtype), (_in_turn(source, place(r), turn, peer), other), link=opened.link)
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


def _turn(opened: Open, context: Context) -> Expr | None:
    """Count the trips of the only loop around a fold; its staging buffer alternates between two slots by this number.

    The barrier between writes and reads of a trip then also orders the reads of the trip before it and the writes of
    the trip after it, which use the same slot.
    """
    around: list[Expr] = [x.var for x in opened.loops if not x.unrolled]
    around += [context.trip] if context.persistent else []
    return around[0] if len(around) == 1 and len(opened.loops) <= 1 else None


def _in_turn(buffer: Buffer, place: Expr, turn: Expr | None, peer: Expr | None = None) -> View:
    """Give a place in the staging buffer, in the slot of this trip."""
    if turn is None:
        return View(buffer, place, peer=peer)
    return View(buffer, place + turn % buffer.slots * buffer.size, slot=turn, peer=peer)


def _staging(
    opened: Open, storage: Storage, total: Expr, context: Context, word: str, turn: Expr | None, reuse: bool = False
) -> Buffer:
    """Make the shared memory in which threads exchange states; `reuse` lets it overlay buffers that are dead."""
    made = Storage(
        context.name(f"{storage.name}_{word}"), SH, storage.dtype, (), (1,), total, Block,
        slots=1 if turn is None else 2, link=opened.link, reuse=reuse,
    )  # fmt: skip
    context.storages[made.name] = made
    return buffer_of(made)


def staging(like: Buffer, total: Expr, context: Context, word: str, link: Link | None) -> Buffer:
    """Make the shared memory in which threads exchange values of a register tensor."""
    made = Storage(context.name(f"{like.name}_{word}"), SH, like.dtype, (), (1,), total, Block, link=link)
    context.storages[made.name] = made
    return buffer_of(made)


def over_warps(opened: Open, table: Table, state: State, context: Context) -> Body:
    """Fold over the warps of a block: each warp writes its state to shared memory and reads the states of its group.

    Where all lanes of a warp hold the same state, each lane reads the state of one warp of the group, and the lanes
    fold these by shuffles. Otherwise each lane reads the states of the same lane of all warps, in the order of the
    warps.
    """
    count, ways, group, seat = seated(opened, table)
    if ways == 1:
        return ()
    lane = Var(THREAD, len(table.kept)) % LANES
    (first, *_) = opened.storages
    size, turn, each = first.size, _turn(opened, context), 1 if table.one_a_warp else LANES
    many = each > 1 and (as_int(size) or 1) > MOST_AT_ONCE
    shared = [_staging(opened, s, count * ways * each * size, context, "sh", turn, many) for s in opened.storages]
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]
    near = 1 << (ways - 1).bit_length()  # lanes that fold among themselves

    def place(warp: Expr, r: Expr) -> Expr:
        found = (group * ways + warp) * size + r
        return found if each == 1 else found * LANES + lane

    def put(r: Expr) -> Body:
        return tuple(
            Compute(_in_turn(to, place(seat, r), turn), Arg(0, to.dtype), (View(buffer_of(s), r),), link=opened.link)
            for to, s in zip(shared, opened.storages, strict=True)
        )

    def of_warp(w: Expr, r: Expr) -> Body:
        taken = tuple(
            Compute(other, Arg(0, source.dtype), (_in_turn(source, place(w, r), turn),), link=opened.link)
            for other, source in zip(others, shared, strict=True)
        )
        return (*taken, *joined(opened, [View(buffer_of(s), r) for s in opened.storages], others, context))

    def get(r: Expr) -> Body:
        if each > 1:
            return loop(context, "w", ways, lambda w: of_warp(w, r))
        there = lt(lane % near, ways)
        mine = of_warp(lane % near, r)
        return mine if proves(there) else (If(there, mine),)

    def one_warp(w: Expr) -> Body:
        return each_register(first, context, lambda r: of_warp(w, r))

    left = each_register(first, context, put)
    left = left if each > 1 else (If(eq(lane, 0), left),)
    met: Body = ()
    for bit in reversed(range(near.bit_length() - 1 if each == 1 else 0)):
        met += exchanged(opened, lane ^ (1 << bit), context)
    title = f"{opened.step.name} over {ways} warps"
    read = loop(context, "w", ways, one_warp, unroll=False, kind="sums") if many else each_register(first, context, get)
    return (Region(title, (*left, *begin(opened, context), *read, *met), state.path, opened.link),)


def _unequal(opened: Open) -> DecompositionError:
    return DecompositionError(
        "fold-warps",
        f"warps hold parts of {opened.step.name} in groups of different sizes",
        fix="give every value equally many warps",
        link=opened.link,
    )


def finish(opened: Open, state: State, context: Context) -> Body:
    """Compute the step's outputs from the folded state."""
    fold, step = opened.fold, opened.step
    windows = list(opened.windows.values())
    if fold.finish == tuple(Arg(i, dtype) for i, dtype in enumerate(fold.dtypes)):
        opened.results = {out.name: w for out, w in zip(step.outs, windows, strict=True)}
        return ()
    (first, *_) = opened.storages
    made: list[tuple[Storage, Scalar]] = []
    for out, tree in zip(step.outs, fold.finish, strict=True):
        storage = register_storage(out.name.lower(), windows[0], RF, tree.dtype, state, context, opened.link)
        storage.ownership, storage.size = first.ownership, first.size
        opened.results[out.name] = Window(storage, tuple(Axis(a.dim, a.size, as_expr(0)) for a in windows[0].axes))
        made.append((storage, tree))

    def finished(r: Expr) -> Body:
        views = tuple(View(buffer_of(s), r) for s in opened.storages)
        return tuple(
            x
            for storage, tree in made
            for x in compute(View(buffer_of(storage), r), tree, views, None, context, opened.link)
        )

    return each_register(first, context, finished)


def note_places(opened: Open, places: dict[str, Expr], inside: State) -> None:
    """Record the place of a thread's first point in the first trip of all inner loops, and which threads have any."""
    if not opened.places:
        first = {loop.var: as_expr(0) for loop in inside.loops if loop not in opened.loops}
        opened.places.update({dim: substitute(place, first) for dim, place in places.items()})
        opened.guards = inside.guards
