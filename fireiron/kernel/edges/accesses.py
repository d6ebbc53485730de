"""Accesses: of two conflicting accesses, the earlier one must be complete before the later one begins.

A barrier or a wait must also order the later access's agent after the completion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs
import numpy as np

from fireiron.algebra.expr import as_int, free
from fireiron.atoms.flights import flying
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.edges import flights
from fireiron.kernel.edges.agents import WARPGROUP, Agent, Array, Event, Group, merge
from fireiron.kernel.edges.launches import global_access
from fireiron.kernel.edges.meetings import released
from fireiron.kernel.edges.phases import usable
from fireiron.kernel.edges.world import World
from fireiron.kernel.ir.statements import Buffer, Call, Compute, Micro, View
from fireiron.language.levels import GL, SH, Block


def access(world: World, s: Call | Compute | Micro, agent: Agent, mask: Array | None, whole: tuple[str, ...]) -> None:
    """Record the accesses of a statement."""
    if s.write is not None:
        here = world.here(s.write, agent, mask)
        if here is False:
            return
    pairs = reads_and_writes(s)
    if world.kernel.dependent and any(v.buffer.memory == GL for v, _ in pairs):
        global_access(world, agent, "an access of global memory")
    if any(way == "write" and v.buffer.memory == GL for v, way in pairs):
        agent.wrote = world.tick()
    flight = s.atom.completion if isinstance(s, Call) else ""
    kind = flying(flight)
    for view, way in pairs:
        if not world.follows(view):
            continue
        if kind == "stores" and view.buffer.memory != SH:
            continue
        proxy: Literal["generic", "async"] = "async" if kind in ("products", "stores", "loads") else "generic"
        touched = span(world, view, agent, mask, whole)
        direction: Literal["read", "write"] = "read" if way == "read" else "write"
        words = f"{view.buffer.name} {'read' if way == 'read' else 'written'} by {name(s)} ({agent.label})"
        landing = flight if kind in ("products", "stores") or (kind == "copies" and way == "write") else ""
        made = Event(agent.number, 0, view, direction, proxy, landing, touched, words, s.id)
        if kind == "products" and view.buffer.memory.registers:
            held(world, made, agent)
        if kind == "loads":
            assert isinstance(s, Call)
            load(world, s, made, agent, mask)
            continue
        if kind == "sends" and view.peer is not None:
            assert isinstance(s, Call)
            send(world, s, made, agent, mask)
            continue
        if kind == "copies":
            made.flight = landing
        rank = agent.rank if view.peer is None else world.number(view.peer, agent, mask)
        conflicts(world, made, agent, mask, rank)
        made.tick = world.tick()
        if landing:
            agent.groups.setdefault(flight, Group()).open.append(made)
        keep(world, made, rank, agent)


def load(world: World, s: Call, made: Event, agent: Agent, mask: Array | None) -> None:
    """Record a bulk load as landed at once, in each block that it is sent to."""
    assert s.signal is not None and s.map is not None
    barrier, slot = s.signal
    peers = 1 << agent.rank if s.peers is None else world.number(s.peers, agent, mask)
    nbytes = s.map.buffer.dtype.nbytes
    for extent in s.map.box:
        nbytes *= extent
    at = world.number(slot, agent, mask)
    for rank in (r for r in range(world.kernel.cluster) if peers >> r & 1):
        usable(world, barrier, rank, agent, mask)
        phase = world.barriers[rank, barrier.name][at]
        conflicts(world, made, agent, mask, rank)
        event = attrs.evolve(made, owner=phase.engine, tick=world.tick(), proxy="awaited", flight="")
        keep(world, event, rank, agent)
        phase.nbytes -= nbytes
        phase.settle(world.tick())


def send(world: World, s: Call, made: Event, agent: Agent, mask: Array | None) -> None:
    """Record sends as landed at once, in each block that a thread sends to; they tell it what the sender relies on."""
    assert s.signal is not None and made.view.peer is not None
    barrier, slot = s.signal
    threads = np.arange(agent.threads) if mask is None else np.flatnonzero(mask)
    ranks = np.broadcast_to(world.value(made.view.peer, agent), (agent.threads,))[threads]
    told, at = released(world, agent, mask), world.number(slot, agent, mask)
    size = as_int(made.view.layout.size)
    assert size is not None
    for rank, count in zip(*np.unique(ranks, return_counts=True), strict=True):
        usable(world, barrier, int(rank), agent, mask)
        phase = world.barriers[int(rank), barrier.name][at]
        conflicts(world, made, agent, mask, int(rank))
        keep(world, attrs.evolve(made, owner=phase.engine, tick=world.tick(), proxy="awaited"), int(rank), agent)
        phase.remote |= bool(rank != agent.rank)
        phase.nbytes -= int(count) * size * made.view.buffer.dtype.nbytes
        merge(phase.told, told[0])
        merge(phase.fenced, told[1])
        phase.settle(world.tick())


def conflicts(world: World, made: Event, agent: Agent, mask: Array | None, rank: int) -> None:
    """Check that every earlier conflicting access is complete, and ordered before this one by barriers or waits."""
    buffer = made.view.buffer
    names = [buffer.name] if buffer.memory.registers else world.beside[buffer.name]
    known, proxied = agent.known, agent.proxied
    if mask is not None and mask.tobytes() in agent.partly:
        known, proxied = dict(known), dict(proxied)
        merge(known, agent.partly[mask.tobytes()][0])
        merge(proxied, agent.partly[mask.tobytes()][1])
    for name in names:
        place = (rank, agent.number if buffer.memory.registers else 0, name)
        for event in world.events.get(place, {}).values():
            if event.way == "read" and made.way == "read":
                continue
            if event.way == made.way and event.id == made.id:
                continue
            if name == buffer.name and not _meets(event, made):
                continue
            lacking = lacks(event, made, agent, known, proxied)
            if lacking:
                world.report(event.words, made.words, lacking, owed(world, event, made, lacking))


def lacks(event: Event, made: Event, agent: Agent, known: Mapping[int, int], proxied: Mapping[int, int]) -> str:
    """Describe the missing order between two accesses; "" where none is missing."""
    mine = event.owner in (agent.number, agent.products)
    if not mine and _private(event, made):
        return ""
    if event.flight:
        both = flying(event.flight) == "products" and made.flight == event.flight
        if both and event.owner == agent.number:  # products of one unit run in order
            return ""
        return f"it is in flight ({event.flight})"
    fenced = event.proxy == "generic" and made.proxy == "async" and not event.view.buffer.memory.registers
    if (proxied if fenced else known).get(event.owner, 0) >= event.tick:
        return ""
    if event.owner != agent.number:
        return "nothing tells that it is complete" + (" and fenced" if fenced else "")
    if event.view.buffer.memory.registers:
        return ""
    size = _scope(event, made, agent)
    if fenced:
        fence = agent.fence if size == 1 else agent.since(size)[1]
        if fence < event.tick:
            return "no fence of the proxy, and barrier behind it, stands between them"
    if size > 1 and agent.since(size)[0] < event.tick:
        return "no barrier stands between them"
    return ""


def owed(world: World, event: Event, made: Event, lacking: str) -> str:
    """Return the name of the pass that should have ordered two accesses of shared memory, or of registers in flight."""
    views = (event.view, made.view)
    if event.flight:
        mine = all(v.buffer.memory == SH and not v.buffer.guarded for v in views)  # threads overwrite operands
        return "proxies" if mine and flying(event.flight) == "products" else flights.owed(event.flight)
    if any(v.buffer.guarded for v in views):
        apart = any(v.peer is not None for v in views)
        return "exchanges" if apart or any(v.buffer.name in world.sent for v in views) else "rings"
    if flying(made.flight) == "stores":
        return "stores"
    return "proxies" if "fence" in lacking else "barriers"


def held(world: World, made: Event, agent: Agent) -> None:
    """Check that there is a fence between a product and the last access of its registers."""
    table = world.events.get(place(made.view.buffer, agent.rank, agent), {})
    last = max((e for e in table.values() if e.proxy == "generic" and _meets(e, made)), key=_tick, default=None)
    if agent.registers == 0 or (last is not None and last.tick > agent.registers):
        first = "registers before" if last is None else last.words
        world.report(first, made.words, "no fence of registers stands between them", "products")


def keep(world: World, event: Event, rank: int, agent: Agent) -> None:
    """Record an event in place of the last event of the same kind."""
    table = world.events.setdefault(place(event.view.buffer, rank, agent), {})
    key = (event.span, agent.number, event.owner, event.way, event.proxy, event.id)
    old = table.get(key)
    if old is not None and old.flight and old.words != event.words:
        key = (*key, event.tick)
    table[key] = event


def place(buffer: Buffer, rank: int, agent: Agent) -> tuple[int, int, str]:
    """Return the table with a buffer's events."""
    return (rank, agent.number if buffer.memory.registers else 0, buffer.name)


def span(world: World, view: View, agent: Agent, mask: Array | None, whole: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the range of ring slots, or of registers, that an access touches; None where it may touch any."""
    if view.buffer.memory.registers:
        if any(getattr(leaf, "name", "") in whole for leaf in free(view.offset)):
            return None
        first, last = world.number(view.offset, agent, mask), as_int(view.layout.cosize)
        return None if last is None else (first, first + last)
    if view.slot is None or view.buffer.slots == 1:
        return None
    at = world.number(view.slot, agent, mask) % view.buffer.slots
    return (at, at + 1)


def name(s: Call | Compute | Micro) -> str:
    """Describe a statement for messages."""
    return s.atom.name if isinstance(s, Call) else s.name if isinstance(s, Micro) else "threads"


def _tick(event: Event) -> int:
    return event.tick


def _meets(a: Event, b: Event) -> bool:
    return a.span is None or b.span is None or (a.span[0] < b.span[1] and b.span[0] < a.span[1])


def _private(a: Event, b: Event) -> bool:
    """Say whether two agents access different copies of a buffer."""
    units = [e.view.buffer.unit or Block for e in (a, b)]
    return all(u.size is not None and u.size <= WARPGROUP for u in units)


def _scope(a: Event, b: Event, agent: Agent) -> int:
    """Return the number of threads of the smallest unit that both buffers are private to."""
    sizes = [(e.view.buffer.unit or Block).size for e in (a, b)]
    return agent.threads if None in sizes else min(agent.threads, max(s for s in sizes if s is not None))


def read_by_peers(world: World, agents: list[Agent]) -> None:
    """Check at a block's end that other blocks of the cluster have completed their reads of its shared memory."""
    for (rank, _, _), table in world.events.items():
        here = [a for a in agents if a.rank == rank]
        for event in (e for e in table.values() if e.view.peer is not None):
            if all(event.owner != a.number and a.known.get(event.owner, 0) < event.tick for a in here):
                world.report(
                    event.words,
                    "the end of the block",
                    "nothing tells that its peers have read",
                    owed(world, event, event, ""),
                )
