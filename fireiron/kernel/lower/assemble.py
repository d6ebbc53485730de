"""Assembly: the places of a kernel's mbarriers in shared memory, after its buffers."""

from __future__ import annotations

import attrs

from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Arrive,
    Await,
    Barrier,
    Call,
    InitBarriers,
    Statement,
)
from fireiron.kernel.lower.context import Context

BARRIER_NBYTES = 8


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
