"""Lists of warps that rank points (topk), combined over the warps of a block and the blocks of a cluster.

A warp that holds a list has one point a lane, and writes one point a lane to shared memory: its own block's, or that of
all blocks of the cluster. Each warp then reads all lists and merges them (`folds/ranked.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.expr import Expr, Var, as_expr, eq, lt, proves
from fireiron.algebra.scalar import Arg
from fireiron.atoms.table import send
from fireiron.kernel.ir.statements import RANK, Buffer, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.folds.cluster import in_cluster, over_cluster, signal_of, trip_of
from fireiron.kernel.lower.folds.lanes import over_lanes
from fireiron.kernel.lower.folds.places import LANES, Table, seated
from fireiron.kernel.lower.folds.ranked import Ranked
from fireiron.kernel.lower.folds.shared import in_turn, over_warps, staging, turn_of
from fireiron.kernel.lower.folds.state import Open, joined
from fireiron.kernel.lower.registers import loop, temporary


def over_lists(opened: Open, kept: Ranked, table: Table, state: State, context: Context) -> Body:
    """Merge the lists of the warps of a block or a cluster, and copy the result to the fold's state in every lane."""
    held = [View(buffer_of(s), as_expr(0)) for s in opened.storages]
    lists = (*_over_warps(opened, kept, table, state, context), *_over_cluster(opened, kept, table, state, context))
    if not opened.beside:
        return (*lists, *kept.spread(held))
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]
    return (
        *over_lanes(opened, table, context),
        *over_warps(opened, table, state, context),
        *over_cluster(opened, table, state, context),
        *lists,
        *kept.spread(others),
        *joined(opened, held, others, context),
    )


def _over_warps(opened: Open, kept: Ranked, table: Table, state: State, context: Context) -> Body:
    """Merge the lists of the warps of a block, each of which reads all lists of its group."""
    groups, ways, group, seat = seated(opened, table)
    if ways == 1:
        return ()
    count, turn = kept.ranking.count, turn_of(opened, context)
    total = as_expr(groups * ways * count)
    shared = [staging(f"{v.buffer.name}_sh", v.buffer.dtype, total, context, opened.link, turn) for v in kept.mine]
    place = (group * ways + seat) * count + kept.lane
    left = tuple(
        Compute(in_turn(to, place, turn), Arg(0, to.dtype), (view,), link=opened.link)
        for to, view in zip(shared, kept.mine, strict=True)
    )
    read = kept.gathered(ways, lambda i: _at(shared, group * (ways * count) + i, turn))
    title = f"{opened.step.name} over {ways} warps"
    return (Region(title, (If(lt(kept.lane, count), left), *read), state.path, opened.link),)


def _over_cluster(opened: Open, kept: Ranked, table: Table, state: State, context: Context) -> Body:
    """Merge the lists of a cluster's blocks: the first warp of each group sends its list to all blocks.

    A warp has as many lanes as several lists have points: each of these lanes sends a point to another block.
    """
    if not in_cluster(opened, context):
        return ()
    groups, _, group, seat = seated(opened, table)
    count, turn, ways = kept.ranking.count, trip_of(opened, context), context.joined
    total = as_expr(groups * ways * count)
    buffers: list[Buffer] = []
    for view in kept.mine:
        staged = staging(f"{view.buffer.name}_cluster", view.buffer.dtype, total, context, opened.link, turn)
        context.storages[staged.name].guarded = True
        buffers.append(buffer_of(context.storages[staged.name]))
    signal, at_once = signal_of(buffers, turn, opened.link, context), LANES // count
    place = (group * ways + Var(RANK, ways)) * count + kept.lane % count

    def to(number: Expr) -> Body:
        peer = number * at_once + kept.lane // count
        there = lt(peer, ways)
        sent = tuple(
            Call(send(into.dtype), (view, in_turn(into, place, turn, peer)), signal=signal, link=opened.link)
            for into, view in zip(buffers, kept.mine, strict=True)
        )
        return sent if proves(there) else (If(there, sent),)

    copied = kept.repeated()
    sent = loop(context, "peer", -(-ways // at_once), to)
    read = kept.gathered(ways, lambda i: _at(buffers, group * (ways * count) + i, turn))
    title = f"{opened.step.name} over {ways} blocks of a cluster"
    body = (*copied, *(sent if proves(eq(seat, 0)) else (If(eq(seat, 0), sent),)), *read)
    return (Region(title, body, state.path, opened.link),)


def _at(buffers: Sequence[Buffer], place: Expr, turn: Expr | None) -> list[View]:
    return [in_turn(buffer, place, turn) for buffer in buffers]
