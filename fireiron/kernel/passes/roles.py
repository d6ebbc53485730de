"""Roles: one body is split into the statements of the loading role and those of the computing role.

Lowering puts the copies that fill a slot into a region of kind `fill`, before the slot's readers. The loading role
executes these regions, with the loops, conditions and names around them. The computing role executes all other
statements. Each role omits the names that it does not need.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Var, eq
from fireiron.kernel.ir.rewrite import mentions
from fireiron.kernel.ir.statements import (
    LOADS,
    THREAD,
    Advance,
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
    """Hold facts about the threads of both roles.

    Args:
        loaders: number of threads of the role `load`.
        alone: whether only the first thread of `load` executes fills; else all its threads do.
        threads: number of threads of the role `math`.
        registers: registers of a thread of `load` and of `math`, 0 for as many as the launch gives.
        cursors: the cursors of the rings of both roles.
        prologue: statements that the role `math` executes once, before all others.
        lasts: further cursors of `math`, of slots that it releases later than it waits for the next ones.
    """

    loaders: int
    alone: bool
    threads: int
    registers: tuple[int, int]
    cursors: tuple[Cursor, ...]
    prologue: Body
    lasts: tuple[Cursor, ...] = ()


def part(names: Sequence[Let], body: Body, crews: Crews) -> Body:
    """Split a body into two roles that run at the same time.

    Args:
        names: the definitions at the kernel's start.
        body: the kernel's statements.
        crews: facts about the roles' threads.
    """
    lead, math = fills(body), computes((*names, *crews.prologue, *body))
    lasts = tuple(c for c in crews.lasts if any(isinstance(s, Advance) and s.cursor == c for s in walk(math)))
    run = (If(eq(Var(THREAD, crews.loaders), 0), lead),) if crews.alone else lead
    load = (*_read_by(names, lead), *run)
    return (
        Roles(
            (
                Role(LOADS, 0, crews.loaders, crews.registers[0], crews.cursors, load),
                Role("math", crews.loaders, crews.threads, crews.registers[1], (*crews.cursors, *lasts), math),
            )
        ),
    )


def _read_by(names: Sequence[Let], body: Body) -> Body:
    """Keep the definitions that a body, or a kept definition, uses."""
    kept: Body = ()
    for let in reversed(names):
        kept = (let, *kept) if mentions((*kept, *body), let.var) else kept
    return kept


def fills(body: Body) -> Body:
    """Keep the statements that fill rings, with the loops, conditions and names around them."""
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
    """Remove the statements that fill rings, and the loops, conditions and names that only they need."""
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
