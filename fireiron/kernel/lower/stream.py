"""Stream-K: each persistent unit computes an equal run of all tiles' chunks of K; partial sums of one tile are added.

A unit computes its tiles from the last to the first. The unit first computes its last tile, which a higher unit
finishes. The unit computes last the tile that lower units started: by then the lower units have written their partial
sums. A unit only waits for lower units, so blocks that start in order never wait for a block that has not started.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import (
    Expr,
    Index,
    Var,
    as_expr,
    as_int,
    eq,
    gt,
    lt,
    maximum,
    minimum,
    ne,
    not_,
    select,
    simplest,
)
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import RANK, Call, For, If, Let, Region, View
from fireiron.kernel.lower.context import Body, Context, Stream, buffer_of
from fireiron.kernel.lower.folds.workspace import workspace
from fireiron.kernel.lower.registers import add, handed_over, loop, move, temporary, vector
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import Window, cut_chunk
from fireiron.kernel.passes.handed import Handed
from fireiron.language.decompositions import Split, StreamK, Tile
from fireiron.language.levels import GL, RF


@attrs.frozen
class Share:
    """Hold a unit's share of all tiles' chunks.

    Args:
        head: definitions that all items of the unit share.
        trips: number of the unit's items.
        trip: number of an item.
        item: definitions of one item.
        tile: the tile of an item.
        stream: the chunks of the tile that the unit computes.
    """

    head: tuple[Let, ...]
    trips: Expr
    trip: Var
    item: tuple[Let, ...]
    tile: Expr
    stream: Stream


def shared_split(share: StreamK, rest: Tree, link: Tile) -> Split:
    """Find the split whose chunks are shared out: the first one.

    Raises:
        DecompositionError: `stream-split`.
    """
    split, staggered = rest.asked.split, rest.asked.staggered is not None
    if split is None or split.level is not None or split.unrolled or staggered:
        fact = (
            "no split follows"
            if split is None
            else f"the first split gives chunks to {split.level}s already"
            if split.level is not None
            else "the loop over them is unrolled, though their number differs from unit to unit"
            if split.unrolled
            else "units that take tiles in turn count on equal ones"
        )
        raise DecompositionError(
            "stream-split",
            f"stream_k({share.units}) shares out the chunks of the first split, and {fact}",
            fix="write split(k) as the first split, without unroll() on it and staggered() below it",
            link=link.link,
        )
    return split


def share_out(split: Split, tiles: Expr, chunks: Index, unit: Expr, units: Expr, size: int, context: Context) -> Share:
    """Cut the chunks of all tiles into a run for each unit.

    Full waves of tiles are not cut, except the last one before a partial wave. So a unit's run is longer than a tile,
    and few tiles have more than two parts.

    Args:
        split: the split that cuts K.
        tiles: number of tiles.
        chunks: number of chunks of a tile.
        unit: number of this unit, below `units`.
        size: number of blocks of a unit.
        context: the kernel's facts.
    """
    head: list[Let] = []
    item: list[Let] = []
    most = simplest(tiles * chunks + 1)

    def name(lets: list[Let], wanted: str, value: Expr, extent: Index) -> Var:
        var = context.variable(wanted, extent)
        lets.append(Let(var, value))
        return var

    waves = select(eq(tiles % units, 0), tiles // units, maximum(tiles // units - 1, 0))
    whole = name(head, "whole", waves, simplest(tiles + 1))
    parted = name(head, "parted", tiles - whole * units, simplest(tiles + 1))
    each = name(head, "each", parted * chunks // units, most)
    more = name(head, "more", parted * chunks % units, most)
    begin = name(head, "begin", unit * each + minimum(unit, more), most)
    end = name(head, "end", begin + each + select(lt(unit, more), 1, 0), most)
    highest = name(head, "highest", (maximum(end, 1) - 1) // chunks, simplest(tiles))
    parts = name(head, "parts", select(gt(end, begin), highest - begin // chunks + 1, 0), simplest(tiles + 1))
    trip = context.variable("trip", simplest(tiles))
    part = lt(trip, parts)
    tile = name(item, "tile", select(part, highest - trip, parted + unit + (trip - parts) * units), simplest(tiles))
    first = name(item, "first", select(part, maximum(begin - tile * chunks, 0), 0), simplest(as_expr(chunks)))
    stop = select(part, minimum(end - tile * chunks, chunks), chunks)
    count = name(item, "count", stop - first, simplest(as_expr(chunks) + 1))
    start, long = tile * chunks, more * (each + 1)
    lowest = select(lt(start, long), start // (each + 1), more + (start - long) // maximum(each, 1))
    stream = Stream(split, unit, first, count, eq(first + count, chunks), lowest, size)
    return Share(tuple(head), parts + whole, trip, tuple(item), tile, stream)


def chunks_of(split: Split, extent: Index) -> Index:
    """Count the chunks of a tile."""
    return cut_chunk(split.size, extent, split.ways).trips


def hand_on(window: Window, stream: Stream, finish: Body, link: Link | None, context: Context) -> Body:
    """Store this unit's partial sum of a tile that another unit finishes, or add the others' sums and finish the tile.

    Partial sums are added from the last to the first, in the same order in every run.

    Args:
        window: the accumulator.
        stream: this unit's part of the tile.
        finish: a function that lowers the use of the whole sum.
        link: the tile's link, with `share`.
        context: the kernel's facts.
    """
    storage, seats = window.storage, context.seats
    size, threads = as_int(storage.size), context.threads or 1
    assert size is not None
    count = handed_over(storage, size)
    sums = workspace("partial", storage.dtype, as_expr(seats) * (size * threads), context)
    flags = workspace("handed", i32, seats, context, zero=True)
    context.handed.append(Handed(sums.name, flags, context.owner, link))
    held, vec = buffer_of(storage), temporary(f"{storage.name}_part", storage.dtype, count, context)

    def part(unit: Expr, i: Expr) -> View:
        seat = unit if stream.size == 1 else unit * stream.size + Var(RANK, stream.size)
        place = seat * (size * threads) + (i * threads + context.thread) * count
        return attrs.evolve(vector(sums, place, count), slot=seat)

    def leave(i: Expr) -> Body:
        put = move(RF, GL, storage.dtype, count)
        return (Call(put, (vector(held, i * count, count), part(stream.unit, i)), link=link),)

    def take(w: Expr) -> Body:
        get, into = move(GL, RF, storage.dtype, count), vector(vec, as_expr(0), count)

        def one(i: Expr) -> Body:
            return (
                Call(get, (part(stream.unit - 1 - w, i), into), link=link),
                *add(held, i * count, vec, count, context),
            )

        return loop(context, "i", size // count, one)

    left = loop(context, "i", size // count, leave)
    w = context.variable("w", simplest(as_expr(seats)))
    others = For(w, stream.unit - stream.lowest, take(w), kind="sums")
    title = f"Reduce(stream-K)({storage.memory})"
    return (
        If(
            not_(stream.ends),
            (Region(f"{title}: leave the sum to the unit that ends the tile", left, "", link, "fold", sums.name),),
        ),
        If(
            stream.ends,
            (
                If(
                    ne(stream.first, 0),
                    (Region(f"{title}: add what other units left", (others,), "", link, "fold", storage.name),),
                ),
                *finish,
            ),
        ),
    )
