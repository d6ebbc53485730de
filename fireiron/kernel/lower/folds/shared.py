"""Folds inside a block: over warps, which all read the result, or over units that share K, which keep a share each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Var, as_expr, as_int, eq, lt, minimum, ne, proves
from fireiron.algebra.scalar import Arg, number
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import THREAD, Buffer, Call, Compute, If, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.folds.lanes import exchanged
from fireiron.kernel.lower.folds.places import LANES, Table, seated
from fireiron.kernel.lower.folds.portions import Share, divide
from fireiron.kernel.lower.folds.state import Open, begin, joined, open_sum
from fireiron.kernel.lower.registers import add, each_register, fill, loop, move, temporary, vector, widest
from fireiron.kernel.lower.storage import fresh_window, register_storage
from fireiron.kernel.lower.window import Partial, Storage, Window
from fireiron.language.decompositions import InOrder, Reduction
from fireiron.language.folds import identity_of
from fireiron.language.levels import RF, SH, Block

MOST_AT_ONCE = 32  # most registers of a state for which a thread reads several warps' states at once
SHARED_BY = 5  # fewest warps, and registers of a state, for which each warp folds a share of the registers
MOST_UNROLLED = 128  # most reads of other warps' states that stand one behind the other in a kernel's text
LEAST_STAGING = 16 << 10  # least bytes of shared memory for sums, where the operands' buffers are smaller


def over_warps(opened: Open, table: Table, state: State, context: Context, behind: bool = False) -> Body:
    """Fold over the warps of a block: each warp writes its state to shared memory and reads the states of its group.

    Where all lanes of a warp hold the same state, each lane reads the state of one warp of the group, and the lanes
    fold these by shuffles. Otherwise each lane reads the states of the same lane of all warps, in the order of the
    warps.

    Args:
        opened: the fold.
        table: the places of threads' points.
        state: the lowering state.
        context: the kernel's facts.
        behind: whether the states may lie in buffers that are no longer needed.
    """
    count, ways, group, seat = seated(opened, table)
    if ways == 1:
        return ()
    lane = Var(THREAD, len(table.kept)) % LANES
    (first, *_) = opened.storages
    size, turn, each = first.size, turn_of(opened, context), 1 if table.one_a_warp else LANES
    count_of_each = as_int(size) or 1
    many = each > 1 and (count_of_each > MOST_AT_ONCE or ways * count_of_each > MOST_UNROLLED)
    total = count * ways * each * size
    shared = [
        staging(f"{s.name}_sh", s.dtype, total, context, opened.link, turn, many or behind) for s in opened.storages
    ]
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]
    near = 1 << (ways - 1).bit_length()  # number of neighbouring lanes that fold by shuffles

    def place(warp: Expr, r: Expr) -> Expr:
        found = (group * ways + warp) * size + r
        return found if each == 1 else found * LANES + lane

    def of_all(r: Expr) -> Expr:
        return (group * size + r) * LANES + lane

    def put(r: Expr) -> Body:
        return tuple(
            Compute(in_turn(to, place(seat, r), turn), Arg(0, to.dtype), (View(buffer_of(s), r),), link=opened.link)
            for to, s in zip(shared, opened.storages, strict=True)
        )

    def of_warp(w: Expr, r: Expr) -> Body:
        taken = tuple(
            Compute(other, Arg(0, source.dtype), (in_turn(source, place(w, r), turn),), link=opened.link)
            for other, source in zip(others, shared, strict=True)
        )
        return (*taken, *joined(opened, [View(buffer_of(s), r) for s in opened.storages], others, context))

    def get(r: Expr) -> Body:
        if each > 1:
            return loop(context, "w", ways, lambda w: of_warp(w, r))
        there = lt(lane % near, ways)
        mine = of_warp(lane % near, r)
        return mine if proves(there) else (If(there, mine),)

    def one_warp(w: Expr) -> Body:
        return each_register(first, context, lambda r: of_warp(w, r))

    left = each_register(first, context, put)
    left = left if each > 1 else (If(eq(lane, 0), left),)
    met: Body = ()
    for bit in reversed(range(near.bit_length() - 1 if each == 1 else 0)):
        met += exchanged(opened, lane ^ (1 << bit), context)
    title = f"{opened.step.name} over {ways} warps"
    if each > 1 and ways >= SHARED_BY and count_of_each >= SHARED_BY and turn is None:
        totals = [
            staging(f"{s.name}_all", s.dtype, count * each * size, context, opened.link, None, many or behind)
            for s in opened.storages
        ]
        shares = _in_shares(opened, (shared, totals), others, (place, of_all), (count_of_each, ways, seat), context)
        return (Region(title, (*left, *shares), state.path, opened.link),)
    read = loop(context, "w", ways, one_warp, unroll=False, kind="sums") if many else each_register(first, context, get)
    return (Region(title, (*left, *begin(opened, context), *read, *met), state.path, opened.link),)


def _in_shares(
    opened: Open, buffers: tuple[Sequence[Buffer], Sequence[Buffer]], others: Sequence[View],
    places: tuple[Callable[[Expr, Expr], Expr], Callable[[Expr], Expr]], counts: tuple[int, int, Expr],
    context: Context,
) -> Body:  # fmt: skip
    """Fold states that all warps have written: each warp folds some registers of all states, and then reads all.

    So a register of a state is read twice, and not once by each warp.

    Args:
        opened: the fold.
        buffers: shared memory with the states, and for the results; one buffer for each scalar of a state.
        others: registers for the scalars of one register of another state.
        places: the places of a warp's register, and of a result's.
        counts: the number of registers of a state, the number of warps, and this warp's number.
        context: the kernel's facts.
    """
    size, ways, seat = counts
    sums = [View(temporary("share", s.dtype, 1, context), as_expr(0)) for s in opened.storages]
    start = tuple(
        Compute(to, number(identity.value, identity.dtype))
        for to, identity in zip(sums, identity_of(opened.fold), strict=True)
    )

    def moved(to: Sequence[View], source: Sequence[View]) -> Body:
        pairs = zip(to, source, strict=True)
        return tuple(Compute(a, Arg(0, a.buffer.dtype), (b,), link=opened.link) for a, b in pairs)

    (states, results), (place, total) = buffers, places

    def of_warp(w: Expr, r: Expr) -> Body:
        state = [View(buffer, place(w, r)) for buffer in states]
        return (*moved(others, state), *joined(opened, sums, others, context))

    def result(r: Expr) -> list[View]:
        return [View(buffer, total(r)) for buffer in results]

    def mine(k: Expr) -> Body:
        r = k * ways + seat
        there, near = lt(r, size), minimum(r, size - 1)  # no branch: a barrier may have to stand ahead of the write
        kept = tuple(
            Compute(to, Arg(0, to.buffer.dtype), (share,), None if proves(there) else there, link=opened.link)
            for to, share in zip(result(r), sums, strict=True)
        )
        return (*start, *loop(context, "w", ways, lambda w: of_warp(w, near)), *kept)

    def whole(r: Expr) -> Body:
        return moved([View(buffer_of(s), r) for s in opened.storages], result(r))

    (first, *_) = opened.storages
    return (
        *loop(context, "k", -(-size // ways), mine, unroll=False, kind="sums"),
        *each_register(first, context, whole),
    )


def turn_of(opened: Open, context: Context) -> Expr | None:
    """Return the number of the trip of the only loop around a fold; its parity selects one of two slots of a buffer.

    The barrier between writes and reads of a trip then also orders the reads of the trip before it and the writes of
    the trip after it, which use the same slot.
    """
    around: list[Expr] = [x.var for x in opened.loops if not x.unrolled]
    around += [context.trip] if context.persistent else []
    return around[0] if len(around) == 1 and len(opened.loops) <= 1 else None


def in_turn(buffer: Buffer, place: Expr, turn: Expr | None, peer: Expr | None = None) -> View:
    """Return the view of an element in the staging buffer, in the slot of this trip."""
    if turn is None:
        return View(buffer, place, peer=peer)
    return View(buffer, place + turn % buffer.slots * buffer.size, slot=turn, peer=peer)


def staging(
    name: str,
    dtype: DType,
    total: Expr,
    context: Context,
    link: Link | None,
    turn: Expr | None = None,
    reuse: bool = False,
) -> Buffer:
    """Make a buffer of shared memory through which threads exchange values of registers.

    Args:
        name: name of the buffer.
        dtype: element type of the buffer.
        total: elements of a slot.
        context: the kernel's facts.
        link: the link that needs the exchange.
        turn: the number whose parity selects one of two slots; None for one slot.
        reuse: whether the buffer may overlay buffers that are no longer needed.
    """
    slots = 1 if turn is None else 2
    made = Storage(context.name(name), SH, dtype, (), (1,), total, Block, slots=slots, reuse=reuse, link=link)
    context.storages[made.name] = made
    return buffer_of(made)


def gather(window: Window, state: State, context: Context) -> tuple[Window, Body]:
    """Add the partial sums of the units of a block; return the window of the sum, of which each unit owns a share.

    Units of one warp add their partial sums by shuffles. Otherwise each unit writes the other units' shares of its
    partial sum to shared memory. Each unit then sums its share in registers: its own partial sum first, then the
    partial sums of the units that follow it.

    Raises:
        DecompositionError: `opaque-fragment`, since a share consists of known elements.
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
    if _in_a_warp(partial, state):
        body = _over_lanes(window, result, share, partial, context)
    else:
        body = _exchange(storage, result, share, partial, context)
    title = f"Reduce({partial.ways})({storage.memory})({partial.level})"
    return fresh_window(result, window), (Region(title, body, partial.path, partial.link, "fold", result.name),)


def _in_a_warp(partial: Partial, state: State) -> bool:
    """Say whether the units that share K are lanes of one warp whose numbers differ by whole bits.

    Below a tile to a part of a warp, a condition may exclude some lanes of the warp, which shuffles do not allow.
    """
    ways, size = partial.ways, partial.level.size
    assert isinstance(ways, int) and size is not None
    return ways & (ways - 1) == 0 and ways * size <= LANES and (state.level.size or LANES) >= LANES


def _over_lanes(window: Window, result: Storage, share: Share, partial: Partial, context: Context) -> Body:
    """Add the partial sums of lanes by shuffles; each lane then keeps its share of the sums."""
    assert isinstance(partial.ways, int) and partial.level.size is not None
    opened, lane = open_sum(window, partial.link), context.thread % LANES
    body: Body = ()
    for bit in reversed(range(partial.ways.bit_length() - 1)):
        body += exchanged(opened, lane ^ ((1 << bit) * partial.level.size), context)
    idle = () if share.portions == partial.ways else (fill(result, 0, context),)
    held, zero, size = window.storage, as_expr(0), share.ownership.size
    return (
        *body,
        *idle,
        *loop(context, "p", share.portions, lambda p: _kept(p, zero, size, held, result, share, partial, context)),
    )


def _kept(
    p: Expr, first: Expr, count: int, held: Storage, result: Storage, share: Share, partial: Partial, context: Context
) -> Body:
    """Copy registers `first` to `first + count` of portion p to the sum, in the way that owns the portion."""

    def one(i: Expr) -> Body:
        source = View(buffer_of(held), share.first(p) + share.steps(first + i))  # pyright: ignore[reportOperatorIssue]
        return (Compute(View(buffer_of(result), first + i), Arg(0, held.dtype), (source,), link=partial.link),)

    return (If(eq(partial.way, p), loop(context, "i", count, one)),)


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
    vec = temporary(f"{storage.name}_vec", dtype, count, context)

    def place(sender: Expr, i: Expr) -> Expr:
        return ((sender * (panel // count) + i) * seats + partial.seat) * count

    def send(p: Expr, first: Expr) -> Body:
        # The way after a portion's owner sends first, then the next: (ways - 1) senders for each portion.
        sender = p * (ways - 1) + (way + (ways - 1) - p) % ways if ways > 2 else p
        put = move(RF, SH, dtype, count)

        def one(i: Expr) -> Body:
            source = vector(held, share.first(p) + share.steps(first + i * count), count)  # pyright: ignore[reportOperatorIssue]
            return (Call(put, (source, vector(shared, place(sender, i), count)), link=partial.link),)

        return (If(ne(way, p), loop(context, "i", panel // count, one)),)

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
            *loop(
                context, "p", share.portions, lambda p: _kept(p, first, panel, storage, result, share, partial, context)
            ),
            *receive(first),
        )

    idle = () if share.portions == ways else (fill(result, 0, context),)
    return (*idle, *loop(context, "panel", size // panel, through))


def _panel(size: int, count: int, nbytes: int, reduce: Reduction, context: Context) -> int:
    """Choose how many registers of each thread pass through shared memory at once.

    Args:
        size: registers of a thread's share.
        count: registers of a vector.
        nbytes: bytes of shared memory for one register of all threads.
        reduce: the author's limit.
        context: the kernel's facts; without a limit, the sums take the place of the operands' buffers.
    """
    dead = 0
    for storage in context.storages.values():
        if storage.tensor is None and storage.memory == SH:
            dead += (as_int(storage.size) or 0) * storage.slots * storage.copies * storage.dtype.nbytes
    limit = reduce.nbytes if isinstance(reduce, InOrder) and reduce.nbytes is not None else max(dead, LEAST_STAGING)
    fitting = [n for n in range(count, size + 1, count) if size % n == 0 and n * nbytes <= limit]
    return max(fitting, default=count)
