"""Draws: one thread of a block draws the next work item, and writes it to shared memory for the other threads.

With roles, the loading role draws, since it runs ahead of the computing role. A ring of two slots passes the items on,
so that the loading role may be one item ahead. In other kernels the first thread draws, and a barrier of the block
stands between its write and the other threads' reads.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, eq
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    LOADS,
    THREAD,
    Advance,
    Arrive,
    Await,
    Barrier,
    Cursor,
    Draw,
    If,
    Role,
    Roles,
    Statement,
    Sync,
    View,
)
from fireiron.language.levels import Block, Warp

Body = tuple[Statement, ...]

SLOTS = 2  # items that shared memory holds: this trip's and the next one's


@attrs.frozen
class Handed:
    """Hold the ring through which the loading role passes work items to the computing role.

    Args:
        cursor: the slot of this trip; each role has its own.
        full: the mbarrier that completes when an item has been written to a slot.
        empty: the mbarrier that completes when all reading warps have read a slot.
        alone: whether only one thread runs the loading role; else its other threads read the item that the first one
            draws.
    """

    cursor: Cursor
    full: Barrier
    empty: Barrier
    alone: bool


def share_draws(body: Body, handed: Handed | None, taken: Collection[str]) -> Body:
    """Make one thread draw, and the other threads read the drawn item.

    Args:
        body: the kernel's statements.
        handed: the ring between roles; None without roles.
        taken: names of the kernel.
    """
    names = Names(taken, body)
    if handed is None:
        return rewrite(body, lambda s: _met(s, names) if isinstance(s, Draw) else s)
    return tuple(Roles(tuple(_role(r, handed, names) for r in s.roles)) if isinstance(s, Roles) else s for s in body)


def _met(draw: Draw, names: Names) -> Body:
    """Draw in the first thread, followed by a barrier of the block.

    Two slots alternate, so that no thread still reads the slot that is written next.
    """
    place = _slot(draw.place, draw.trip % SLOTS)
    first = attrs.evolve(draw, var=names.variable("own", draw.var.extent or 0), place=place)
    return (
        If(eq(Var(THREAD, None), 0), (first,)),
        Sync(Block, "the next item is drawn before it is read", draw.link),
        attrs.evolve(draw, place=place, reads=True),
    )


def _role(role: Role, handed: Handed, names: Names) -> Role:
    def one(s: Statement) -> Statement | Body:
        if not isinstance(s, Draw):
            return s
        cursor, link = handed.cursor, s.link
        place = _slot(s.place, cursor.slot)
        passing = Advance(cursor, as_expr(1))
        free = Await(handed.empty, cursor.slot, 1 - cursor.parity, link)
        told = Arrive(handed.full, cursor.slot, link=link)
        thread = Var(THREAD, role.threads)
        drawn: Body = ()
        if role.name == LOADS and handed.alone:
            return (free, attrs.evolve(s, place=place), told, passing)
        if role.name == LOADS:
            first = attrs.evolve(s, var=names.variable("own", s.var.extent or 0), place=place)
            drawn = (If(eq(thread, 0), (free, first, told)),)
        return (
            *drawn,
            Await(handed.full, cursor.slot, cursor.parity, link),
            attrs.evolve(s, place=place, reads=True),
            Sync(Warp, "the warp has read the item", link),
            If(eq(thread % (Warp.size or 32), 0), (Arrive(handed.empty, cursor.slot, link=link),)),
            passing,
        )

    body = rewrite(role.body, one)
    return attrs.evolve(role, body=body, cursors=(*role.cursors, handed.cursor))


def _slot(place: View, slot: Expr) -> View:
    return attrs.evolve(place, offset=slot, slot=slot)
