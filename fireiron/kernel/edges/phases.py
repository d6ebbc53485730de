"""Phases of mbarriers: each mbarrier is initialised before its use, and each wait has the arrivals that complete it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fireiron.kernel.edges.agents import Agent, Array, Blocked, merge
from fireiron.kernel.edges.meetings import learn, released
from fireiron.kernel.edges.world import World
from fireiron.kernel.ir.statements import Arrive, Await, Barrier


def usable(world: World, barrier: Barrier, rank: int, agent: Agent, mask: Array | None) -> None:
    """Check that an mbarrier was initialised: by the same thread, or before a barrier that the threads passed."""
    own = -1 - rank in agent.initialised and rank in world.fenced and mask is not None and not mask[1:].any()
    if not (own or rank in agent.initialised) or (rank, barrier.name) not in world.made:
        world.report(
            f"{barrier.name} is initialised", f"{agent.label} uses it", "no fence and barrier between them", "rings"
        )


def awaits(world: World, s: Await, agent: Agent, mask: Array | None) -> Iterator[Blocked]:
    """Wait for a phase: accesses ordered before its arrivals are then ordered before this agent's next accesses."""
    usable(world, s.barrier, agent.rank, agent, mask)
    slot = world.barriers[agent.rank, s.barrier.name][world.number(s.slot, agent, mask)]
    parity = world.number(s.parity, agent, mask)
    if slot.phase % 2 == parity:
        agent.waits = owed(world, s)
        yield lambda: slot.phase % 2 != parity
    slot.awaited = max(slot.awaited, slot.phase)
    agent.registers = 0  # a spinning loop orders no registers for the products after it
    learn(agent, mask, slot.known)


def owed(world: World, s: Await | Arrive) -> str:
    """Name the pass that inserts a wait or an arrival: `exchanges` between blocks of a cluster, else `rings`."""
    return "exchanges" if s.wide or s.barrier.name in world.told else "rings"


def arrive(world: World, s: Arrive, agent: Agent, mask: Array | None) -> None:
    """Arrive at a phase: accesses ordered before this agent are then ordered before agents that wait for the phase."""
    threads = np.arange(agent.threads) if mask is None else np.flatnonzero(mask)
    slots = np.broadcast_to(world.value(s.slot, agent), (agent.threads,))[threads]
    ranks = np.full(len(threads), agent.rank)
    if s.peer is not None:
        ranks = np.broadcast_to(world.value(s.peer, agent), (agent.threads,))[threads]
    told = released(world, agent, mask)
    for rank, at in zip(map(int, ranks), map(int, slots), strict=True):
        usable(world, s.barrier, rank, agent, mask)
        slot = world.barriers[rank, s.barrier.name][at]
        slot.remote |= rank != agent.rank
        slot.pending -= 1
        if slot.pending < 0:
            world.report(
                f"{s.barrier.name} counts {slot.count}",
                f"{agent.label} arrives",
                "the phase is complete",
                owed(world, s),
            )
        slot.nbytes += s.nbytes
        merge(slot.told, told[0])
        merge(slot.fenced, told[1])
        slot.settle(world.tick())


def all_awaited(world: World) -> None:
    """Check that no peer arrives at a block that has ended."""
    for (_, name), ring in world.barriers.items():
        if any(p.remote and p.phase > p.awaited for p in ring):
            world.report(f"peers arrive at {name}", "the end of the block", "nothing awaits them", "rings")
