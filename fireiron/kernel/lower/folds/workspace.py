"""Workspaces: blocks write their parts of a value to global memory, and the last block to arrive combines all parts.

Each block increments a counter after it has written its part, so the last block knows that all parts are written. Each
warp of the last block combines some of the parts, in their order (each lane, where a warp has one state; each thread,
where threads have separate registers). The warps' results are then combined as in any block. No block waits for
another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, isqrt
from typing import TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Expr, Index, and_, as_expr, as_int, ceil_div, eq, lt, minimum, proves, simplest
from fireiron.algebra.layout import Layout
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import Buffer, Call, CountIn, If, Region, View, Workspace
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.folds.lanes import exchanged
from fireiron.kernel.lower.folds.places import LANES, Table
from fireiron.kernel.lower.folds.shared import over_warps
from fireiron.kernel.lower.folds.state import Open, begin, joined
from fireiron.kernel.lower.registers import loop, move, temporary, vector
from fireiron.language.levels import GL, RF, Block, Kernel, Level

Parts: TypeAlias = Callable[[Expr], Body]  # reads the state of a way and combines it

MOST_VECTORS = 8  # vectors of a state that a thread loads at once
MOST_HELD = 96  # registers of a thread's state and of what it has read of others'
MOST_AT_ONCE = 64  # registers that hold one thread's states at once
ZERO = as_expr(0)


def workspace(name: str, dtype: DType, size: Index, context: Context, zero: bool = False) -> Buffer:
    """Make a buffer in global memory for the kernel's own use.

    Args:
        name: the wanted name.
        dtype: element type of the buffer.
        size: number of elements.
        context: the kernel's facts.
        zero: whether the buffer holds zeros when a launch begins; the launch must then leave zeros too.
    """
    buffer = Buffer(context.name(name), GL, dtype, as_expr(size), unit=Kernel)
    context.workspaces.append(Workspace(buffer, zero=zero))
    return buffer


def last_of(
    ways: Index,
    seat: Expr,
    seats: Index,
    behind: Callable[[], Body],
    context: Context,
    link: Link | None,
    level: Level = Block,
) -> Body:
    """Count a unit's arrival, and make the last unit combine all parts.

    Args:
        ways: number of units that store parts of a value.
        seat: number of the value, below `seats`.
        behind: a function that lowers the code that the last unit executes.
        context: the kernel's facts.
        link: the split that divides the dim among the units.
        level: level of the units.
    """
    counter = View(workspace("arrived", i32, seats, context, zero=True), seat)
    last = context.variable("last", 2)
    return (CountIn(last, counter, as_expr(ways), level=level, link=link), If(last, behind()))


@attrs.frozen(eq=False)
class Within:
    """Say which registers of a written state a thread reads.

    Args:
        first: the first register that the thread reads.
        steps: number of a register that is read -> steps from the first one.
        size: registers of a written state.
    """

    first: Expr
    steps: Layout
    size: Expr


@attrs.frozen(eq=False)
class Place:
    """Say where the states of a fold lie in the workspace. A way is one of the blocks that share a tile.

    Args:
        opened: the fold.
        sums: the workspace of each scalar.
        first: number of this block's first state among the states of one way.
        group: number of the group of warps whose state the thread holds, below `groups`. A group has `seats` warps; the
            warp with `seat` 0 writes.
        lanes: number of threads of a group with separate states; 1 where a whole warp holds one state.
        width: number of contiguous registers that one access moves.
        ways: number of blocks that share a tile; `way` is the index of this block.
        lane: number of the thread among the group's threads, or in its warp.
        table: the places of threads' points; None where each thread combines its own registers.
        start: number of the first way whose state is combined.
        count: number of ways whose states are combined; None for all.
        behind: whether the states may lie in buffers of shared memory that are no longer needed.
        within: the registers of the written states that the fold's registers are; None for all registers.
    """

    opened: Open
    sums: tuple[Buffer, ...]
    first: Expr
    group: Expr
    groups: int
    seat: Expr
    seats: int
    lanes: int
    width: int
    ways: Index
    way: Expr
    lane: Expr
    table: Table | None = None
    start: Expr = ZERO
    count: Expr | None = None
    behind: bool = False
    within: Within | None = None

    @property
    def size(self) -> Expr:
        """Return the number of registers of a state."""
        return self.opened.storages[0].size

    def at(self, way: Expr, v: Expr) -> Expr:
        """Return the place in the workspace of a vector of registers of this thread's state, for a way."""
        number, size = self.first * self.ways + way, self.size
        if self.within is not None:
            register = self.within.first + as_expr(self.within.steps(v * self.width))
            v, size = register // self.width, self.within.size
        place = (number * self.groups + self.group) * (size // self.width) + v
        return place * self.width if self.lanes == 1 else (place * self.lanes + self.lane) * self.width

    def each_vector(self, context: Context, body: Callable[[Expr], Body]) -> Body:
        """Make a loop over the vectors of registers."""
        return loop(context, "i", simplest(self.size // self.width), body)

    def written(self, body: Body) -> Body:
        """Put a condition around statements: only the threads that write a state execute them."""
        writer = and_(eq(self.seat, 0), eq(self.lane, 0)) if self.lanes == 1 else eq(self.seat, 0)
        return body if proves(writer) else (If(writer, body),)


def left(place: Place, context: Context) -> Body:
    """Make the statements that write the states of this block."""
    opened, wide = place.opened, place.width

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


def collected(place: Place, parts: Parts | None, state: State, context: Context) -> Body:
    """Combine the states of all ways: each warp or lane combines some states, then the results are combined.

    Args:
        place: the place of the states.
        parts: the functions that read, correct and combine the state of a way; None where states need no correction.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
    """
    opened, size = place.opened, as_int(place.size) or 1
    parts = parts or _parts(place, context)
    units = place.seats * (LANES if place.lanes == 1 else 1)
    mine = place.seat * LANES + place.lane if place.lanes == 1 else place.seat

    def of(turn: Expr) -> Body:
        way = turn * units + mine
        body = parts(place.start + way)
        there = lt(way, place.ways if place.count is None else place.count)
        return body if proves(there) else (If(there, body),)

    most_ways = place.ways if place.count is None or place.count.range[1] is None else place.count.range[1]
    turns = simplest(ceil_div(most_ways, units))
    most = max(1, MOST_AT_ONCE // size)
    several = min(most, turns) if isinstance(turns, int) else most  # states that a thread loads before it combines any
    rounds = loop(
        context, "w", simplest(ceil_div(turns, several)),
        lambda w: loop(context, "u", several, lambda u: of(w * several + u)), unroll=False, kind="sums",
    )  # fmt: skip
    if place.table is None:
        return (*begin(opened, context), *rounds)
    met: Body = ()
    if place.lanes == 1:
        for bit in reversed(range((LANES - 1).bit_length())):
            met += exchanged(opened, place.lane ^ (1 << bit), context)
    return (*begin(opened, context), *rounds, *met, *over_warps(opened, place.table, state, context, place.behind))


def in_levels(
    places: Sequence[tuple[Place, State]], ways: int, way: Expr, seat: Expr, seats: Index,
    behind: Callable[[], Body], context: Context, link: Link | None,
) -> Body:  # fmt: skip
    """Combine parts in two levels: the last block of each group, then the last of these blocks.

    In one level, one block reads the parts of all `ways`. With about sqrt(ways) groups, a block reads about
    2 * sqrt(ways) parts at most. The order stays fixed: ways in a group, then groups.

    Args:
        places: the places of the folds' states, each with its lowering state.
        ways: number of blocks that share each value.
        way: the index of this block among the `ways` blocks.
        seat: number of the value, below `seats`.
        seats: number of values.
        behind: a function that lowers the code that the last block executes.
        context: the kernel's facts.
        link: the split that divides the dim among blocks.
    """
    size = isqrt(ways - 1) + 1
    groups = -(-ways // size)
    group = way // size
    count = minimum(as_expr(size), ways - group * size)

    def of_group() -> Body:
        body: Body = ()
        again: list[tuple[Place, State]] = []
        for place, state in places:
            first = attrs.evolve(place, start=group * size, count=count, behind=True)
            sums = tuple(
                workspace(f"{b.name}_of_groups", b.dtype, as_expr(b.size) // ways * groups, context) for b in place.sums
            )
            second = attrs.evolve(place, sums=sums, ways=groups, way=group, behind=True)
            made = (*collected(first, None, state, context), *left(second, context))
            body += (Region(f"{place.opened.step.name} of a group of {size} blocks", made, state.path, link),)
            again.append((second, state))

        def of_all() -> Body:
            whole = tuple(
                Region(
                    f"{place.opened.step.name} of {groups} groups",
                    collected(place, None, state, context),
                    state.path,
                    link,
                )
                for place, state in again
            )
            return (*whole, *behind())

        return (*body, *last_of(groups, seat, seats, of_all, context, link))

    return last_of(count, seat * groups + group, seats * groups, of_group, context, link)


def _parts(place: Place, context: Context) -> Parts:
    """Read a way's state, some vectors at a time, and combine them with the state that the thread holds."""
    opened, wide = place.opened, place.width
    size = as_int(place.size) or 1
    vectors = gcd(size // wide, MOST_VECTORS)  # loaded before any is added, if enough registers are left
    batch = next(n for n in (8, 4, 2, 1) if vectors % n == 0 and (n == 1 or size + n * wide <= MOST_HELD))
    others = [temporary("other", s.dtype, batch * wide, context) for s in opened.storages]

    def parts(way: Expr) -> Body:
        def get(several: Expr) -> Body:
            def ask(v: Expr) -> Body:
                return asked(place, way, several * batch + v, others, v)

            def add(r: Expr) -> Body:
                held = [View(buffer_of(s), several * (batch * wide) + r) for s in opened.storages]
                return joined(opened, held, [View(other, r) for other in others], context)

            return (*loop(context, "v", batch, ask), *loop(context, "i", batch * wide, add))

        return loop(context, "i", size // (wide * batch), get)

    return parts


def asked(place: Place, way: Expr, v: Expr, to: Sequence[Buffer], number: Expr) -> Body:
    """Read a vector of a way's state.

    Args:
        place: the place of the fold's states.
        way: number of the way.
        v: the vector's number in the state.
        to: destination registers of each scalar.
        number: the vector's number in `to`.
    """
    wide = place.width
    return tuple(
        Call(
            move(GL, RF, other.dtype, wide),
            (vector(source, place.at(way, v), wide), vector(other, number * wide, wide)),
            link=place.opened.link,
        )
        for other, source in zip(to, place.sums, strict=True)
    )
