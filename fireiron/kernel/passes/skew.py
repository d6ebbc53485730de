"""Skew: a product of the next trip is issued before the last products of this trip, and runs during the code between.

A trip has three parts: a head, up to the skewed step; a middle; and a tail, from a later product on: the first one
behind the skewed step, or the one that the link names. Instead of head, middle and tail of each chunk in turn, the loop
executes

    head(0) middle(0)   head(1) tail(0) middle(1)   head(2) tail(1) middle(2)   ...   tail(last)

so only a tail and the next head are exchanged. A ring slot is released before the next use of its product's registers,
where the product is awaited anyway. A ring whose slots both the head and later parts read has two cursors: the head and
the middle read the slot of the one, and wait for it; the tail reads the slot of the other, and releases it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from fireiron.algebra.expr import as_expr, as_int, free, lt, proves, simplest
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.rewrite import replaced
from fireiron.kernel.ir.statements import Advance, Call, Compute, Cursor, For, If, Micro, Region, Statement, Vote, walk
from fireiron.kernel.passes.alternating import alternated
from fireiron.kernel.passes.chunk_loops import Loops, of_loops
from fireiron.language.decompositions import Split

Body = tuple[Statement, ...]


def skewed(body: Body, loops: Loops, lasts: Mapping[Cursor, Cursor | None], taken: Collection[str]) -> Body:
    """Issue the product of each skewed step one trip ahead.

    Args:
        body: the statements.
        loops: the loops over chunks, by their variables.
        lasts: for each ring's cursor, the cursor of the slots that tails read, where steps of two trips read slots.
        taken: names of the kernel.

    Raises:
        DecompositionError: `skew-step`.
    """
    names = Names(taken, body) if loops else None

    def change(loop: For, link: Split) -> Body:
        assert names is not None
        return _skewed(loop, link, lasts, names) if link.skewed else (loop,)

    return of_loops(body, loops, change)


def _skewed(loop: For, link: Split, lasts: Mapping[Cursor, Cursor | None], names: Names) -> Body:
    cursors = [s.cursor for s in loop.body if isinstance(s, Advance)]
    trip = _flat(tuple(s for s in loop.body if not isinstance(s, Advance)))
    first, then = _places(trip, link)
    head, middle, tail = trip[: first + 1], trip[first + 1 : then], trip[then:]
    if _registers(head) & _registers(tail):
        what = f"steps from {_product(tail[0])} on need its registers"
        raise _refused(link, what, "name a later product: before=; or order() what reads its sums ahead of that")
    both = {c: last for c in cursors if (last := lasts.get(c)) is not None}
    held = {c: last for c, last in both.items() if _reads((*head, *middle), c) and _reads(tail, c)}
    cursors = [c for c in cursors if c not in both.values() or c in held.values()]
    behind = [c for c in cursors if c in held.values() or (c not in held and _reads(tail, c))]
    ahead = [c for c in cursors if c not in behind]
    tail = replaced(tail, {c.slot: last.slot for c, last in held.items()})
    whole = _passing(middle, [(c, _turned(middle, head, c, c in held)) for c in ahead])
    rest = _passing(whole, [(c, _passed(whole, tail, c)) for c in behind])
    trips, k = as_expr(loop.extent), loop.var
    inner = (*replaced(head, {k: k + 1}), *tail, *replaced(rest, {k: k + 1}))
    count = as_expr(simplest(trips - 1))
    body: Body = _settled(replaced((*head, *whole), {k: as_expr(0)}))
    if as_int(count) != 0:
        loop = attrs.evolve(loop, extent=count, body=inner)
        # Two trips in sequence whose votes are in their middles spill registers (NVRTC 13.5, 380 B at 256 columns).
        body += alternated(loop, names) if link.speculative else (loop,)
    body += (*replaced(tail, {k: count}), *(Advance(c, as_expr(1)) for c in behind))
    some = lt(0, trips)
    return body if proves(some) else (If(some, body),)


def _places(trip: Body, link: Split) -> tuple[int, int]:
    """Find the skewed step's product in a trip, and the product that the next trip's is issued before."""
    places = {_product(s): i for i, s in reversed([*enumerate(trip)]) if _is_product(s)}
    first = places.get(link.skewed)
    if first is None:
        raise _refused(link, "no chain in each(...) makes it a product")
    later = {name: i for name, i in places.items() if i > first}
    if not later:
        raise _refused(link, "no other product stands behind it")
    if not link.skewed_before:
        return first, min(later.values())
    if link.skewed_before not in later:
        what = f"{link.skewed_before} is no product behind it"
        raise _refused(link, what, "before= names a later product: " + ", ".join(later))
    return first, later[link.skewed_before]


def _refused(link: Split, why: str, fix: str = "skew the first of the loop's products") -> DecompositionError:
    what = f"step {link.skewed} cannot be issued a trip ahead: {why}"
    return DecompositionError("skew-step", what, fix=fix, link=link.link)


def _settled(body: Body) -> Body:
    """Remove votes whose result is constant, and the code that never runs."""
    out: list[Statement] = []
    for i, s in enumerate(body):
        if isinstance(s, Vote) and as_int(s.present) == 0:
            return (*out, *_settled(replaced(body[i + 1 :], {s.var: as_expr(1)})))
        if isinstance(s, If | Region):
            s = attrs.evolve(s, body=_settled(s.body))
        out.append(s)
    return tuple(out)


def _flat(body: Body) -> Body:
    """Flatten regions that contain products."""
    out: list[Statement] = []
    for s in body:
        inner = isinstance(s, Region) and not _is_product(s) and any(_is_product(x) for x in walk(s.body))
        out += _flat(s.body) if inner and isinstance(s, Region) else (s,)
    return tuple(out)


def _is_product(s: Statement) -> bool:
    return isinstance(s, Region) and s.kind == "product"


def _product(s: Statement) -> str:
    return s.buffer if isinstance(s, Region) else ""


def _registers(body: Sequence[Statement]) -> frozenset[str]:
    """Name the registers that statements use."""
    return frozenset(
        v.buffer.name
        for s in walk(tuple(body))
        if isinstance(s, Call | Compute | Micro)
        for v, _ in reads_and_writes(s)
        if v.buffer.memory.registers
    )


def _reads(body: Sequence[Statement], cursor: Cursor) -> bool:
    """Say whether statements read a ring's slot."""
    return any(
        v.slot is not None and cursor.slot in free(v.slot)
        for s in walk(tuple(body))
        if isinstance(s, Call | Compute | Micro)
        for v, _ in reads_and_writes(s)
    )


def _passing(middle: Body, places: Sequence[tuple[Cursor, int]]) -> Body:
    """Advance cursors to the rings' next slots, each before the statement at its place."""
    out: list[Statement] = []
    for i in range(len(middle) + 1):
        out += [Advance(cursor, as_expr(1)) for cursor, place in places if place == i]
        out += middle[i : i + 1]
    return tuple(out)


def _turned(middle: Body, head: Body, cursor: Cursor, held: bool) -> int:
    """Return the place at which a cursor of the head leaves its slot.

    A slot that the middle reads too is left behind its last read, or, where leaving it releases it, at the end: by then
    products have run for a while.
    """
    last = max((i + 1 for i, s in enumerate(middle) if _reads((s,), cursor)), default=0)
    return _used(middle, head, cursor) if not last else last if held else len(middle)


def _passed(middle: Body, tail: Body, cursor: Cursor) -> int:
    """Return the place at which a cursor of the tail leaves its slot: before the middle reads the next one."""
    read = next((i for i, s in enumerate(middle) if _reads((s,), cursor)), len(middle))
    return min(_used(middle, tail, cursor), read)


def _used(middle: Body, part: Body, cursor: Cursor) -> int:
    """Return the place of the first statement that uses registers of the products that read a cursor's slot."""
    registers = _registers([s for s in part if _reads((s,), cursor)])
    return next((i for i, s in enumerate(middle) if _registers((s,)) & registers), len(middle))
