"""Dependent launches: a kernel begins while the previous launch in the stream ends, and lets the next one begin early.

This pass inserts two statements. The first makes every thread wait for the end of the previous launch, before the
thread's first access of global memory: the previous launch may still write the data that is read, or read the data that
is overwritten. Statements without access of global memory may stand before the wait, and so may prefetches into the L2
cache, which also holds later writes. The second statement lets the next launch begin: after the start of the block's
last load, or, without a loading role, before its first store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import attrs

from fireiron.algebra.expr import eq
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Call,
    Compute,
    CountIn,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    Lower,
    Meet,
    Micro,
    Raise,
    Region,
    Roles,
    Statement,
    walk,
)
from fireiron.language.levels import GL

Body = tuple[Statement, ...]

WAIT = Fence("grid.wait", "the launch before has ended")
LAUNCH = Fence("grid.launch", "the launch behind may begin")


def dependent(body: Body) -> Body:
    """Insert the wait for the previous launch, and the statement that lets the next launch begin.

    Args:
        body: the statements of every thread.
    """
    if any(isinstance(s, Roles) for s in body):
        return tuple(_roles(s) if isinstance(s, Roles) else s for s in body)
    return _ahead(_ahead(body, _touches, WAIT), _writes, LAUNCH, last=True)


def _roles(roles: Roles) -> Roles:
    """Insert a wait for the previous launch into each role; the first role, `load`, lets the next launch begin."""
    load, *others = (attrs.evolve(role, body=_ahead(role.body, _touches, WAIT)) for role in roles.roles)
    return Roles((attrs.evolve(load, body=_behind(load.body, LAUNCH)), *others))


def _ahead(
    body: Body, wanted: Callable[[Statement], bool], mark: Fence, last: bool = False, alone: bool = True
) -> Body:
    """Insert a statement before the first of some statements, outside of conditions that only hold for some of these.

    Args:
        body: the statements to insert into.
        wanted: whether a statement must follow the inserted statement.
        mark: the statement to insert.
        last: whether, inside the loop over a persistent block's items, it is executed only in the last trip.
        alone: whether no wanted statement follows the body.
    """
    for i, s in enumerate(body):
        if not _holds(s, wanted):
            continue
        only = alone and not any(_holds(other, wanted) for other in body[i + 1 :])
        match s:
            case Region(body=inner):
                s = attrs.evolve(s, body=_ahead(inner, wanted, mark, last, only))
            case If(body=inner) if only:
                s = attrs.evolve(s, body=_ahead(inner, wanted, mark, last))
            case For(var=var, extent=extent, body=inner, kind="items") if last:
                end = If(eq(var, extent - 1), (mark,))
                placed = _ahead(inner, wanted, mark, last, only)
                s = attrs.evolve(s, body=rewrite(placed, lambda x, end=end: end if x is mark else x))
            case _:
                return (*body[:i], mark, *body[i:])
        return (*body[:i], s, *body[i + 1 :])
    return body


def _behind(body: Body, mark: Fence) -> Body:
    """Insert a statement after the last one that accesses global memory, outside loops."""
    for i in reversed(range(len(body))):
        s = body[i]
        if not _holds(s, _touches):
            continue
        match s:
            case Region(body=inner) | If(body=inner):
                return (*body[:i], attrs.evolve(s, body=_behind(inner, mark)), *body[i + 1 :])
            case _:
                return (*body[: i + 1], mark, *body[i + 1 :])
    return body


def _holds(statement: Statement, wanted: Callable[[Statement], bool]) -> bool:
    return any(wanted(s) for s in walk((statement,)))


def _touches(statement: Statement) -> bool:
    """Say whether a statement accesses global memory."""
    match statement:
        case CountIn() | Meet() | Raise() | Lower() | FindGroup() | Fetch() | Draw():
            return True
        case _:
            return _accesses(statement, ("read", "write"))


def _writes(statement: Statement) -> bool:
    return isinstance(statement, CountIn | Meet | Raise | Lower) or _accesses(statement, ("write",))


def _accesses(statement: Statement, ways: tuple[Literal["read", "write"], ...]) -> bool:
    if not isinstance(statement, Call | Compute | Micro):
        return False
    return any(view.buffer.memory == GL and way in ways for view, way in reads_and_writes(statement))
