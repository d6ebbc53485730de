"""Adding partial sums of blocks before the epilog; each block then finishes a share of the tile.

The blocks form a cluster and read each other's shared memory (`cluster.py`), or all blocks of the grid run at once and
read the workspace (`together.py`).
"""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import Expr, as_expr, lt, minimum
from fireiron.kernel.ir.statements import If, Region
from fireiron.kernel.lower.context import Body, Context, State, descend
from fireiron.kernel.lower.folds import cluster, together
from fireiron.kernel.lower.folds.shares import divide
from fireiron.kernel.lower.folds.together import refuse_apart
from fireiron.kernel.lower.parallel import numbered
from fireiron.kernel.lower.storage import fresh_window, register_storage
from fireiron.kernel.lower.window import Partial, Storage, Window, cut
from fireiron.language.decompositions import ByCluster, Epilog, InOrder
from fireiron.language.levels import Block


@attrs.frozen
class Meeting:
    """Hold the result of adding the sums of several blocks.

    Args:
        windows: the sums of this block's part, of each product.
        outputs: the part in each output of the residual spec.
        inside: the lowering state of the part.
        state: the lowering state above the epilog.
        head: statements that all blocks execute, before those that finish a part.
        own: statements that add the sums of this block's part, where `head` does not add them.
        busy: the condition that a block has a part; None if all blocks have one.
    """

    windows: tuple[Window, ...]
    outputs: tuple[Window, ...]
    inside: State
    state: State
    head: Body = ()
    own: Body = ()
    busy: Expr | None = None

    def around(self, finish: Body) -> Body:
        """Put the statements of the sum before those that finish a part."""
        rest = (*self.own, *finish)
        return (*self.head, *(rest if self.busy is None else (If(self.busy, rest),)))


def meet(
    windows: tuple[Window, ...], parts: list[Partial], outputs: tuple[Window, ...], inside: State, state: State,
    link: Epilog, context: Context,
) -> Meeting:  # fmt: skip
    """Add the sums of blocks that each finish a share of a tile, if a parallel split's `reduce` says so.

    Args:
        windows: this block's sums, of each product.
        parts: the units that hold sums of the same elements.
        outputs: the tile in each output of the residual spec.
        inside: the lowering state of the tile.
        state: the lowering state above the epilog.
        link: the epilog.
        context: the kernel's facts.

    Raises:
        DecompositionError: `parallel-cluster` where the threads of a block are no whole warps; `parallel-shares` where
            blocks of the grid cannot meet.
    """
    partial = next((x for x in parts if x.shared and x.ways != 1), None)
    if partial is None:
        return Meeting(windows, outputs, inside, state)
    storage, output, rank = windows[0].storage, outputs[0], partial.way
    grid = isinstance(partial.reduce, InOrder)
    if grid:
        refuse_apart(partial.ways, context, partial.link)
    assert isinstance(partial.ways, int) and storage.ownership is not None
    shares = partial.reduce.shares if isinstance(partial.reduce, ByCluster) else None
    most = min(partial.ways, shares or partial.ways)
    # Ops that fold rows need whole rows.
    rows = any(beside.fold is not None for beside in link.outputs)
    share = divide(storage.ownership, output, 1 if rows else most, context)
    if share.count > 1:
        parts_of = {share.dim: cut(share.size, share.size * share.count)}
        # Blocks beyond the last part have no part, and skip this code.
        numbers = {share.dim: rank if share.count == partial.ways else minimum(rank, share.count - 1)}
        state, inside = (descend(x, parts_of, numbers) for x in (state, inside))
        outputs = tuple(state.windows[o.role] for o in state.residual.playing("C"))
        output = outputs[0]
    results: list[Storage] = []
    for held in windows:
        name = f"{held.storage.name}_sum" if len(windows) > 1 else "sum"
        result = register_storage(name, output, storage.memory, storage.dtype, state, context, storage.link)
        result.ownership, result.size = share.ownership, as_expr(share.ownership.size)
        results.append(result)
    own: Body = ()
    if grid:
        (result,) = results
        head, own = together.exchange(storage, result, share, partial, context)
    else:
        number, count = numbered(inside.loops)
        parity = (context.trip * count + number) % 2
        sums = [(held.storage, result) for held, result in zip(windows, results, strict=True)]
        head = cluster.exchange(sums, share, partial, parity, context)
    title = f"Reduce({partial.ways})({storage.memory})({f'{Block}s, a share each' if grid else 'Cluster'})"
    busy = None if share.count == partial.ways else lt(rank, share.count)
    region = Region(title, head, partial.path, partial.link, "fold", storage.name)
    if own:
        title = f"Reduce: a share of the sum of {partial.ways} {Block}s"
        own = (Region(title, own, partial.path, partial.link, "fold", results[0].name),)
    added = tuple(fresh_window(result, output) for result in results)
    return Meeting(added, outputs, inside, state, (region,), own, busy)
