"""Draws: one thread of a block draws its next work item, and leaves it in shared memory for the others.

Where roles run at the same time, the role that loads draws: it is ahead of the others by the chunks that rings hold.
A ring of two slots hands the items on, so that it may be one item ahead of them. In other kernels the first thread
draws, and a barrier of the block stands between its write and what reads it.
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
    """Hold the ring through which roles hand items on.

    Args:
        cursor: the slot of this trip; each role has its own.
        full: completes when an item lies in a slot.
        empty: completes when all warps that read a slot have done so.
        alone: whether one thread runs the role that loads; else all of its threads read what the first one draws.
    """

    cursor: Cursor
    full: Barrier
    empty: Barrier
    alone: bool


def share_draws(body: Body, handed: Handed | None, taken: Collection[str]) -> Body:
    """Let one thread draw, and the others read what it has drawn.

    Args:
        body: the kernel's statements.
        handed: the ring between roles; None where all threads run one body.
        taken: names of the kernel.
    """
    names = Names(taken, body)
    if handed is None:
        return rewrite(body, lambda s: _met(s, names) if isinstance(s, Draw) else s)
    return tuple(Roles(tuple(_role(r, handed, names) for r in s.roles)) if isinstance(s, Roles) else s for s in body)


def _met(draw: Draw, names: Names) -> Body:
    """Draw in the first thread, and meet at a barrier.

    Two slots alternate, so that no thread still reads the one that is written next.
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
