"""Running results over blocks: a block adds the results of the blocks before it in the row to its own.

Blocks of a cluster read each other's sums of a row in distributed shared memory. Blocks of the grid pass sums on: each
block waits for the sum of the blocks before it, adds its own sum, stores the result to the workspace, and sets a flag.
A block only waits for blocks with lower numbers, so blocks that start in order never wait for a block that has not
started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import Expr, Var, as_expr, eq, gt, lt, proves, simplest
from fireiron.algebra.scalar import Arg
from fireiron.atoms.table import load_of_peer
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import RANK, THREAD, Buffer, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, State
from fireiron.kernel.lower.folds.places import LANES
from fireiron.kernel.lower.folds.shared import staging
from fireiron.kernel.lower.folds.workspace import workspace
from fireiron.kernel.lower.parallel import numbered
from fireiron.kernel.lower.registers import loop, move, temporary
from fireiron.kernel.passes.handed import Handed
from fireiron.language.levels import GL, RF

if TYPE_CHECKING:
    from fireiron.kernel.lower.scans import Scan


def over_cluster(scan: Scan, whole: Sequence[Buffer], blocks: int) -> Body:
    """Combine the points of each row with the sums of the blocks of the cluster ahead of this one.

    Args:
        scan: the scan of this block.
        whole: this block's sums, one register for each row.
        blocks: number of blocks of the cluster; their ranks are in the order of their parts.
    """
    context, order, link = scan.context, scan.order, scan.link
    rows = order.rows[0]
    size = as_expr(order.groups * rows * LANES)
    shared = [staging(f"{b.name}_cluster", b.dtype, size, context, link) for b in whole]
    front = [temporary("front", b.dtype, rows, context) for b in whole]
    other = [View(temporary("other", b.dtype, 1, context), as_expr(0)) for b in whole]

    def place(row: Expr) -> Expr:
        return (order.group * rows + row) * LANES + Var(THREAD, context.threads) % LANES

    def put(row: Expr) -> Body:
        return tuple(
            Compute(View(to, place(row)), Arg(0, to.dtype), (View(b, row),), link=link)
            for to, b in zip(shared, whole, strict=True)
        )

    def of_block(row: Expr, peer: Expr) -> Body:
        taken = tuple(
            Call(load_of_peer(source.dtype), (View(source, place(row), peer=peer), to), link=link)
            for to, source in zip(other, shared, strict=True)
        )
        held = [View(b, row) for b in front]
        return (*taken, *scan.join(held, held, other, lt(peer, Var(RANK, blocks))))

    left = loop(context, "row", rows, put)
    first = eq(order.seat, 0)
    read = loop(context, "row", rows, lambda q: loop(context, "peer", blocks, lambda peer: of_block(q, peer)))
    body: Body = (
        *(left if proves(first) else (If(first, left),)),
        *loop(context, "row", rows, lambda q: scan.nothing([View(b, q) for b in front])),
        *read,
        *scan.behind(front),
    )
    return (Region(f"{scan.step.name} over {blocks} blocks of a cluster", body, scan.path, link),)


def over_grid(scan: Scan, whole: Sequence[Buffer], state: State) -> Body:
    """Combine the points of each row with the sum of all blocks of the grid ahead of this one, and pass the sum on.

    Args:
        scan: the scan of this block.
        whole: this block's sums, one register for each row; the sums of the blocks before it are added to them.
        state: the lowering state.

    Raises:
        DecompositionError: `scan-blocks` where blocks are persistent: a block might wait for one that has not started.
    """
    context, order, link = scan.context, scan.order, scan.link
    if context.persistent:
        raise DecompositionError(
            "scan-blocks",
            f"step {scan.step.name} keeps running results, and persistent blocks would wait for later ones",
            fix="drop persistent(), or let a cluster have the row: parallel(Block, reduce=by_cluster())",
            link=link,
        )
    rows, number, count = order.rows[0], *numbered(state.loops)
    seat, ways = context.tile * count + number, context.ways
    seats = simplest(as_expr(context.tiles) * count * ways)
    size = as_expr(seats) * (order.groups * rows * LANES)
    sums = [workspace(f"{b.name}_parts", b.dtype, size, context) for b in whole]
    for buffer in sums:
        flags = workspace("handed", i32, seats, context, zero=True)
        context.handed.append(Handed(buffer.name, flags, context.owner, link))
    front = [temporary("front", b.dtype, rows, context) for b in whole]
    lane = Var(THREAD, context.threads) % LANES

    writer = None if proves(eq(order.seat, 0)) else eq(order.seat, 0)

    def part(buffer: Buffer, way: Expr, row: Expr) -> View:
        place = seat * ways + way
        return View(buffer, ((place * order.groups + order.group) * rows + row) * LANES + lane, slot=place)

    def take(buffer: Buffer, to: Buffer) -> Body:
        get = move(GL, RF, to.dtype, 1)
        return loop(
            context, "row", rows,
            lambda q: (Call(get, (part(buffer, context.way - 1, q), View(to, q)), link=link),),
        )  # fmt: skip

    def leave(buffer: Buffer, mine: Buffer) -> Body:
        put = move(RF, GL, mine.dtype, 1)
        return loop(
            context, "row", rows,
            lambda q: (Call(put, (View(mine, q), part(buffer, context.way, q)), write=writer, link=link),),
        )  # fmt: skip

    def ahead(row: Expr) -> Body:
        held = [View(b, row) for b in whole]
        return scan.join(held, [View(b, row) for b in front], held)

    taken = tuple(x for buffer, to in zip(sums, front, strict=True) for x in take(buffer, to))
    passed = tuple(x for buffer, mine in zip(sums, whole, strict=True) for x in leave(buffer, mine))
    body: Body = (
        *loop(context, "row", rows, lambda q: scan.nothing([View(b, q) for b in front])),
        If(gt(context.way, 0), taken),
        *loop(context, "row", rows, ahead),
        If(lt(context.way, as_expr(ways) - 1), passed),
        *scan.behind(front),
    )
    return (Region(f"{scan.step.name} over {ways} blocks, one after the other", body, scan.path, link),)
