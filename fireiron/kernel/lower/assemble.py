"""Assembly: the projections of a tree become roles of one block, behind the set-up of what they share."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Var, as_expr, eq
from fireiron.atoms.flights import flying
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    THREAD,
    Advance,
    Arrive,
    Await,
    Barrier,
    Call,
    Fence,
    For,
    If,
    InitBarriers,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    Wait,
    walk,
)
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.roles import peers
from fireiron.kernel.lower.walk import lower_links
from fireiron.kernel.passes.prefetch import first_lines
from fireiron.language.decompositions import Decomposition
from fireiron.language.levels import Cluster

BARRIER_NBYTES = 8
READY = 7  # the numbered barrier at which roles learn that their barriers are there


def part(links: Sequence[Decomposition], state: State, context: Context, math: Body, taken: set[str]) -> Body:
    """Lower the tree for the role that loads, and put both roles side by side.

    Args:
        links: the whole chain.
        state: the spec at the kernel.
        context: after the role that computes was lowered.
        math: what it runs.
        taken: names that stood before; roles are scopes of their own, and may use the same ones.
    """
    assert context.threads is not None
    names, math_lets = context.names, tuple(context.lets)
    context.names = taken | set(context.storages) | {b.name for r in context.rings for b in (r.full, r.empty)}
    context.names |= {r.cursor.name for r in context.rings} | {b.name for b in context.barriers}
    context.lets, definitions = [], context.definitions
    context.definitions = {}
    context.role = "load"
    load = lower_links(links, state, context)
    if len(peers(context)) > 1:
        load = (*load, *_drain(context))
    lets, alone = tuple(context.lets), load
    load = (*lets, If(eq(Var(THREAD, context.loaders), 0), load))
    context.definitions = {**context.definitions, **definitions}
    context.names |= names
    context.role = "math"
    asked = first_lines(context.rings[0].splits[0], (*lets, *alone), context)
    cursors = tuple(ring.cursor for ring in context.rings)
    budgets = context.registers
    if context.cluster == 1:
        # The thread that initialises the barriers is the one that loads: it need not wait for itself.
        everyone, why = context.loaders + context.threads, "barriers are initialised before they are used"
        load = (Turn(READY, everyone, False, why), *load)
        math_lets = (Turn(READY, everyone, True, why), *math_lets)
    roles = Roles(
        (
            Role("load", 0, context.loaders, budgets[0], cursors, load),
            Role(
                "math",
                context.loaders,
                context.threads,
                budgets[1],
                cursors,
                (*math_lets, *context.prologue, *math, *settle(math)),
            ),
        )
    )
    return (*asked, *set_up(context), roles)


def _barriers(context: Context) -> tuple[Barrier, ...]:
    return (*(b for ring in context.rings for b in (ring.full, ring.empty)), *context.barriers)


def set_up(context: Context) -> Body:
    """Initialise a kernel's mbarriers; where blocks of a cluster arrive at each other's, behind a barrier of them."""
    barriers = _barriers(context)
    if not barriers:
        return ()
    made = (InitBarriers(barriers), Fence("barrier.init", "others use the barriers, and bulk copies do"))
    together = Sync(Cluster, "barriers are initialised before peers use them", relaxed=True)
    return (*made, together) if context.cluster > 1 else made


def _drain(context: Context) -> Body:
    """Wait until all slots are released: a peer must not send to, or arrive at, a block that has ended."""
    out: list[Statement] = []
    for ring in context.rings:
        slot = context.variable("slot", ring.cursor.slots)
        body = (
            Await(ring.empty, ring.cursor.slot, 1 - ring.cursor.parity, ring.link.link),
            Advance(ring.cursor, as_expr(1)),
        )
        out.append(For(slot, as_expr(ring.cursor.slots), body, kind="slots"))
    return tuple(out)


def settle(math: Body) -> Body:
    """Wait, before the block ends, until bulk stores have read their sources."""
    calls = (s.atom.completion for s in walk(math) if isinstance(s, Call))
    groups = dict.fromkeys(group for group in calls if flying(group) == "stores")
    return tuple(Wait(group, 0, reads_only=True) for group in groups)


def place_barriers(
    body: tuple[Statement, ...], context: Context, shared: int
) -> tuple[tuple[Statement, ...], tuple[Barrier, ...], int]:
    """Give mbarriers their places behind the buffers."""
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
