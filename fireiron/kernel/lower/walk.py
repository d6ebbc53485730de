"""Lowering, link by link: each link emits its statements around the statements of the links below it."""

from __future__ import annotations

from fireiron.algebra.arch import MAX_CLUSTER, native
from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import (
    Expr,
    Index,
    Var,
    and_,
    as_expr,
    as_int,
    ceil_div,
    ge,
    lt,
    maximum,
    minimum,
    proves,
    simplest,
    substitute,
)
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.rewrite import mentions, rewrite
from fireiron.kernel.ir.statements import BLOCK, BLOCKS, RANK, Draw, For, If, Leave, Let, Region, View
from fireiron.kernel.lower.ahead import Ahead, lower_ahead
from fireiron.kernel.lower.bulk_once import loads_once, lower_load_once
from fireiron.kernel.lower.chunks import trips_of
from fireiron.kernel.lower.context import Body, Context, State, descend, units_of
from fireiron.kernel.lower.epilog import lower_epilog
from fireiron.kernel.lower.folds.shared import staging
from fireiron.kernel.lower.folds.workspace import workspace
from fireiron.kernel.lower.groups import OpenGroups, open_groups, reached, refuse_unopened
from fireiron.kernel.lower.idle_points import loaded_or_zero
from fireiron.kernel.lower.layers import lower_each
from fireiron.kernel.lower.leaf import lower_done
from fireiron.kernel.lower.long_runs import in_long_runs
from fireiron.kernel.lower.move import lower_load, lower_own, widest_sizes
from fireiron.kernel.lower.numbering import named, there_and_back, tile_numbers
from fireiron.kernel.lower.parallel import count_ways, lower_parallel
from fireiron.kernel.lower.permutation import permuted
from fireiron.kernel.lower.pipeline import lower_split
from fireiron.kernel.lower.program_loops import lower_program_split
from fireiron.kernel.lower.program_parallel import lower_program_parallel
from fireiron.kernel.lower.program_start import lower_results
from fireiron.kernel.lower.roles import filled
from fireiron.kernel.lower.steps import lower_steps
from fireiron.kernel.lower.stream import chunks_of, share_out, shared_split
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import Cut, cut
from fireiron.kernel.passes.roles import computes, fills
from fireiron.language.decompositions import (
    Done,
    Drawn,
    Each,
    EachStep,
    Epilog,
    Extent,
    Load,
    Own,
    Prolog,
    Results,
    Split,
    StreamK,
    Tile,
    Widest,
)
from fireiron.language.levels import SH, Block, Cluster, Kernel, Thread, Warp
from fireiron.language.residual import apply
from fireiron.language.specs import BATCH
from fireiron.language.tensor import ColMajor, RowMajor, Serpentine, TileOrder

WARP_WIDTH = Warp.size
MAX_GRID = 2**31 - 1


def lower_links(tree: Tree, state: State, context: Context) -> Body:
    """Lower a chain from its first remaining link on.

    Raises:
        FireironError: located at the link that cannot be lowered.
    """
    link, rest = tree.link, tree.below
    if link is None or rest is None:
        raise DecompositionError(
            "unfinished",
            f"{state.residual} is not decomposed to the end",
            fix="close the chain by .done()",
            path=state.path,
        )
    try:
        match link:
            case Tile():
                return _lower_tile(link, rest, state, context)
            case Split() if state.progress is not None and link.level is not None:
                return lower_program_parallel(link, rest, state, context, lower_links)
            case Split() if state.progress is not None:
                return lower_program_split(link, rest, state, context, lower_links)
            case Split() if link.level is not None:
                return lower_parallel(link, rest, state, context, lower_links)
            case Split():
                return lower_split(link, rest, state, context, lower_links)
            case Load(role) if (
                state.ahead is not None and link.memory == SH and state.residual.operand(role) is not None
            ):
                return lower_ahead(link, rest, state, context, lower_links)
            case Load() if loads_once(link, rest, state):
                return lower_load_once(link, rest, state, context, lower_links)
            case Load():
                return lower_load(link, rest, state, context, lower_links)
            case Prolog(role):
                below = evolve(state, residual=apply(link, state.residual))
                whole = {**state.whole, role: state.whole.get(role, state.windows[role])}
                below = evolve(below, whole=whole).under(f"prolog {role}", link.link)
                return lower_links(rest, below, context)
            case Epilog():
                return lower_epilog(link, rest, state, context, lower_links)
            case Each():
                return lower_each(link, state, context, lower_links)
            case EachStep():
                return lower_steps(state.under("each", link.link), context, lower_links, link)
            case Own():
                return lower_own(link, rest, state, context, lower_links)
            case Results():
                return lower_results(link, rest, state, context, lower_links)
            case Done() if state.progress is not None:
                return lower_steps(state.under("done", link.link), context, lower_links)
            case Done():
                refuse_unopened(state, context, link.link)
                return lower_done(link, state.under("done", link.link), context)
    except FireironError as error:
        raise error.located(link.link, state.path) from None


def _lower_tile(link: Tile, rest: Tree, state: State, context: Context) -> Body:
    order, named = link.order, link.sizes
    if isinstance(named, Widest):
        named, order = widest_sizes(named, state, link.order)
    sizes: dict[str, Extent] = dict(named)
    extents = state.residual.extents
    parts = {dim: cut(sizes[dim], _known(extents[dim])) for dim in extents if dim in sizes}
    words = f"tile {'x'.join(str(size) for size in sizes.values())}" + (f" to {link.level}" if link.level else "")
    below = state.under(words, link.link)
    if link.level is None or BATCH not in parts:
        refuse_unopened(state, context, link.link)
    if link.level is None:
        body = _loop_tile(link, parts, order, rest, below, context)
        return _widened(link, body, state, context)
    if state.level.name == Kernel.name:
        return _grid_tile(link, parts, order, rest, below, context)
    if link.level.name == Block.name and state.level.name == Cluster.name:
        return _cluster_tile(link, parts, order, rest, below, context)
    return _widened(link, _unit_tile(link, parts, order, rest, below, context), state, context)


def _widened(link: Tile, body: Body, state: State, context: Context) -> Body:
    """Widen the vectors of a thread's Move across dims, where the widest are asked for."""
    if not isinstance(link.sizes, Widest) or link.sizes.exact or state.level.name != Thread.name:
        return body
    return in_long_runs(body, link.sizes.nbytes, state, context)


def _known(extent: Index | None) -> Index:
    assert extent is not None
    return extent


def _loop_tile(
    link: Tile,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
) -> Body:
    if link.stages and state.progress is not None:
        return _loop_ahead(link, parts, order, rest, state, context)
    if not isinstance(order, Serpentine) and order not in (RowMajor, ColMajor):
        raise DecompositionError(
            "tile-order",
            f"{order} counts the tiles of units, and a loop visits these",
            fix="use RowMajor, ColMajor or Serpentine(), or give the tiles to units: .to(level)",
        )
    dims = list(parts)
    turns = isinstance(order, Serpentine)
    if (order.along if isinstance(order, Serpentine) else order) is ColMajor:
        dims.reverse()
    tiles: dict[str, Expr] = {dim: as_expr(0) for dim in parts}
    loops: list[tuple[Var, Expr]] = []
    back: list[tuple[Var, Expr] | None] = []  # for each loop that turns, its trips, and in whose odd rounds it turns
    round = as_expr(0)  # counts the trips of the loops so far
    for dim in dims:
        trips = as_expr(parts[dim].trips)
        if trips.range != (1, 1):
            var = context.variable(dim.lower(), trips)
            tiles[dim] = var
            step = context.variable("step", trips) if turns and loops else var
            back.append((step, round) if turns and loops else None)
            round = round * trips + step
            loops.append((var, trips))
    inner = evolve(state, loops=(*state.loops, *(RegisterLoop(v, t, link.unrolled, link.link) for v, t in loops)))
    if link.stages > 1:
        trip = as_expr(0)
        for var, trips in loops:
            many = as_int(trips)
            if many is None:
                raise DecompositionError(
                    "symbolic-tiles", f"{trips} tiles cannot go through a ring: their number is not known", fix=""
                )
            trip = trip * many + var
        inner = evolve(inner, ring=(link.stages, trip))
    body = lower_links(rest, descend(inner, parts, tiles), context)
    for (var, trips), turn in zip(reversed(loops), reversed(back), strict=True):
        if turn is None:
            body = (For(var, trips, body, link.unrolled, kind="tiles"),)
        else:  # registers belong to tiles by their numbers, whatever the order
            step, rounds = turn
            number = Let(var, there_and_back(step, trips, rounds))
            body = (For(step, trips, (number, *body), link.unrolled, kind="tiles"),)
    return body


def _loop_ahead(
    link: Tile,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
) -> Body:
    """Make the loop over tiles whose loads run ahead: a single loop, whatever the number of dims."""
    trips = simplest(trips_of(parts))
    trip = context.variable("trip", trips)
    ahead = Ahead(link.stages, trip, as_expr(trips), link.link)
    inner = evolve(
        state, ahead=ahead, loops=(*state.loops, RegisterLoop(trip, as_expr(trips), link.unrolled, link.link))
    )
    body = lower_links(rest, descend(inner, parts, tile_numbers(trip, parts, order)), context)
    return ahead.around(For(trip, as_expr(trips), body, link.unrolled, kind="tiles"))


def _grid_tile(
    link: Tile,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
) -> Body:
    missing = [
        dim for dim, extent in state.residual.sizes if dim not in parts and dim != "K" and simplest(_known(extent)) != 1
    ]
    if missing and state.progress is None:
        raise DecompositionError(
            "tile-gaps",
            f"tiles of {state.residual.short} leave {', '.join(missing)} whole in every block",
            fix="size the tile in that dimension too: tile(m, n, batch=1)",
        )
    opened = open_groups(link, parts, state, context)
    total = opened.groups.most if opened else trips_of(parts)
    assert link.level is not None
    count_ways(rest, state, context)
    size = _blocks_of(link, rest, {dim: part.size for dim, part in parts.items()}) * context.joined
    context.grid, context.cluster = total * size * context.ways, size
    context.resident, context.persistent, context.dependent = link.resident, link.persistent, link.dependent
    context.wanted = link.wanted
    # A grid holds fewer blocks than 2^31, whatever the sizes: its index and what is made of it are 32-bit.
    block = Var(BLOCK, simplest(minimum(context.grid, MAX_GRID)))
    index: Expr = block // size
    context.tiles = simplest(total * size)
    if link.persistent:
        return _work_loop(link, parts, order, rest, state, context, index, size, opened)
    if context.ways != 1:
        # The blocks of a tile are neighbours: they end together, and their sums are still in the L2 cache.
        context.way = context.define("way", index % context.ways, context.ways)
        index = context.define("tile", index // context.ways, simplest(minimum(total, MAX_GRID)))
    context.tile = _of_blocks(index, size)
    index = permuted(link, index, simplest(total))
    if opened:
        return _group_tile(link, opened, order, rest, context, index, "block" if size == 1 else "cluster")
    tiles = named(tile_numbers(index, parts, order), "block" if size == 1 else "cluster", parts, context)
    inside = descend(state, parts, tiles, link.level)
    body = lower_links(rest, inside, context)
    return (Region(str(inside.residual), body, state.path, link.link),)


def _of_blocks(tile: Expr, size: int) -> Expr:
    """Return the number of this block's tile, from its cluster's tile."""
    return tile if size == 1 else tile * size + Var(RANK, size)


def _blocks_of(link: Tile, rest: Tree, sizes: dict[str, Index]) -> int:
    """Return the number of blocks of a cluster: the number of tiles of the next link, a tile to Block.

    Raises:
        DecompositionError: `cluster-blocks`.
    """
    if link.level is None or link.level.name != Cluster.name:
        return 1
    inner = rest.asked.tile
    if inner is None or inner.level is None or inner.level.name != Block.name or isinstance(inner.sizes, Widest):
        raise DecompositionError(
            "cluster-blocks",
            "no tile to Block below a tile to Cluster divides it among the cluster's blocks",
            fix="follow it by tile(m, n).to(Block)",
            link=link.link,
        )
    count = 1
    for dim, size in inner.sizes:
        found = cut(size, sizes[dim]).trips if dim in sizes else 1
        assert isinstance(found, int)
        count *= found
    if count > MAX_CLUSTER:
        raise DecompositionError(
            "cluster-blocks",
            f"a cluster of {count} blocks is larger than the {MAX_CLUSTER} that every GPU takes",
            fix=f"use clusters of at most {MAX_CLUSTER} blocks",
            link=inner.link,
        )
    return count


def _work_loop(
    link: Tile,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
    unit: Expr,
    size: int,
    opened: OpenGroups | None,
) -> Body:
    """Make the loop in which each of n launched units takes every n-th work item (a tile, or a way's part of one)."""
    tiles = opened.groups.most if opened else trips_of(parts)
    if isinstance(link.share, StreamK):
        return _stream_loop(link, link.share, parts, order, rest, state, context, unit, size)
    total = tiles * context.ways
    most = simplest(minimum(total, MAX_GRID))
    units = Var(BLOCKS, simplest(minimum(total * size, MAX_GRID)) + 1, size) // size
    turns = rest.asked.staggered
    stagger = 1 if turns is None else turns.staggered
    step, first = units, unit
    if turns is not None:
        # This unit takes every n-th trip (n units), starting with its own number.
        level = turns.level
        assert level is not None and level.size is not None
        context.staggered, context.threads, context.owner = stagger, stagger * level.size, level
        turn = context.define("warpgroup", context.thread // (context.threads // stagger), stagger)
        step, first = units * stagger, unit + turn * units
    trips = _visits(first, step, total)
    drawn = isinstance(link.share, Drawn)  # the last trip finds no item left
    context.trip = trip = context.variable("trip", simplest(ceil_div(total, 1) + int(drawn)))
    tile = item = context.variable("tile" if context.ways == 1 else "item", most)
    lets = [Let(item, first + trip * step)]
    if context.ways != 1:
        # The ways of a tile are consecutive: they finish together, while their sums are still in the L2 cache.
        way = context.variable("way", context.ways)
        tile = context.variable("tile", simplest(minimum(tiles, MAX_GRID)))
        lets += [Let(way, item % context.ways), Let(tile, item // context.ways)]
        context.way = way
    context.tile = _of_blocks(tile, size)
    ahead = Ahead(link.stages, trip, trips, link.link) if link.stages and state.progress is not None else None
    head: tuple[()] | tuple[Draw, Leave] = ()
    if drawn:
        _refuse_draws(link, size, stagger)
        head = _draw(link, item, trip, first, units, total, context)
        lets[0] = Let(item, head[0].var)
    else:
        context.following = lt(first + (trip + 1) * step, total), {trip: trip + 1}
    if opened:
        index = permuted(link, tile, simplest(tiles))
        body = _needed(tuple(lets), _group_tile(link, opened, order, rest, context, index, "tile"))
    else:
        body = _work(link, parts, order, rest, evolve(state, ahead=ahead), context, tile, tuple(lets))
    loop = For(trip, trips, (*head, *body), kind="items", drawn=drawn)
    if stagger > 1:  # what fills rings fills them for all units
        lead = rewrite(
            fills(body), lambda s: Let(item, unit + trip * units) if isinstance(s, Let) and s.var == item else s
        )
        return (filled((For(trip, _visits(unit, units, total), lead, kind="items"),), link.link), *computes((loop,)))
    return (loop,) if ahead is None else ahead.around(loop)


def _draw(
    link: Tile, item: Var, trip: Var, first: Expr, units: Expr, total: Expr, context: Context
) -> tuple[Draw, Leave]:
    """Draw the trip's work item, and end the loop where none is left."""
    counter = View(workspace("drawn", i32, 1, context, zero=True), as_expr(0))
    held = staging(f"{item.name}_sh", i32, as_expr(1), context, link.link, turn=trip)
    context.storages[held.name].guarded = True
    context.draws = True
    var = context.variable(f"{item.name}_drawn", 2**31 - 1)
    draw = Draw(var, trip, first, units, as_expr(total), counter, View(held, as_expr(0)), link=link.link)
    return (draw, Leave(ge(var, total)))


def _refuse_draws(link: Tile, size: int, stagger: int) -> None:
    """Raise an error for drawn tiles where the next tile must be known, or several blocks or warpgroups share a tile.

    Raises:
        DecompositionError: `drawn-units`.
    """
    wrong = (
        (size > 1, "the blocks of a cluster share a tile, and each would draw one", "drop the cluster"),
        (stagger > 1, "staggered units take tiles in turn", "drop staggered()"),
        (link.stages > 0, "pipeline() loads the next tile, which is not drawn yet", "drop pipeline() below the tile"),
    )
    for found, why, fix in wrong:
        if found:
            raise DecompositionError(
                "drawn-units", f"share=drawn(): {why}", fix=f"{fix}, or drop share=drawn()", link=link.link
            )


def _visits(first: Expr, step: Expr, total: Expr) -> Expr:
    """Return the number of work items of a unit that begins with item `first` and takes every `step`-th of `total`."""
    if proves(lt(first, total)):
        return ceil_div(total - first, step)
    return maximum(total - first + step - 1, 0) // step


def _work(
    link: Tile,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
    tile: Expr,
    lets: tuple[Let, ...],
) -> Body:
    """Lower one trip of a persistent unit, with the definitions that it needs."""
    index = permuted(link, tile, simplest(trips_of(parts)))
    defined, numbers = _let(tile_numbers(index, parts, order), "tile", parts, context)
    if state.ahead is not None:
        state.ahead.lets += [let for let in (*lets, *defined) if isinstance(let, Let)]
    if context.following is not None:
        for let in (*lets, *defined):
            if isinstance(let, Let):
                context.following[1][let.var] = substitute(let.value, context.following[1])
    inside = descend(state, parts, numbers, link.level)
    body = _needed(lets, (*defined, *lower_links(rest, inside, context)))
    return (Region(str(inside.residual), body, state.path, link.link),)


def _needed(lets: tuple[Let, ...], body: Body) -> Body:
    """Put definitions before their uses; a role gets only the definitions that it needs."""
    for let in reversed(lets):
        body = (let, *body) if mentions(body, let.var) else body
    return body


def _let(
    numbers: dict[str, Expr], prefix: str, parts: dict[str, Cut], context: Context
) -> tuple[Body, dict[str, Expr]]:
    """Define a tile's number along each dimension at this place."""
    named = {dim: context.variable(f"{prefix}_{dim.lower()}", parts[dim].trips) for dim in numbers}
    return tuple(Let(named[dim], number) for dim, number in numbers.items()), dict[str, Expr](named)


def _group_tile(
    link: Tile,
    opened: OpenGroups,
    order: TileOrder,
    rest: Tree,
    context: Context,
    item: Expr,
    prefix: str,
) -> Body:
    """Find the group of a work item, and the item's tile in the group; items beyond the last group have no tile."""
    inner = {dim: part for dim, part in opened.parts.items() if dim != BATCH}
    place = context.variable(f"{opened.groups.name}_item", simplest(minimum(opened.groups.most, MAX_GRID)))
    lets, numbers = _let(tile_numbers(place, inner, order), prefix, inner, context)
    inside = descend(opened.state, opened.parts, opened.numbers(numbers), link.level)
    body = (Let(place, item - opened.groups.first), *lets, *lower_links(rest, inside, context))
    region = Region(str(inside.residual), body, opened.state.path, link.link)
    return (opened.find(item, context), If(opened.groups.found, (region,)))


def _stream_loop(
    link: Tile,
    share: StreamK,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
    unit: Expr,
    size: int,
) -> Body:
    """Make the loop in which each launched unit computes its share of all tiles' chunks of K."""
    if share.units is None:
        share = StreamK(native(context.arch).gpu.sms * max(1, link.resident) // size)
    assert share.units is not None
    split = shared_split(share, rest, link)
    tiles, chunks = trips_of(parts), chunks_of(split, _known(state.residual.extents["K"]))
    most = minimum(tiles * chunks, share.units)
    context.grid, context.seats = most * size, simplest(most * size)
    unit = Var(BLOCK, context.seats) // size
    units = Var(BLOCKS, simplest(most * size) + 1, size) // size
    mine = share_out(split, tiles, chunks, unit, units, size, context)
    context.stream, context.tile = mine.stream, _of_blocks(mine.tile, size)
    body = _work(link, parts, order, rest, state, context, mine.tile, mine.item)
    return (*mine.head, For(mine.trip, mine.trips, body, kind="items"))


def _cluster_tile(
    link: Tile,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
) -> Body:
    rank: Expr = Var(RANK, context.cluster) if context.cluster > 1 else as_expr(0)
    if order is not RowMajor or link.permute is not None:
        raise DecompositionError(
            "cluster-blocks", "the blocks of a cluster count its tiles row by row", fix="drop layout() and permute()"
        )
    context.resident = max(context.resident, link.resident)
    numbers = tile_numbers(rank, parts, order)
    for dim, part in parts.items():
        assert isinstance(part.trips, int)
        context.ranks[dim] = (part.trips, numbers[dim])
    inside = descend(state, parts, numbers, link.level)
    body = lower_links(rest, inside, context)
    return (Region(str(inside.residual), body, state.path, link.link),)


def _unit_tile(
    link: Tile,
    parts: dict[str, Cut],
    order: TileOrder,
    rest: Tree,
    state: State,
    context: Context,
) -> Body:
    level = link.level
    assert level is not None
    total = simplest(trips_of(parts))
    if not isinstance(total, int):
        raise DecompositionError(
            "symbolic-tiles",
            f"{total} tiles cannot be mapped to {level}: the count is not known",
            fix="tile to Block first",
        )
    units = units_of(level, state, context, total, link.units)
    if link.staggered > 1:  # all units run this, each in its own trip of the persistent loop
        if not context.persistent:
            raise DecompositionError(
                "staggered-units",
                f"staggered({link.staggered}) shares out the trips of a persistent loop, and there is none",
                fix="refine the grid's tile by .persistent()",
            )
        if not context.loaders:
            raise DecompositionError(
                "staggered-units",
                f"staggered({link.staggered}) lets units compute different tiles at a time, and the loads above "
                "belong to all of them",
                fix="give the loads to a role of their own: split(k).pipeline(n).specialize() above",
            )
        inside = descend(state, parts, {dim: as_expr(0) for dim in parts}, level)
        inside = evolve(inside, position=units.position, width=units.width)
        return (Region(str(inside.residual), lower_links(rest, inside, context), state.path, link.link),)
    word = "lane" if level.size == 1 and state.width == WARP_WIDTH else level.name.lower()
    unit = context.define(word, units.index, units.present)
    index = permuted(link, unit, units.count) if units.count > 1 else as_expr(0)
    trips = -(-total // units.count)
    loops = state.loops
    var: Var | None = None
    if trips > 1:
        var = context.variable("r", trips)
        index = index + var * units.count
        loops = (*loops, RegisterLoop(var, as_expr(trips), link.unrolled or trips <= 32, link.link))
    numbers = named(tile_numbers(index, parts, order), word, parts, context)
    present = lt(index, total)
    if units.count < units.present:
        present = and_(lt(unit, units.count), present)
    guards = state.guards if proves(present) else (*state.guards, present)
    inside = descend(evolve(state, loops=loops, guards=guards), parts, numbers, level)
    inside = evolve(inside, position=units.position, width=units.width)
    if context.loaders and state.level.name == Block.name and var is None:
        context.busy = reached(inside)
        if context.busy is not None:  # a unit without work stores zeros, under predicates that are never true
            state.windows["C"].storage.seeded = True
    body = lower_links(rest, inside, context)
    if state.residual.kind == "MatMul":
        body = (Region(str(inside.residual), body, state.path, link.link),)
    if not proves(present):
        zeroed = loaded_or_zero(body, present, context) if state.residual.kind == "Move" else None
        body = (If(present, body),) if zeroed is None else zeroed
    if var is not None:
        body = (For(var, as_expr(trips), body, loops[-1].unrolled, kind="turns"),)
    return body
