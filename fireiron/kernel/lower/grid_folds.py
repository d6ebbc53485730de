"""Folds of programs over blocks of the grid: the last block to arrive combines all states, and runs the rest.

One warp of each group writes its state to the kernel's workspace, which has a place for each way, and the block
increments a counter. The last block knows that all states are written. Each of its warps (each lane, where a warp has
one state) combines some of the ways in their order, and the results are combined as in any block. No block waits for
another. With atomics the states are added in the workspace, in the order of arrival.

In an online loop each block sums under a value of its own. The last block first makes the common value; then it
corrects the sums of each block while it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import TypeAlias

import attrs

from fireiron.algebra.expr import Expr, Index, and_, as_expr, as_int, ceil_div, eq, lt, proves, simplest
from fireiron.algebra.scalar import Arg, Binary, Constant
from fireiron.atoms.table import matching
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import Buffer, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of, register_view
from fireiron.kernel.lower.folds import (
    LANES,
    Open,
    Shared,
    Table,
    begin,
    each_register,
    exchanged,
    finish,
    joined,
    over_warps,
    seated,
    tabulated,
)
from fireiron.kernel.lower.online_folds import copied, corrected_at, correction, factors
from fireiron.kernel.lower.parallel import numbered
from fireiron.kernel.lower.reduce import loop, move, temporary, vector, widest
from fireiron.kernel.lower.step_points import over_points
from fireiron.kernel.lower.workspace import last_of, workspace
from fireiron.language.decompositions import ByAtomics, Split
from fireiron.language.levels import GL, RF, Thread

Parts: TypeAlias = Callable[[Expr], Body]  # reads the state of a way and combines it

MOST_VECTORS = 8  # elements of a state that a thread loads at once
MOST_AT_ONCE = 64  # registers into which one thread loads states at once


@attrs.frozen(eq=False)
class _Value:
    """Hold a fold whose value others follow, and the place of each block's value.

    Args:
        opened: the fold; its registers hold the common value.
        place: where blocks' values lie.
    """

    opened: Open
    place: _Place


@attrs.frozen(eq=False)
class _Place:
    """Say where a state lies in the workspace.

    Args:
        table: the places of threads' points.
        sums: the workspace of each scalar.
        first: number of this block's first state among the states of one way.
        group: the group of warps whose state the thread holds, of `groups`; each has `seats` warps, and the warp with
        `seat` 0 writes.
        lanes: number of lanes with states of their own; 1 where the whole warp holds one state.
        size: registers of a state.
        width: contiguous registers that one access moves.
        ways: number of blocks that share a tile; `way` is the index of this block.
        lane: of the thread.
    """

    table: Table
    sums: tuple[Buffer, ...]
    first: Expr
    group: Expr
    groups: int
    seat: Expr
    seats: int
    lanes: int
    size: Expr
    width: int
    ways: Index
    way: Expr
    lane: Expr

    def at(self, way: Expr, v: Expr) -> Expr:
        """Give the place of a vector of registers of this thread's state, in the part of a way."""
        number = self.first * self.ways + way
        place = (number * self.groups + self.group) * (self.size // self.width) + v
        return place * self.width if self.lanes == 1 else (place * LANES + self.lane) * self.width

    def each_vector(self, context: Context, body: Callable[[Expr], Body]) -> Body:
        """Do something for each vector of registers."""
        return loop(context, "i", simplest(self.size // self.width), body)

    def written(self, body: Body) -> Body:
        """Run a body in the threads that write a state."""
        writer = and_(eq(self.seat, 0), eq(self.lane, 0)) if self.lanes == 1 else eq(self.seat, 0)
        return body if proves(writer) else (If(writer, body),)


def over_grid(
    link: Split, shared: Sequence[Shared], context: Context, loops: tuple[RegisterLoop, ...], behind: Callable[[], Body]
) -> Body:
    """Combine the states of the blocks that share a tile; the last of these blocks runs the rest.

    Args:
        link: the split that gave blocks their parts.
        shared: the folds over its dim.
        context: the kernel's.
        loops: those around the split.
        behind: lowers the steps that need the results.

    Raises:
        DecompositionError: `parallel-loop`, `parallel-atomics`, `fold-warps`.
    """
    inside = next((x.opened for x in shared if x.opened.loops != loops), None)
    if inside is not None:
        raise _inside_loops(link, inside)
    atomic = isinstance(link.reduce, ByAtomics)
    number, count = numbered(loops)
    seat, seats = context.tile * count + number, simplest(as_expr(context.tiles) * count)
    left: Body = ()
    taken: Body = ()
    values: list[_Value] = []
    for one in shared:
        opened, law = one.opened, one.state.progress.law if one.state.progress is not None else None
        follows = law is not None and opened.step.name in law.corrected
        place = _place(opened, seat, seats, atomic or follows, atomic, context)
        if atomic and follows:
            raise _unfollowed(link, opened)
        if atomic:
            left += _added(link, opened, place, context)
            taken += _took(opened, place, context)
        else:
            left += _left(opened, place, context)
            parts = _corrected_parts(opened, place, values, one.state, context) if follows else None
            taken += _collected(opened, place, parts, one.state, context)
        if law is not None and opened.step.name in law.factors:
            values.append(_Value(opened, place))
        taken += finish(opened, one.state, context)
    state, names = shared[0].state, ", ".join(x.opened.step.name for x in shared)
    title = f"{names} over {context.ways} blocks"
    head = Region(title, left, state.path, link.link)
    whole = Region(f"{title}: the last block combines them", taken, state.path, link.link)
    return (head, *last_of(context.ways, seat, seats, lambda: (whole, *behind()), context, link.link))


def _inside_loops(link: Split, opened: Open) -> DecompositionError:
    return DecompositionError(
        "parallel-loop",
        f"blocks share {link.dim}, and {opened.step.name} is folded in a loop of each block: states would meet in it",
        fix=f"give each unit one part: no loop of tiles below the split of {link.dim}",
        link=link.link,
    )


def _unfollowed(link: Split, opened: Open) -> DecompositionError:
    return DecompositionError(
        "parallel-atomics",
        f"{opened.step.name} is summed by each block under a value of its own, and atomics add sums as they are",
        fix="drop reduce=by_atomics()",
        link=link.link,
    )


def _place(opened: Open, seat: Expr, seats: Index, single: bool, atomic: bool, context: Context) -> _Place:
    """Make the workspace of a fold; `single` moves a register at a time, as atomics and corrections of points do."""
    assert context.threads is not None
    table = tabulated(opened, context.threads, context)
    groups, warps, group, mine = seated(opened, table)
    (first, *_) = opened.storages
    lanes = 1 if table.one_a_warp else LANES
    sums: list[Buffer] = []
    ways = 1 if atomic else context.ways
    for storage in opened.storages:
        total = as_expr(seats) * ways * (groups * lanes) * first.size
        sums.append(workspace(f"{storage.name}_parts", storage.dtype, total, context, zero=atomic))
    way = as_expr(0) if atomic else as_expr(context.way)
    lane = context.thread % LANES
    held = as_int(first.size)
    wide = 1 if single or held is None else gcd(*(widest(held, s.dtype) for s in opened.storages))
    return _Place(table, tuple(sums), seat, group, groups, mine, warps, lanes, first.size, wide, ways, way, lane)


def _left(opened: Open, place: _Place, context: Context) -> Body:
    """Write the states of this block."""
    wide = place.width

    def put(v: Expr) -> Body:
        return tuple(
            Call(
                move(RF, GL, s.dtype, wide),
                (vector(buffer_of(s), v * wide, wide), vector(to, place.at(place.way, v), wide)),
                link=opened.link,
            )
            for to, s in zip(place.sums, opened.storages, strict=True)
        )

    return place.written(place.each_vector(context, put))


def _collected(opened: Open, place: _Place, parts: Parts | None, state: State, context: Context) -> Body:
    """Combine the states of all ways: each warp or lane combines some of them, then their results are combined.

    Args:
        opened: the fold.
        place: where its states are.
        parts: reads and combines the state of a way; None where states need no correction.
        state: the place in the tree.
        context: the kernel's.
    """
    (first, *_) = opened.storages
    size = as_int(first.size) or 1
    parts = parts or _parts(opened, place, context)
    units = place.seats * (LANES if place.lanes == 1 else 1)
    mine = place.seat * LANES + place.lane if place.lanes == 1 else place.seat

    def of(turn: Expr) -> Body:
        way = turn * units + mine
        body = parts(way)
        there = lt(way, place.ways)
        return body if proves(there) else (If(there, body),)

    turns = simplest(ceil_div(place.ways, units))
    several = max(1, MOST_AT_ONCE // size)  # loaded at once
    rounds = loop(
        context, "w", simplest(ceil_div(turns, several)), lambda w: loop(
            context, "u", min(several, turns) if isinstance(turns, int) else several, lambda u: of(w * several + u)
        ), unroll=False, kind="sums",
    )  # fmt: skip
    met: Body = ()
    if place.lanes == 1:
        for bit in reversed(range((LANES - 1).bit_length())):
            met += exchanged(opened, place.lane ^ (1 << bit), context)
    return (*begin(opened, context), *rounds, *met, *over_warps(opened, place.table, state, context))


def _parts(opened: Open, place: _Place, context: Context) -> Parts:
    """Read a way's state, some vectors at a time, and combine them with the state that the thread holds."""
    (first, *_) = opened.storages
    size, wide = as_int(first.size) or 1, place.width
    batch = gcd(size // wide, MOST_VECTORS)  # vectors that are loaded before any is added
    others = [temporary("other", s, batch * wide, context) for s in opened.storages]

    def parts(way: Expr) -> Body:
        def get(several: Expr) -> Body:
            def ask(v: Expr) -> Body:
                return _asked(opened, place, way, several * batch + v, others, v, context)

            def add(r: Expr) -> Body:
                held = [View(buffer_of(s), several * (batch * wide) + r) for s in opened.storages]
                return joined(opened, held, [View(other, r) for other in others], context)

            return (*loop(context, "v", batch, ask), *loop(context, "i", batch * wide, add))

        return loop(context, "i", size // (wide * batch), get)

    return parts


def _corrected_parts(opened: Open, place: _Place, values: Sequence[_Value], state: State, context: Context) -> Parts:
    """Read a way's state, correct it from the way's own values to the common ones, and combine it.

    Args:
        opened: the fold.
        place: of its states.
        values: the folds that it may follow.
        state: the place in the tree.
        context: the kernel's.
    """
    held = [(value, copied(value.opened, "part", context)) for value in values]
    other = View(temporary("other", opened.storages[0], 1, context), as_expr(0))
    pseudo, role = correction(opened.step, opened, state), opened.roles[0]

    def parts(way: Expr) -> Body:
        body: Body = ()
        at = evolve(state, windows={**state.windows, **opened.windows})
        for value, mine in held:
            to = buffer_of(mine)
            body += value.place.each_vector(
                context, lambda v, x=value, t=to: _asked(x.opened, x.place, way, v, [t], v, context)
            )
            made, at = factors(value.opened, mine, at, context)
            body += made

        def add(here: State) -> Body:
            mine = register_view(context, here.windows[role], here, f"step {opened.step.name}")
            asked = _asked(opened, place, way, mine.offset, [other.buffer], as_expr(0), context)
            return (*asked, *corrected_at(pseudo, other, here, context), *joined(opened, [mine], [other], context))

        return (*body, *over_points(pseudo, at, context, add, opened.windows[role]))

    return parts


def _asked(
    opened: Open, place: _Place, way: Expr, v: Expr, to: Sequence[Buffer], number: Expr, context: Context
) -> Body:
    """Read a vector of a way's state.

    Args:
        opened: the fold.
        place: of its states.
        way: whose.
        v: the vector's number.
        to: registers of each scalar, which it fills from vector `number` on.
        number: see `to`.
        context: the kernel's.
    """
    wide = place.width
    return tuple(
        Call(
            move(GL, RF, other.dtype, wide),
            (vector(source, place.at(way, v), wide), vector(other, number * wide, wide)),
            link=opened.link,
        )
        for other, source in zip(to, place.sums, strict=True)
    )


def _added(link: Split, opened: Open, place: _Place, context: Context) -> Body:
    """Add this block's state to the workspace by atomics."""
    (storage, *_) = opened.storages
    fold = opened.fold
    found = matching("Add", (1,), (storage.dtype, storage.dtype), (RF, GL), Thread, context.arch)
    if fold.combine != (Binary("add", Arg(0, storage.dtype), Arg(1, storage.dtype)),) or not found:
        raise DecompositionError(
            "parallel-atomics",
            f"{opened.step.name} folds by {fold.name} in {storage.dtype}, which no atomic does",
            fix="drop reduce=by_atomics()",
            link=link.link,
        )

    def put(r: Expr) -> Body:
        there = View(place.sums[0], place.at(place.way, r))
        return (Call(found[0], (View(buffer_of(storage), r), there), link=opened.link),)

    return place.written(each_register(storage, context, put))


def _took(opened: Open, place: _Place, context: Context) -> Body:
    """Read the result of the atomics, and write zeros for the next launch."""
    (storage, *_) = opened.storages
    zero = View(temporary("zero", storage, 1, context), as_expr(0))

    def get(r: Expr) -> Body:
        there = View(place.sums[0], place.at(place.way, r))
        return (Call(move(GL, RF, storage.dtype, 1), (there, View(buffer_of(storage), r)), link=opened.link),)

    def clear(r: Expr) -> Body:
        there = View(place.sums[0], place.at(place.way, r))
        return (Call(move(RF, GL, storage.dtype, 1), (zero, there), link=opened.link),)

    cleared: Body = (Compute(zero, Constant(0.0 if storage.dtype.kind == "float" else 0, storage.dtype)),)
    wiped = place.written(each_register(storage, context, clear))
    return (*each_register(storage, context, get), *cleared, *wiped)
