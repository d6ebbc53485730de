"""Roles: the statements that fill rings, and those that compute, become what two roles of a block run.

Lowering puts the copies that fill a slot into a region of kind `fill`, ahead of what reads the slot. The role that
loads runs these regions, with the loops, conditions and names around them. The role that computes runs all else. Each
role is a projection of the one body, and leaves out the names that it does not need.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Var, eq
from fireiron.kernel.ir.rewrite import mentions
from fireiron.kernel.ir.statements import (
    LOADS,
    THREAD,
    Cursor,
    Draw,
    FindGroup,
    For,
    If,
    Leave,
    Let,
    Region,
    Role,
    Roles,
    Statement,
    walk,
)

Body = tuple[Statement, ...]


@attrs.frozen
class Crews:
    """Say how many threads each role has, and what they begin with.

    Args:
        loaders: threads of the role `load`.
        alone: whether the first of them runs all fills; else all do.
        threads: threads of the role `math`.
        registers: registers of a thread of each, 0 where the launch decides.
        cursors: the rings that both walk.
        prologue: what the role `math` runs once, before all else.
    """

    loaders: int
    alone: bool
    threads: int
    registers: tuple[int, int]
    cursors: tuple[Cursor, ...]
    prologue: Body


def part(names: Sequence[Let], body: Body, crews: Crews) -> Body:
    """Part a body into two roles that run at the same time.

    Args:
        names: what the kernel begins with.
        body: its statements.
        crews: the roles' threads.
    """
    lead, math = fills(body), computes((*names, *crews.prologue, *body))
    run = (If(eq(Var(THREAD, crews.loaders), 0), lead),) if crews.alone else lead
    load = (*_read_by(names, lead), *run)
    return (
        Roles(
            (
                Role(LOADS, 0, crews.loaders, crews.registers[0], crews.cursors, load),
                Role("math", crews.loaders, crews.threads, crews.registers[1], crews.cursors, math),
            )
        ),
    )


def _read_by(names: Sequence[Let], body: Body) -> Body:
    """Keep the names that a body, or a name that is kept, mentions."""
    kept: Body = ()
    for let in reversed(names):
        kept = (let, *kept) if mentions((*kept, *body), let.var) else kept
    return kept


def fills(body: Body) -> Body:
    """Keep the statements that fill rings, with what stands around them."""
    kept: list[Statement] = []  # the last one first
    for s in reversed(body):
        match s:
            case Region(kind="fill", body=inner):
                kept += reversed(inner)
            case For(body=inner) | If(body=inner) | Region(body=inner):
                if inside := fills(inner):
                    kept.append(attrs.evolve(s, body=inside))
            case Let(var=var) if mentions(tuple(kept), var):
                kept.append(s)
            case FindGroup() | Draw() | Leave() if kept:
                kept.append(s)
            case _:
                pass
    return tuple(reversed(kept))


def computes(body: Body) -> Body:
    """Leave out the statements that fill rings, and the loops, conditions and names that stand there for them alone."""
    kept: list[Statement] = []  # the last one first
    for s in reversed(body):
        match s:
            case Region(kind="fill"):
                pass
            case For(body=inner) | If(body=inner) | Region(body=inner) if any(map(_fills, walk(inner))):
                if inside := computes(inner):
                    kept.append(attrs.evolve(s, body=inside))
            case Let(var=var) if not mentions(tuple(kept), var):
                pass
            case _:
                kept.append(s)
    return tuple(reversed(kept))


def _fills(s: Statement) -> bool:
    return isinstance(s, Region) and s.kind == "fill"
