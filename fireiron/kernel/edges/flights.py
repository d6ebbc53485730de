"""Flights: groups of asynchronous accesses, which are complete once their agent has waited for them."""

from __future__ import annotations

from fireiron.atoms.flights import flying
from fireiron.kernel.edges.agents import Agent, Group
from fireiron.kernel.edges.world import World
from fireiron.kernel.ir.statements import Wait
from fireiron.language.levels import SH


def commit(agent: Agent, group: str) -> None:
    """Commit an agent's open asynchronous operations as one group."""
    flight = agent.groups.setdefault(group, Group())
    flight.committed.append(flight.open)
    flight.open = []


def wait(world: World, s: Wait, agent: Agent) -> None:
    """Mark all but the newest groups of an agent as complete."""
    group = agent.groups.setdefault(s.group, Group())
    kind, now = flying(s.group), world.tick()
    done = group.committed[: max(0, len(group.committed) - s.pending)]
    if not s.reads_only:
        group.committed = group.committed[len(done) :]
    for event in (e for part in done for e in part):
        if not event.flight or (s.reads_only and event.way == "write"):
            continue
        event.flight, event.tick, event.proxy = "", now, "awaited"
        if kind == "products":  # all threads of the unit wait, so all know
            event.owner = agent.products
            agent.known[agent.products] = agent.proxied[agent.products] = now


def owed(group: str) -> str:
    """Return the name of the pass that inserts waits for a group."""
    return flying(group) or "copies"


def landed(world: World, agents: list[Agent]) -> None:
    """Check that nothing is in flight where a block ends."""
    for agent in agents:
        for name, group in agent.groups.items():
            for event in (*group.open, *(e for part in group.committed for e in part)):
                if event.flight and event.view.buffer.memory == SH:
                    world.report(event.words, "the end of the block", f"it is still in flight ({name})", owed(name))
