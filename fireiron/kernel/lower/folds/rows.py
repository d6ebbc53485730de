"""Sums and maxima of the rows of an epilog's value: threads fold their elements, then combine them in shared memory.

Each thread writes one value for each of its rows to shared memory. One thread for each row folds the values of all
threads that hold parts of the row, in a fixed order, so every run gives the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, and_, as_expr, evaluate, free, lt, proves, substitute
from fireiron.algebra.scalar import Arg, as_type, number
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import THREAD, Compute, For, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.pointwise import swapped, visit
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.lower.storage import tensor_window
from fireiron.kernel.lower.window import Storage, Window
from fireiron.language.decompositions import Output
from fireiron.language.folds import Fold
from fireiron.language.levels import SH, Block, Warpgroup
from fireiron.language.tensor import Tensor

SAID = {"add": "sum", "max": "maximum"}  # names of folds in titles


def lower_rows(
    out: Output, window: Window, output: Window, state: State, context: Context, link: Link | None
) -> Region:
    """Fold each row of the tile, and store the results.

    Args:
        out: the fold, and the tensor of one value for each row and tile of columns.
        window: the register tensor with the tile's elements.
        output: the tile's window in C.
        state: the lowering state.
        context: the kernel's facts.
        link: the epilog.

    Raises:
        DecompositionError: `epilog-rows` where threads hold irregular parts of rows.
    """
    fold, held = out.fold, window.storage
    assert fold is not None and fold.plain is not None and context.threads is not None
    assert held.ownership is not None
    held.ownership.agree("", held.name, f"row_{'sum' if fold.name == 'add' else fold.name}()")
    dtype, rank = held.dtype, len(output.axes)
    across = rank - 2 if swapped(context) else rank - 1
    down = rank - 1 if swapped(context) else rank - 2
    if output.axes[across].steps is not None:
        raise DecompositionError(
            "epilog-rows",
            f"a Strided tile above leaves {output.axes[across].dim} in chunks, so a row of {held.name} is no run",
            fix="tile(rows, cols) above the epilog, without Strided(...) along the columns",
            link=link,
        )
    walk = visit(held.ownership, output, context)
    mine = [loop for loop in walk.loops if loop[0] in free(walk.place[down])]
    if any(loop[0] in free(walk.place[across]) for loop in mine):
        raise _irregular(held, link)
    count = math.prod(extent for _, extent in mine)
    index = as_expr(0)
    for var, extent in mine:
        index = index * extent + var
    part = temporary("rows", dtype, count, context)
    first = number(fold.identity[0], dtype)
    mask = None if proves(walk.condition) else walk.condition
    i = context.variable("i", count)
    into = View(part, index)
    element = View(buffer_of(held), walk.register, origin=walk.coordinates)
    body: Body = (
        For(i, as_expr(count), (Compute(View(part, i), first, link=link),), unroll=True),
        *walk.around((Compute(into, fold.combine[0], (into, element), mask, link),)),
    )
    units = context.staggered
    threads = context.threads // units
    thread = context.thread if units == 1 else context.thread % threads
    who, most = _seats(down, threads, thread, held, link)
    lines = output.axes[down].size
    assert isinstance(lines, int)
    shared = Storage(
        context.name(f"{held.name}_rows"), SH, dtype, (lines * most,), (1,), as_expr(lines * most),
        Block if units == 1 else Warpgroup, link=link,
    )  # fmt: skip
    base = as_expr(0)
    if units > 1:
        shared.copies, shared.copy = units, context.thread // threads
        base = shared.copy * (lines * most)
    context.storages[shared.name] = shared
    seats = View(buffer_of(shared), base)
    row = substitute(walk.place[down], {var: as_expr(0) for var, extent in walk.loops if (var, extent) not in mine})
    leave: Body = (
        Compute(attrs.evolve(seats, offset=base + row * most + who), Arg(0, dtype), (View(part, index),), link=link),
    )
    inside = and_(lt(row, lines), *held.ownership.written.guards)
    leave = leave if proves(inside) else (If(inside, leave),)
    for var, extent in reversed(mine):
        leave = (For(var, as_expr(extent), leave, unroll=True),)
    body += leave
    body += _collect(out.tensor, fold, seats, lines, most, threads, output, down, across, state, context, link)
    title = f"Rows by {SAID.get(fold.name, fold.name)} to {out.tensor.name}"
    return Region(title, body, state.path, link, "fold", out.tensor.name)


def _collect(
    tensor: Tensor,
    fold: Fold,
    seats: View,
    lines: int,
    most: int,
    threads: int,
    output: Window,
    down: int,
    across: int,
    state: State,
    context: Context,
    link: Link | None,
) -> Body:
    """Make one thread per row fold the values of the row's threads, in the threads' order, and store the result.

    Args:
        tensor: the tensor of results.
        fold: the fold of the rows.
        seats: view of the first value of the tile's first row in shared memory.
        lines: number of rows of the tile.
        most: number of values of a row.
        threads: number of threads that fold.
        output: the tile's window.
        down: the axis along which rows are counted.
        across: the axis that is folded.
        state: the lowering state.
        context: the kernel's facts.
        link: the epilog.
    """
    dtype = seats.buffer.dtype
    total = View(temporary("total", dtype, 1, context), as_expr(0))
    trips = -(-lines // threads)
    trip = context.variable("r", trips) if trips > 1 else None
    row = context.thread % threads if threads != context.threads else context.thread
    row = row if trip is None else row + trip * threads
    axis, size = output.axes[down], output.axes[across].size
    assert isinstance(size, int)
    whole = (*(a.offset for a in output.axes[:-2]), axis.at(row), output.axes[across].offset // size)
    at = tuple(
        as_expr(0) if extent == 1 else c
        for c, extent in zip(whole[len(whole) - len(tensor.shape) :], tensor.shape, strict=True)
    )
    offset = as_expr(0)
    for c, stride in zip(at, tensor.strides, strict=True):
        offset = offset + c * stride
    target = View(buffer_of(tensor_window(tensor, state, context).storage), offset, origin=at)
    stored = as_type(Arg(0, dtype), tensor.dtype)
    body: Body = (Compute(total, Arg(0, dtype), (attrs.evolve(seats, offset=seats.offset + row * most),), link=link),)
    if most > 1:
        w = context.variable("w", most - 1)
        seat = attrs.evolve(seats, offset=seats.offset + row * most + w + 1)
        one = Compute(total, fold.combine[0], (total, seat), link=link)
        body += (For(w, as_expr(most - 1), (one,), unroll=True, kind="sums"),)
    body += (Compute(target, stored, (total,), link=link),)
    # A part of a tile may lie beyond the last column; its place in `tensor` then belongs to another tile.
    some = (b.holds(as_expr(0)) for b in output.axes[across].bounds)
    there = and_(lt(row, lines), *(b.holds(row) for b in axis.bounds), *(c for c in some if not proves(c)))
    body = body if proves(there) else (If(there, body),)
    return body if trip is None else (For(trip, as_expr(trips), body),)


def _seats(down: int, threads: int, thread: Expr, held: Storage, link: Link | None) -> tuple[Expr, int]:
    """Number the threads that hold parts of one row; return a thread's number, and the most threads of a row.

    Raises:
        DecompositionError: `epilog-rows` where the number is no function of bits of the thread's index.
    """
    assert held.ownership is not None
    access = held.ownership.access
    env: dict[str, Any] = {loop.var.name: 0 for loop in access.loops}
    env[THREAD] = np.arange(threads)

    def table(e: Expr) -> Any:
        return np.broadcast_to(np.asarray(evaluate(e, env)), (threads,))

    if any(leaf.name != THREAD for guard in access.guards for leaf in free(guard)):
        raise _irregular(held, link)
    there = np.logical_and.reduce([np.ones(threads, bool), *(table(guard) != 0 for guard in access.guards)])
    rows = table(access.coordinates[down])
    seats = np.zeros(threads, np.int64)
    for first in np.unique(rows[there]):
        members = np.flatnonzero(there & (rows == first))
        seats[members] = np.arange(len(members))
    who: Expr = as_expr(0)
    for bit in range((threads - 1).bit_length()):
        weight = int(seats[1 << bit])
        who = who + (thread >> bit & 1) * weight if weight else who
    if not np.array_equal(np.asarray(evaluate(who, {THREAD: np.arange(threads)}) + 0 * seats)[there], seats[there]):
        raise _irregular(held, link)
    return who, int(seats[there].max()) + 1


def _irregular(held: Storage, link: Link | None) -> DecompositionError:
    owner = held.ownership.owner if held.ownership is not None else "its schedule"
    return DecompositionError(
        "epilog-rows",
        f"{owner} gives threads irregular parts of the rows of {held.name}",
        fix="give threads rectangles of C, or reduce the rows in a kernel of its own",
        link=link,
    )
