"""Reductions: partial sums of units, and of blocks, become one sum, of which every unit may hold a share.

Threads of one seat hold sums of the same elements in the same registers, whatever their way. So sums travel by register
and seat, in vectors that neighbouring threads write side by side; no coordinate or bound of C comes into it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, as_expr, as_int, eq, lt, ne
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Binary, Constant
from fireiron.atoms.table import matching
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import (
    Buffer,
    Call,
    Compute,
    For,
    If,
    LoopKind,
    Region,
    Statement,
    View,
)
from fireiron.kernel.lower.block_sum import Share, divide
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.storage import fresh_window, register_storage
from fireiron.kernel.lower.window import Partial, Storage, Window
from fireiron.kernel.lower.workspace import last_of, workspace
from fireiron.language.atom import Atom
from fireiron.language.decompositions import ByAtomics, ByCluster, ByTma, InOrder, Reduction
from fireiron.language.levels import GL, RF, SH, Block, Memory, Thread

VECTOR_NBYTES = 16
MOST_AT_ONCE = 64  # registers that one thread's partial sums are read to together
LEAST_STAGING = 16 << 10  # bytes through which sums go where the operands' buffers are smaller


def fill(storage: Storage, value: float, context: Context) -> Statement:
    """Set every register of a tensor."""
    r = context.variable("i", storage.size)
    return For(r, storage.size, (Compute(View(buffer_of(storage), r), _constant(value, storage.dtype)),), unroll=True)


def add_constant(storage: Storage, value: float, context: Context) -> Statement:
    """Add a number to every register of a tensor."""
    r = context.variable("i", storage.size)
    register = View(buffer_of(storage), r)
    total = Binary("add", Arg(0, storage.dtype), _constant(value, storage.dtype))
    return For(r, storage.size, (Compute(register, total, (register,)),), unroll=True)


def _constant(value: float, dtype: DType) -> Constant:
    return Constant(float(value) if dtype.kind == "float" else int(value), dtype)


def loop(
    context: Context,
    name: str,
    extent: Index,
    body: Callable[[Expr], Body],
    unroll: bool = True,
    kind: LoopKind = "elements",
) -> Body:
    """Repeat statements, without a loop where there is one pass."""
    if as_int(as_expr(extent)) == 1:
        return body(as_expr(0))
    var = context.variable(name, extent)
    return (For(var, as_expr(extent), body(var), unroll, kind=kind),)


def move(src: Memory, dst: Memory, dtype: DType, count: int) -> Atom:
    """Find the instruction that moves a vector; the table holds one for every width."""
    return matching("Move", (count,), (dtype, dtype), (src, dst), Thread)[0]


def vector(buffer: Buffer, offset: Expr, count: int) -> View:
    """View elements that lie together."""
    return View(buffer, offset, Layout(count, 1) if count > 1 else Layout(1, 0))


def temporary(name: str, storage: Storage, count: int, context: Context) -> Buffer:
    """Make registers that hold a few elements on their way."""
    buffer = Buffer(context.name(name), RF, storage.dtype, as_expr(count), unit=Thread)
    context.temporaries.append(buffer)
    return buffer


def widest(size: int, dtype: DType) -> int:
    """Count the elements of the widest vectors that a number of registers divides into."""
    return gcd(size, VECTOR_NBYTES // dtype.nbytes)


def gather(window: Window, state: State, context: Context) -> tuple[Window, Body]:
    """Add the partial sums of the units of a block; gives the window of the sum, of which each unit owns a share.

    Each unit writes the other units' shares of its partial sum to shared memory. It then adds their partial sums of its
    own share to its registers: its own partial sum first, then those of the units that follow it.

    Raises:
        DecompositionError: `opaque-fragment`, since a share is of known elements.
    """
    storage = window.storage
    partial = next((p for p in storage.partials if p.level != Block), None)
    if partial is None:
        return window, ()
    assert storage.ownership is not None and isinstance(partial.ways, int) and isinstance(partial.reduce, InOrder)
    try:
        storage.ownership.agree("", storage.name, f"the sum of {partial.ways} {partial.level}s")
    except DecompositionError as error:
        raise error.located(partial.link, partial.path) from None
    share = divide(storage.ownership, partial, context)
    result = register_storage("sum", window, storage.memory, storage.dtype, state, context, storage.link)
    result.ownership, result.size = share.ownership, as_expr(share.ownership.size)
    body = _exchange(storage, result, share, partial, context)
    title = f"Reduce({partial.ways})({storage.memory})({partial.level})"
    return fresh_window(result, window), (Region(title, body, partial.path, partial.link, "fold", result.name),)


def _exchange(storage: Storage, result: Storage, share: Share, partial: Partial, context: Context) -> Body:
    ways, seats, way, dtype = partial.ways, partial.seats, partial.way, storage.dtype
    assert isinstance(ways, int) and isinstance(seats, int)
    size = share.ownership.size
    count = widest(gcd(share.run, size), dtype)
    senders = share.portions * (ways - 1)
    panel = _panel(size, count, senders * seats * dtype.nbytes, partial.reduce, context)
    staging = Storage(
        context.name(f"{storage.name}_sh"), SH, dtype, (senders * panel * seats,), (1,),
        as_expr(senders * panel * seats), Block, reuse=True, link=partial.link,
    )  # fmt: skip
    context.storages[staging.name] = staging
    held, summed, shared = buffer_of(storage), buffer_of(result), buffer_of(staging)
    vec = temporary(f"{storage.name}_vec", storage, count, context)

    def place(sender: Expr, i: Expr) -> Expr:
        return ((sender * (panel // count) + i) * seats + partial.seat) * count

    def send(p: Expr, first: Expr) -> Body:
        # The way behind a portion's owner sends first, and so on: (ways - 1) senders for each portion.
        sender = p * (ways - 1) + (way + (ways - 1) - p) % ways if ways > 2 else p
        put = move(RF, SH, dtype, count)

        def one(i: Expr) -> Body:
            source = vector(held, share.first(p) + share.steps(first + i * count), count)  # pyright: ignore[reportOperatorIssue]
            return (Call(put, (source, vector(shared, place(sender, i), count)), link=partial.link),)

        return (If(ne(way, p), loop(context, "i", panel // count, one)),)

    def keep(p: Expr, first: Expr) -> Body:
        def one(i: Expr) -> Body:
            source = View(held, share.first(p) + share.steps(first + i))  # pyright: ignore[reportOperatorIssue]
            return (Compute(View(summed, first + i), Arg(0, dtype), (source,), link=partial.link),)

        return (If(eq(way, p), loop(context, "i", panel, one)),)

    def receive(first: Expr) -> Body:
        take = move(SH, RF, dtype, count)

        def of(s: Expr) -> Body:
            def one(i: Expr) -> Body:
                source = vector(shared, place(way * (ways - 1) + s, i), count)
                into = vector(vec, as_expr(0), count)
                return (
                    Call(take, (source, into), link=partial.link),
                    *add(summed, first + i * count, vec, count, context),
                )

            return loop(context, "i", panel // count, one)

        body = loop(context, "s", ways - 1, of)
        return body if share.portions == ways else (If(lt(way, share.portions), body),)

    def through(number: Expr) -> Body:
        first = number * panel
        return (
            *loop(context, "p", share.portions, lambda p: send(p, first)),
            *loop(context, "p", share.portions, lambda p: keep(p, first)),
            *receive(first),
        )

    idle = () if share.portions == ways else (fill(result, 0, context),)
    return (*idle, *loop(context, "panel", size // panel, through))


def add(into: Buffer, first: Expr, vec: Buffer, count: int, context: Context) -> Body:
    """Add a vector to registers, one after the other."""
    total = Binary("add", Arg(0, into.dtype), Arg(1, into.dtype))

    def one(e: Expr) -> Body:
        register = View(into, first + e)
        return (Compute(register, total, (register, View(vec, e))),)

    return loop(context, "e", count, one)


def _panel(size: int, count: int, nbytes: int, reduce: Reduction, context: Context) -> int:
    """Choose how many registers of each thread go through shared memory at once.

    Args:
        size: of a thread's share.
        count: of a vector.
        nbytes: that one register takes.
        reduce: the author's limit.
        context: holds the operands' buffers, whose place the sums take.
    """
    dead = 0
    for storage in context.storages.values():
        if storage.tensor is None and storage.memory == SH:
            dead += (as_int(storage.size) or 0) * storage.slots * storage.copies * storage.dtype.nbytes
    limit = reduce.nbytes if isinstance(reduce, InOrder) and reduce.nbytes is not None else max(dead, LEAST_STAGING)
    fitting = [n for n in range(count, size + 1, count) if size % n == 0 and n * nbytes <= limit]
    return max(fitting, default=count)


def share(window: Window, partials: list[Partial], finish: Body, context: Context) -> Body:
    """Add the sums of the blocks of a tile; the last of them to arrive has the whole, and finishes the tile.

    Blocks leave their sums in the kernel's workspace and count in. The last one knows that all sums are there: it adds
    them in the order of the ways, or takes what atomics have added. Nobody waits for another block.
    """
    partial = next((p for p in partials if p.level == Block), None)
    if partial is None or isinstance(partial.reduce, ByTma | ByCluster):
        return finish
    storage = window.storage
    size, threads = as_int(storage.size), (context.threads or 1) // context.staggered
    thread = context.thread if context.staggered == 1 else context.thread % threads
    assert size is not None
    atomic = isinstance(partial.reduce, ByAtomics)
    elements = as_expr(partial.seats) * (1 if atomic else partial.ways) * (size * threads)
    sums = workspace("partial", storage.dtype, elements, context, zero=atomic)
    held = buffer_of(storage)
    put = _atomic(storage.dtype, size, context.arch) if atomic else None
    count = put.operands[0].registers if put is not None else widest(size, storage.dtype)

    def place(number: Expr, i: Expr) -> Expr:
        return number * (size * threads) + (i * threads + thread) * count

    def leave(i: Expr) -> Body:
        number = partial.seat if atomic else partial.seat * partial.ways + partial.way
        atom = put or move(RF, GL, storage.dtype, count)
        views = (vector(held, i * count, count), vector(sums, place(number, i), count))
        return (Call(atom, views, link=partial.link),)

    whole = _collected(storage, sums, place, count, partial, context)
    title = f"Reduce({partial.ways})({storage.memory})({Block}s)"
    left = loop(context, "i", size // count, leave)
    head = Region(title, left, partial.path, partial.link, "fold", sums.name)
    # Were loaded sums what the next tile's asynchronous products find in their registers, ptxas would serialise those.
    after = (fill(storage, 0, context),) if atomic and context.persistent and context.rings else ()
    seat, seats, link = partial.seat, partial.seats, partial.link
    last = last_of(partial.ways, seat, seats, lambda: (*whole, *finish, *after), context, link, context.owner)
    return (head, *last)


def _collected(
    storage: Storage, sums: Buffer, place: Callable[[Expr, Expr], Expr], count: int, partial: Partial, context: Context
) -> Body:
    """Take the sum of a tile's blocks back to registers."""
    dtype, held = storage.dtype, buffer_of(storage)
    size = as_int(storage.size)
    assert size is not None
    take = move(GL, RF, dtype, count)
    if isinstance(partial.reduce, ByAtomics):
        put, zeros = move(RF, GL, dtype, count), temporary("zeros", storage, count, context)

        def take_over(i: Expr) -> Body:
            there = vector(sums, place(partial.seat, i), count)
            return (
                Call(take, (there, vector(held, i * count, count)), link=partial.link),
                Call(put, (vector(zeros, as_expr(0), count), there), link=partial.link),
            )

        clear = loop(context, "e", count, lambda e: (Compute(View(zeros, e), _constant(0, dtype)),))
        body = (*clear, *loop(context, "i", size // count, take_over))
    else:
        vec = temporary(f"{storage.name}_part", storage, count, context)
        into = vector(vec, as_expr(0), count)

        def of(w: Expr) -> Body:
            def one(i: Expr) -> Body:
                there = vector(sums, place(partial.seat * partial.ways + w, i), count)
                return (Call(take, (there, into), link=partial.link), *add(held, i * count, vec, count, context))

            return loop(context, "i", size // count, one)

        # Where registers are few, all sums are asked for at once.
        several = isinstance(partial.ways, int) and partial.ways * size <= MOST_AT_ONCE
        body = (fill(storage, 0, context), *loop(context, "w", partial.ways, of, several, "sums"))
    return (Region(f"Reduce: sum of {partial.ways} {Block}s", body, partial.path, partial.link, "fold", storage.name),)


def _atomic(dtype: DType, size: int, arch: int) -> Atom:
    """Find the widest instruction that adds registers to global memory."""
    for count in (4, 2, 1):
        found = matching("Add", (count,), (dtype, dtype), (RF, GL), Thread, arch) if size % count == 0 else ()
        if found:
            return found[0]
    raise AssertionError(f"atomics of {dtype} are refused at the link")
