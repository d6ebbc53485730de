"""The carriers of a fold inside a cluster, in their order: lanes of a warp, warps of a block, blocks of a cluster."""

from __future__ import annotations

from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.folds.cluster import in_cluster, over_cluster, over_warps_of_cluster
from fireiron.kernel.lower.folds.lanes import over_lanes
from fireiron.kernel.lower.folds.places import tabulated
from fireiron.kernel.lower.folds.shared import over_warps
from fireiron.kernel.lower.folds.state import Open, known


def close(opened: Open, state: State, context: Context) -> Body:
    """Combine the parts that the threads of a block or a cluster hold; `finish` computes the outputs."""
    known(opened)
    if context.threads is None or not opened.places or opened.whole:
        return ()
    table = tabulated(opened, context.threads, context)
    if context.at_once and not context.loaders and table.one_a_warp and in_cluster(opened, context):
        return (*over_lanes(opened, table, context), *over_warps_of_cluster(opened, table, state, context))
    return (
        *over_lanes(opened, table, context),
        *over_warps(opened, table, state, context),
        *over_cluster(opened, table, state, context),
    )
