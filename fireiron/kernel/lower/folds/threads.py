"""Combining a fold's parts inside a cluster, in this order: lanes of a warp, warps of a block, blocks of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

import attrs

from fireiron.kernel.ir.statements import Call, Compute, Region, Statement, walk
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.folds.cluster import in_cluster, over_cluster, over_warps_of_cluster
from fireiron.kernel.lower.folds.lanes import over_lanes
from fireiron.kernel.lower.folds.lists import over_lists
from fireiron.kernel.lower.folds.places import tabulated
from fireiron.kernel.lower.folds.shared import over_warps
from fireiron.kernel.lower.folds.state import Open, known
from fireiron.language.levels import SH


def close(opened: Open, state: State, context: Context) -> Body:
    """Combine the parts that the threads of a block or a cluster hold; `finish` computes the outputs."""
    known(opened)
    if context.threads is None or not opened.places or opened.whole:
        return ()
    table = tabulated(opened, context.threads, context)
    if opened.ranked is not None:
        return over_lists(opened, opened.ranked, table, state, context)
    if context.at_once and table.one_a_warp and in_cluster(opened, context):
        return (*over_lanes(opened, table, context), *over_warps_of_cluster(opened, table, state, context))
    return (
        *over_lanes(opened, table, context),
        *over_warps(opened, table, state, context),
        *over_cluster(opened, table, state, context),
    )


def side_by_side(closings: Sequence[Body]) -> Body:
    """Order the statements that close several folds by carrier: all writes to shared memory, then all reads.

    The barrier between the first write and its read then stands between all writes and all reads. Example: two folds
    over the warps of a block meet at one barrier.
    """
    stages: list[list[Body]] = []
    for body in closings:
        mine: list[Body] = [()]
        for statement in body:
            if not isinstance(statement, Region):
                mine[-1] += (statement,)
                continue
            count = next((i for i, x in enumerate(statement.body) if not _writes_shared(x)), len(statement.body))
            left, rest = statement.body[:count], statement.body[count:]
            mine[-1] += (attrs.evolve(statement, body=left),)
            mine.append((attrs.evolve(statement, body=rest, title=f"{statement.title}, read"),))
        stages.append(mine)
    return tuple(chain.from_iterable(chain.from_iterable(zip_longest(*stages, fillvalue=()))))


def _writes_shared(statement: Statement) -> bool:
    found = walk((statement,))
    return any(
        (isinstance(s, Compute) and s.dst.buffer.memory == SH)
        or (isinstance(s, Call) and s.views[-1].buffer.memory == SH)
        for s in found
    )
