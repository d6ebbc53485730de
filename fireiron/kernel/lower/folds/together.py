"""Sums of blocks that all run at once: each writes its sums to the workspace, waits for the others, and adds a share.

Threads of equal index hold the same elements in all blocks, so sums are stored by register and thread. Every block
reads its share of the sums of all ways, in their order: the same bits in every run.
"""

from __future__ import annotations

from math import gcd

from fireiron.algebra.dtypes import i32
from fireiron.algebra.expr import Expr, Index, as_expr, as_int
from fireiron.algebra.scalar import Arg, Binary
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import Call, Compute, Meet, View
from fireiron.kernel.lower.context import Body, Context, buffer_of
from fireiron.kernel.lower.folds.shares import Share
from fireiron.kernel.lower.folds.workspace import workspace
from fireiron.kernel.lower.registers import fill, handed_over, loop, move, temporary, vector
from fireiron.kernel.lower.window import Partial, Storage
from fireiron.language.levels import GL, RF

MOST_AT_ONCE = 64  # registers of other ways' sums that a thread loads before it adds any


def refuse_apart(ways: Index, context: Context, link: Link | None) -> None:
    """Raise an error for blocks that cannot all run at once, or whose number is not known.

    Raises:
        DecompositionError: `parallel-shares`.
    """
    why, fix = "", ""
    if not isinstance(ways, int):
        why, fix = f"their number, {ways}, is not known", "write split(ways=n, multiple_of=...)"
    elif context.persistent:
        why, fix = "persistent blocks take one tile after another", "drop persistent()"
    if why:
        raise DecompositionError(
            "parallel-shares",
            f"blocks that each add a share of a tile wait for each other, and {why}",
            fix=f"{fix}, or drop shared=True",
            link=link,
        )


def exchange(storage: Storage, result: Storage, share: Share, partial: Partial, context: Context) -> tuple[Body, Body]:
    """Return the statements that write a block's sums and wait for the others, and those that add the block's part."""
    ways, way, dtype, link = partial.ways, partial.way, storage.dtype, partial.link
    size, units = as_int(storage.size), context.staggered
    assert isinstance(ways, int) and size is not None
    threads = (context.threads or 1) // units
    thread = context.thread if units == 1 else context.thread % threads
    count = handed_over(storage, gcd(size, share.run, share.ownership.size, share.stride))
    sums = workspace("partial", dtype, as_expr(partial.seats) * ways * (size * threads), context)
    counter = View(workspace("arrived", i32, partial.seats, context, zero=True), partial.seat)
    vectors = share.ownership.size // count
    batch = max(1, min(ways, MOST_AT_ONCE // share.ownership.size))
    held, summed = buffer_of(storage), buffer_of(result)
    read = temporary(f"{storage.name}_read", dtype, batch * share.ownership.size, context)
    total = Binary("add", Arg(0, dtype), Arg(1, dtype))
    put, take = move(RF, GL, dtype, count), move(GL, RF, dtype, count)

    def part(of: Expr, register: Expr) -> View:
        place = ((partial.seat * ways + of) * size + register) * threads + thread * count
        return vector(sums, place, count)

    def write(i: Expr) -> Body:
        return (Call(put, (vector(held, i * count, count), part(way, i * count)), link=link),)

    def several(first: Expr, number: int) -> Body:
        def ask(w: Expr) -> Body:
            def one(i: Expr) -> Body:
                register = way * share.stride + as_expr(share.steps(i * count))
                into = vector(read, (w * vectors + i) * count, count)
                return (Call(take, (part(first + w, register), into), link=link),)

            return loop(context, "i", vectors, one)

        def one(r: Expr) -> Body:
            register = View(summed, r)
            return loop(context, "w", number, lambda w: (
                Compute(register, total, (register, View(read, w * share.ownership.size + r)), link=link),
            ))  # fmt: skip

        return (*loop(context, "w", number, ask), *loop(context, "r", share.ownership.size, one))

    rounds, rest = divmod(ways, batch)
    body: Body = (
        fill(result, 0, context),
        *loop(context, "w", rounds, lambda w: several(w * batch, batch), unroll=False, kind="sums"),
        *(several(as_expr(rounds * batch), rest) if rest else ()),
    )
    return (*loop(context, "i", size // count, write), Meet(counter, as_expr(ways), context.owner, link)), body
