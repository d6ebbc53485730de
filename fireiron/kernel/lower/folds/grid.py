"""Folds over blocks of the grid: the last block to arrive combines all parts, and runs the code after the fold.

The partial sums of a product and the states of a program's fold are stored alike. Either each way has a place in the
kernel's workspace, and the last block reads the places in order, or atomics add to one place in the order of arrival.

In an online loop each block sums under a value of its own. The last block first makes the common value; then it
corrects the sums of each block while it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import TypeAlias

import attrs

from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import Expr, Index, as_expr, as_int, lt, minimum, simplest
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import Buffer, If, Meet, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of, register_view
from fireiron.kernel.lower.folds.atomics import adder, handed_in, took
from fireiron.kernel.lower.folds.places import LANES, seated, tabulated
from fireiron.kernel.lower.folds.shares import Share, divide
from fireiron.kernel.lower.folds.state import Open, Shared, finish, joined, known, open_sum
from fireiron.kernel.lower.folds.together import refuse_apart
from fireiron.kernel.lower.folds.workspace import (
    Parts,
    Place,
    Within,
    asked,
    collected,
    in_levels,
    last_of,
    left,
    workspace,
)
from fireiron.kernel.lower.online_folds import copied, corrected_at, correction, factors
from fireiron.kernel.lower.parallel import numbered
from fireiron.kernel.lower.registers import fill, handed_over, temporary, widest
from fireiron.kernel.lower.step_points import over_points
from fireiron.kernel.lower.storage import register_storage
from fireiron.kernel.lower.window import Axis, Partial, Window
from fireiron.language.decompositions import ByAtomics, ByTma, InOrder, Split
from fireiron.language.levels import Block

# Lowers the steps that need folds' results: for the whole tile, or for a share of it, whose number is given.
Behind: TypeAlias = Callable[[Sequence[Open], "Share | None", Expr], Body]


@attrs.frozen(eq=False)
class _Value:
    """Hold an online fold whose value corrects other folds (a running maximum), and the place of each block's value.

    Args:
        opened: the fold; its registers hold the common value.
        place: the place of the blocks' values in the workspace.
    """

    opened: Open
    place: Place


def over_grid(
    link: Split, shared: Sequence[Shared], context: Context, loops: tuple[RegisterLoop, ...], behind: Behind
) -> Body:
    """Combine the states of the blocks that share a tile; the last of these blocks continues with the result.

    Args:
        link: the split that divides the dim among blocks.
        shared: the folds over the split's dim.
        context: the kernel's facts.
        loops: the loops around the split.
        behind: a function that lowers the steps that need the results.

    Raises:
        DecompositionError: `parallel-loop`, `parallel-atomics`, `parallel-shares`, `fold-warps`.
    """
    inside = next((x.opened for x in shared if x.opened.loops != loops), None)
    if inside is not None:
        raise _inside_loops(link, inside)
    atomic = isinstance(link.reduce, ByAtomics)
    number, count = numbered(loops)
    seat, seats = context.tile * count + number, simplest(as_expr(context.tiles) * count)
    if isinstance(link.reduce, InOrder) and link.reduce.shared:
        return _in_shares(link, shared, seat, seats, behind, context)
    put: Body = ()
    taken: Body = ()
    two_levels = isinstance(link.reduce, InOrder) and link.reduce.two_levels
    values: list[_Value] = []
    places: list[tuple[Place, State]] = []
    ends: Body = ()
    for one in shared:
        opened, law = one.opened, one.state.progress.law if one.state.progress is not None else None
        follows = law is not None and opened.step.name in law.corrected
        if atomic and follows:
            raise _unfollowed(link, opened)
        place = _place(opened, seat, seats, follows, atomic, context, link.link)
        parts = _corrected_parts(place, values, one.state, context) if follows else None
        if two_levels:
            put += left(place, context)
            ends += finish(opened, one.state, context)
            places.append((place, one.state))
        else:
            mine, whole = _carried(place, parts, atomic, one.state, context)
            put += mine
            taken += (*whole, *finish(opened, one.state, context))
        if law is not None and opened.step.name in law.factors:
            values.append(_Value(opened, place))
    rest = lambda: behind([x.opened for x in shared], None, as_expr(0))  # noqa: E731
    state, names = shared[0].state, ", ".join(x.opened.step.name for x in shared)
    title = f"{names} over {context.ways} blocks"
    head = Region(title, put, state.path, link.link)
    if two_levels:
        ways = as_int(as_expr(context.ways))
        if ways is None or values:
            raise _one_level(link)
        way = as_expr(context.way)
        return (head, *in_levels(places, ways, way, seat, seats, lambda: (*ends, *rest()), context, link.link))
    last = Region(f"{title}: the last block combines them", taken, state.path, link.link)
    return (head, *last_of(context.ways, seat, seats, lambda: (last, *rest()), context, link.link))


def _in_shares(
    link: Split, shared: Sequence[Shared], seat: Expr, seats: Index, behind: Behind, context: Context
) -> Body:
    """Let the blocks of a tile meet; each block combines a share of the states, and continues with this share.

    Raises:
        DecompositionError: `parallel-shares` where blocks cannot wait for each other, several folds are shared, or
            states are corrected.
    """
    refuse_apart(context.ways, context, link.link)
    (one, *others) = shared
    opened, state = one.opened, one.state
    (window, *_) = opened.windows.values()
    known(opened)
    held, ways, way = window.storage.ownership, context.ways, as_expr(context.way)
    assert held is not None and isinstance(ways, int)
    if others or (state.progress is not None and state.progress.law is not None):
        raise _not_shared(link, [x.opened.step.name for x in shared])
    share = divide(held, window, ways, context)
    number = way if share.count == ways else minimum(way, share.count - 1)
    mine = _share_of(opened, share, number, state, context)
    place = _place(opened, seat, seats, False, False, context, link.link)
    place = attrs.evolve(place, width=gcd(place.width, share.run, share.ownership.size, share.stride))
    within = Within(number * share.stride, share.steps, as_expr(window.storage.size))
    taken = collected(attrs.evolve(place, opened=mine, within=within), None, state, context)
    counter = View(workspace("arrived", i32, seats, context, zero=True), seat)
    head = (*left(place, context), Meet(counter, as_expr(ways), link=link.link))
    title = f"{opened.step.name} over {ways} blocks"
    rest = (
        Region(f"{title}: a share of it", (*taken, *finish(mine, state, context)), state.path, link.link),
        *behind([mine], share, number),
    )
    busy = rest if share.count == ways else (If(lt(way, share.count), rest),)
    return (Region(title, head, state.path, link.link), *busy)


def _share_of(opened: Open, share: Share, number: Expr, state: State, context: Context) -> Open:
    """Return a fold whose registers are those of a share."""
    windows: dict[str, Window] = {}
    for role, window in opened.windows.items():
        axes = tuple(Axis(a.dim, share.size if a.dim == share.dim else a.size, as_expr(0)) for a in window.axes)
        like, old = Window(window.storage, axes), window.storage
        made = register_storage(f"{old.name}_share", like, old.memory, old.dtype, state, context, opened.link)
        made.ownership, made.size = share.ownership, as_expr(share.ownership.size)
        windows[role] = Window(made, axes)
    places = dict(opened.places)
    if share.dim in places:
        places[share.dim] = places[share.dim] + number * share.size
    return Open(opened.step, windows, opened.link, opened.loops, places, opened.guards)


def _not_shared(link: Split, names: Sequence[str]) -> DecompositionError:
    what = f"{', '.join(names)} are several folds" if len(names) > 1 else f"{names[0]} is corrected by other values"
    return DecompositionError(
        "parallel-shares",
        f"each block of a tile combines a share of one fold over {link.dim}, and {what}",
        fix="drop shared=True",
        link=link.link,
    )


def share(windows: Sequence[Window], partials: list[Partial], finish: Body, state: State, context: Context) -> Body:
    """Add the sums of products that the blocks of a tile hold; the last of them to arrive finishes the tile.

    Threads of equal index hold sums of the same elements in all blocks. So sums are stored by register and thread,
    without coordinates or bounds of C.
    """
    partial = next((p for p in partials if p.level == Block), None)
    if partial is None or isinstance(partial.reduce, ByTma) or partial.shared:
        return finish
    link, units = partial.link, context.staggered
    threads = (context.threads or 1) // units
    thread = context.thread if units == 1 else context.thread % threads
    atomic = isinstance(partial.reduce, ByAtomics)
    ways, zero = 1 if atomic else partial.ways, as_expr(0)
    way = zero if atomic else partial.way
    head: Body = ()
    whole: Body = ()
    after: Body = ()
    for window in windows:
        storage, opened = window.storage, open_sum(window, link)
        held = as_int(storage.size)
        width = _width(opened, atomic, context, link) if atomic or held is None else handed_over(storage, held)
        elements = as_expr(partial.seats) * ways * (storage.size * threads)
        sums = workspace("partial", storage.dtype, elements, context, zero=atomic)
        place = Place(opened, (sums,), partial.seat, zero, 1, zero, 1, threads, width, ways, way, thread)
        put, taken = _carried(place, None, atomic, state, context)
        title = f"Reduce({partial.ways})({storage.memory})({Block}s)"
        head += (Region(title, put, partial.path, link, "fold", sums.name),)
        title = f"Reduce: sum of {partial.ways} {Block}s"
        whole += (Region(title, taken, partial.path, link, "fold", storage.name),)
        # With loaded sums in the registers of the next tile's asynchronous products, ptxas would serialise these.
        after += (fill(storage, 0, context),) if atomic and context.persistent and context.rings else ()
    behind = (*whole, *finish, *after)
    return (*head, *last_of(partial.ways, partial.seat, partial.seats, lambda: behind, context, link, context.owner))


def _inside_loops(link: Split, opened: Open) -> DecompositionError:
    return DecompositionError(
        "parallel-loop",
        f"blocks share {link.dim}, and {opened.step.name} is folded in a loop of each block: states of its "
        "trips would mix",
        fix=f"give each unit one part: no loop of tiles below the split of {link.dim}",
        link=link.link,
    )


def _one_level(link: Split) -> DecompositionError:
    return DecompositionError(
        "parallel-levels",
        f"blocks that share {link.dim} combine states in one level: their number is not known, or states are corrected",
        fix="drop two_levels=True",
        link=link.link,
    )


def _unfollowed(link: Split, opened: Open) -> DecompositionError:
    return DecompositionError(
        "parallel-atomics",
        f"each block sums {opened.step.name} relative to a value of its own, and atomics cannot correct sums",
        fix="drop reduce=by_atomics()",
        link=link.link,
    )


def _place(
    opened: Open, seat: Expr, seats: Index, single: bool, atomic: bool, context: Context, link: Link | None
) -> Place:
    """Make the workspace of a fold; with `single`, one access moves one register, as corrections need it."""
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
    wide = 1 if single else _width(opened, atomic, context, link)
    return Place(opened, tuple(sums), seat, group, groups, mine, warps, lanes, wide, ways, way, lane, table)


def _width(opened: Open, atomic: bool, context: Context, link: Link | None) -> int:
    """Choose how many registers one access moves."""
    held = as_int(opened.storages[0].size)
    if atomic:
        return adder(opened, context, link).operands[0].registers
    return 1 if held is None else gcd(*(widest(held, s.dtype) for s in opened.storages))


def _carried(place: Place, parts: Parts | None, atomic: bool, state: State, context: Context) -> tuple[Body, Body]:
    """Return the statements that store a block's states, and those that combine the states of all blocks."""
    if atomic:
        return handed_in(place, context), took(place, context)
    return left(place, context), collected(place, parts, state, context)


def _corrected_parts(place: Place, values: Sequence[_Value], state: State, context: Context) -> Parts:
    """Return a function that reads a way's state, corrects it to the common values, and combines it.

    Args:
        place: the place of the fold's states.
        values: the online folds whose values correct the state.
        state: the lowering state.
        context: the kernel's facts.
    """
    opened = place.opened
    held = [(value, copied(value.opened, "part", context)) for value in values]
    other = View(temporary("other", opened.storages[0].dtype, 1, context), as_expr(0))
    pseudo, role = correction(opened.step, opened, state), opened.roles[0]

    def parts(way: Expr) -> Body:
        body: Body = ()
        at = evolve(state, windows={**state.windows, **opened.windows})
        for value, mine in held:
            to = buffer_of(mine)
            body += value.place.each_vector(context, lambda v, x=value, t=to: asked(x.place, way, v, [t], v))
            made, at = factors(value.opened, mine, at, context)
            body += made

        def add(here: State) -> Body:
            mine = register_view(context, here.windows[role], here, f"step {opened.step.name}")
            read = asked(place, way, mine.offset, [other.buffer], as_expr(0))
            return (*read, *corrected_at(pseudo, other, here, context), *joined(opened, [mine], [other], context))

        return (*body, *over_points(pseudo, at, context, add, opened.windows[role]))

    return parts
