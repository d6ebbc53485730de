"""Skew: a product of the next trip is issued before the last products of this trip, and runs during the code between.

A trip has three parts: a head, up to the skewed step; a middle; and a tail, from the first product after the skewed
step on. Instead of head, middle and tail of each chunk in turn, the loop executes

    head(0) middle(0)   head(1) tail(0) middle(1)   head(2) tail(1) middle(2)   ...   tail(last)

so only a tail and the next head are exchanged. A ring slot is released before the next use of its product's registers,
where the product is awaited anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from fireiron.algebra.expr import Expr, as_expr, as_int, free, lt, proves, simplest
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.rewrite import replaced
from fireiron.kernel.ir.statements import Advance, Call, Compute, Cursor, For, If, Micro, Region, Statement, Vote, walk
from fireiron.kernel.passes.alternating import alternated
from fireiron.kernel.passes.chunk_loops import Loops, of_loops
from fireiron.language.decompositions import Split

Body = tuple[Statement, ...]


def skewed(body: Body, loops: Loops, taken: Collection[str]) -> Body:
    """Issue the product of each skewed step one trip ahead.

    Args:
        body: the statements.
        loops: the loops over chunks, by their variables.
        taken: names of the kernel.

    Raises:
        DecompositionError: `skew-step`, `skew-ring`.
    """
    names = Names(taken, body) if loops else None

    def change(loop: For, link: Split) -> Body:
        assert names is not None
        return _skewed(loop, link, names) if link.skewed else (loop,)

    return of_loops(body, loops, change)


def _skewed(loop: For, link: Split, names: Names) -> Body:
    cursors = [s.cursor for s in loop.body if isinstance(s, Advance)]
    trip = _flat(tuple(s for s in loop.body if not isinstance(s, Advance)))
    products = [i for i, s in enumerate(trip) if _is_product(s)]
    first = next((i for i in products if _product(trip[i]) == link.skewed), None)
    then = next((i for i in products if first is not None and i > first), None)
    head, middle, tail = trip[: (first or 0) + 1], trip[(first or 0) + 1 : then], trip[then or 0 :]
    if first is None or then is None or _registers(head) & _registers(tail):
        raise DecompositionError(
            "skew-step",
            f"step {link.skewed} cannot be issued a trip ahead: "
            + ("no chain in each(...) makes it a product" if first is None else "no other product stands behind it"),
            fix="skew the first of the loop's products",
            link=link.link,
        )
    ahead = [c for c in cursors if _reads(head, c)]
    behind = [c for c in cursors if c not in ahead]
    for cursor in ahead:
        if _reads(tail, cursor) or _reads(middle, cursor):
            raise DecompositionError(
                "skew-ring",
                f"step {link.skewed} and steps behind it read one array, whose slot would have to hold two chunks",
                fix="skew a step that reads arrays of its own",
                link=link.link,
            )
    whole = _passing(middle, _registers(head), ahead)
    both = _passing(whole, _registers(tail), behind)
    trips, k = as_expr(loop.extent), loop.var
    inner = (*replaced(head, {k: k + 1}), *tail, *replaced(both, {k: k + 1}))
    count = as_expr(simplest(trips - 1))
    body: Body = _settled(replaced((*head, *whole), {k: as_expr(0)}))
    body += () if as_int(count) == 0 else alternated(attrs.evolve(loop, extent=count, body=inner), names)
    body += (*replaced(tail, {k: count}), *(Advance(c, as_expr(1)) for c in behind))
    some = lt(0, trips)
    return body if proves(some) else (If(some, body),)


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


def _passing(middle: Body, registers: frozenset[str], cursors: Sequence[Cursor]) -> Body:
    """Advance to the rings' next slots before the first statement that uses a product's registers."""
    one: Expr = as_expr(1)
    place = next((i for i, s in enumerate(middle) if _registers((s,)) & registers), len(middle))
    return (*middle[:place], *(Advance(c, one) for c in cursors), *middle[place:])
