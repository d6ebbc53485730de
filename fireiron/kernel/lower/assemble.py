"""Assembly: the code of each role becomes one branch of the block, after the set-up of shared buffers and barriers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Var, eq
from fireiron.kernel.ir.rewrite import mentions, rewrite
from fireiron.kernel.ir.statements import (
    THREAD,
    Arrive,
    Await,
    Barrier,
    Call,
    If,
    InitBarriers,
    Let,
    Role,
    Roles,
    Statement,
)
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.walk import lower_links
from fireiron.kernel.passes.prefetch import first_lines
from fireiron.language.decompositions import Decomposition

BARRIER_NBYTES = 8


def part(links: Sequence[Decomposition], state: State, context: Context, math: Body, taken: set[str]) -> Body:
    """Lower the tree for the role that loads, and put both roles side by side.

    Args:
        links: the whole chain.
        state: the spec at the kernel.
        context: after the role that computes was lowered.
        math: what it runs.
        taken: names used before either role. Roles are separate scopes, so both may use the same further names.
    """
    assert context.threads is not None
    names, math_lets = context.names, tuple(context.lets)
    context.names = taken | set(context.storages) | {b.name for r in context.rings for b in (r.full, r.empty)}
    context.names |= {r.cursor.name for r in context.rings} | {b.name for b in context.barriers}
    context.lets, definitions = [], context.definitions
    context.definitions = {}
    context.role = "load"
    load = lower_links(links, state, context)
    lets, alone = _read_by(context.lets, load), load
    load = (*lets, If(eq(Var(THREAD, context.loaders), 0), load))
    context.definitions = {**context.definitions, **definitions}
    context.names |= names
    context.role = "math"
    asked = first_lines(context.rings[0].splits[0], (*lets, *alone), context)
    cursors = tuple(ring.cursor for ring in context.rings)
    budgets = context.registers
    roles = Roles(
        (
            Role("load", 0, context.loaders, budgets[0], cursors, load),
            Role(
                "math",
                context.loaders,
                context.threads,
                budgets[1],
                cursors,
                (*math_lets, *context.prologue, *math),
            ),
        )
    )
    return (*asked, roles)


def _read_by(lets: Sequence[Let], body: Body) -> tuple[Let, ...]:
    """Keep the names that a body, or a name that is kept, mentions."""
    kept: tuple[Let, ...] = ()
    for let in reversed(lets):
        kept = (let, *kept) if mentions((*kept, *body), let.var) else kept
    return kept


def _barriers(context: Context) -> tuple[Barrier, ...]:
    return (*(b for ring in context.rings for b in (ring.full, ring.empty)), *context.barriers)


def place_barriers(
    body: tuple[Statement, ...], context: Context, shared: int
) -> tuple[tuple[Statement, ...], tuple[Barrier, ...], int]:
    """Place mbarriers in shared memory after the buffers."""
    placed: dict[str, Barrier] = {}
    end = -(-shared // BARRIER_NBYTES) * BARRIER_NBYTES
    for barrier in _barriers(context):
        placed[barrier.name] = attrs.evolve(barrier, offset=end)
        end += BARRIER_NBYTES * barrier.slots
    if not placed:
        return body, (), shared
    return _placed(body, placed), tuple(placed.values()), end


def _placed(body: tuple[Statement, ...], placed: dict[str, Barrier]) -> tuple[Statement, ...]:
    def statement(s: Statement) -> Statement:
        match s:
            case InitBarriers(barriers=barriers):
                return InitBarriers(tuple(placed[b.name] for b in barriers))
            case Await(barrier=barrier) | Arrive(barrier=barrier):
                return attrs.evolve(s, barrier=placed[barrier.name])
            case Call(signal=(barrier, slot)):
                return attrs.evolve(s, signal=(placed[barrier.name], slot))
            case _:
                return s

    return rewrite(body, statement)
