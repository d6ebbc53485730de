"""Barriers: accesses and fences of all agents before a barrier are ordered before the agents' accesses after it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fireiron.kernel.edges.agents import Agent, Array, Blocked, Gate, merge
from fireiron.kernel.edges.world import World
from fireiron.kernel.ir.statements import Turn
from fireiron.kernel.passes.turns import FIRST_TURN
from fireiron.language.levels import Block, Cluster, Level


def sync(world: World, level: Level, agent: Agent, relaxed: bool) -> Iterator[Blocked]:
    """Synchronise at a barrier of a level."""
    size = level.size
    inside = size is not None and size <= agent.threads
    if inside or (level == Block and agent.role is None):
        meet(world, agent, size if inside and size is not None else agent.threads)
        if not inside or size == agent.threads:
            agent.initialised |= {-1 - r for r in agent.initialised if r < 0 and -1 - r in world.fenced}
        return
    unit = 0 if size is None else agent.first // size
    key = (None if level == Cluster else agent.rank, agent.role and agent.role.name, level.name, unit)
    threads = world.kernel.threads if agent.role is None else agent.role.threads
    many = size if size is not None else threads * (world.kernel.cluster if level == Cluster else 1)
    gate = world.meetings.setdefault(key, Gate())
    turn = gate.opened
    gate.agents.append(agent)
    if sum(a.threads for a in gate.agents) < many:
        agent.waits = "barriers"
        yield lambda: gate.opened > turn
        return
    here, gate.agents, gate.opened = gate.agents, [], turn + 1
    names = {-1 - r if r < 0 else r for a in here for r in a.initialised if r >= 0 or -1 - r in world.fenced}
    for a in here:
        a.initialised |= names
    if not relaxed:
        together(world, here)


def meet(world: World, agent: Agent, size: int) -> None:
    """Synchronise the units of one agent."""
    now = world.tick()
    agent.met[size] = (now, agent.fence)
    for key in list(agent.partly):
        if agent.grain(np.frombuffer(key, bool)) <= size:
            known, proxied = agent.partly.pop(key)
            merge(agent.known, known)
            merge(agent.proxied, proxied)


def together(world: World, agents: list[Agent]) -> None:
    """Order all earlier accesses of these agents, and accesses ordered before those, before each agent's next ones."""
    for a in agents:
        meet(world, a, a.threads)
    now = world.tick()
    for a in agents:
        a.known[a.number], a.proxied[a.number] = now, a.fence
    for a in agents:
        for b in agents:
            merge(a.known, b.known)
            merge(a.proxied, b.proxied)


def released(world: World, agent: Agent, mask: Array | None) -> tuple[dict[int, int], dict[int, int]]:
    """Return the clocks of those threads of an agent that a mask selects, with their own latest accesses."""
    known, proxied = dict(agent.known), dict(agent.proxied)
    if mask is not None and mask.tobytes() in agent.partly:
        more = agent.partly[mask.tobytes()]
        merge(known, more[0])
        merge(proxied, more[1])
    grain = agent.grain(mask)
    own = (world.tick(), agent.fence) if grain == 1 else agent.since(grain)
    known[agent.number], proxied[agent.number] = own
    return known, proxied


def learn(agent: Agent, mask: Array | None, told: tuple[dict[int, int], dict[int, int]]) -> None:
    """Merge clocks that others released into the clocks of those threads of an agent that a mask selects."""
    into = (agent.known, agent.proxied)
    if mask is not None:
        into = agent.partly.setdefault(mask.tobytes(), ({}, {}))
    for mine, theirs in zip(into, told, strict=True):
        merge(mine, theirs)


def turn(world: World, s: Turn, agent: Agent, mask: Array | None) -> Iterator[Blocked]:
    """Synchronise at a numbered barrier: wait there, or arrive."""
    gate = world.turns.setdefault((agent.rank, s.number), Gate())
    owed = "turns" if s.number >= FIRST_TURN else "rings"
    at = gate.opened
    gate.threads += agent.threads if mask is None else int(mask.sum())
    for mine, theirs in zip(gate.told, released(world, agent, mask), strict=True):
        merge(mine, theirs)
    gate.initialised |= {r for r in (-1 - r if r < 0 else r for r in agent.initialised) if r in world.fenced}
    if gate.threads > s.threads:
        world.report(f"barrier {s.number} counts {s.threads} threads", f"{agent.label} arrives", "it has opened", owed)
    if gate.threads >= s.threads:
        gate.opened, gate.threads, gate.known = at + 1, 0, (dict(gate.told[0]), dict(gate.told[1]))
    elif s.waits:
        agent.waits = owed
        yield lambda: gate.opened > at
    if s.waits:
        learn(agent, mask, gate.known)
        agent.initialised |= gate.initialised
