"""The edge verifier: checks that something orders each pair of conflicting accesses (an edge) of a kernel.

The verifier executes the kernel's control flow for each agent: a block's threads, or each warpgroup of a role, for all
blocks of a cluster. No element's value is computed. An access has a buffer's ring slot (or registers), a direction, a
proxy and a completion. Each agent has vector clocks of the accesses that are complete for it; barriers, mbarriers and
waits copy clocks from agent to agent. A finding is an access that conflicts with an earlier access which is not
complete for the accessing agent.

The rules stand in `kernel/edges`, one in each file: order of conflicting accesses (accesses.py), waits for asynchronous
operations (flights.py), phases of mbarriers (phases.py), barriers (meetings.py), and the previous launch (launches.py).

Of loops with many trips, two rounds of every ring are executed at the beginning and at the end. Accesses of global
memory are not checked, except for the wait for the previous launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import cast

import numpy as np

from fireiron.algebra.expr import evaluate, free
from fireiron.atoms.flights import flying
from fireiron.kernel.analysis.sampling import reads_and_writes, typical_sizes
from fireiron.kernel.edges import accesses, flights, launches, meetings, phases
from fireiron.kernel.edges.agents import WARPGROUP, Agent, Array, Blocked, Phase, Unordered
from fireiron.kernel.edges.world import World
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.rewrite import reduced
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Advance,
    Arrive,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Kernel,
    Let,
    Lower,
    Meet,
    Micro,
    Raise,
    Region,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    Vote,
    Wait,
    walk,
)
from fireiron.language.levels import GL

Body = tuple[Statement, ...]
ITEMS = 3  # work items of a persistent block


def unordered(kernel: Kernel) -> tuple[Unordered, ...]:
    """List the edges of a kernel that nothing orders; () where its barriers, waits, phases and fences suffice.

    Example:
        >>> import fireiron as fi
        >>> from fireiron.schedules import simt
        >>> unordered(simt.sgemm(fi.matmul(256, 256, 64)).lowered())
        ()
    """
    found: dict[Unordered, None] = {}
    sizes = typical_sizes(kernel)
    most = int(cast("int", evaluate(kernel.grid, sizes))) // kernel.cluster * kernel.cluster
    places = {(most, 0), (most, most - kernel.cluster)}
    if kernel.persistent:
        places.add((-(-most // (ITEMS * kernel.cluster)) * kernel.cluster, 0))
    for blocks, block in sorted(places):
        found |= dict.fromkeys(_Walk(kernel).run({**sizes, BLOCKS: blocks}, block))
    return tuple(found)


class _Walk:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.world = World(kernel)
        self.forked: list[tuple[Agent, Iterator[Blocked]]] = []
        period = 1
        for slots in {*(b.slots for b in kernel.buffers), *(b.slots for b in kernel.barriers)}:
            period = period * slots // gcd(period, slots)
        self.period = 2 * period  # rings' parities too
        self.body = reduced(kernel.body, self.needed)

    def needed(self, s: Statement) -> bool:
        """Say whether a statement orders accesses, or accesses shared memory or registers of products in flight."""
        if not isinstance(s, Call | Compute | Micro):
            return True
        return any(
            self.world.follows(v) or (self.world.tells and v.buffer.memory == GL) for v, _ in reads_and_writes(s)
        )

    def once(self, loop: For) -> bool:
        """Return whether all trips of a loop access the same places, so that checking one trip is enough."""
        inside = tuple(walk(loop.body))
        plain = all(isinstance(s, Call | Compute | Micro | For | If | Region | Let) for s in inside)
        counted = ("products", "loads", "sends")
        if not plain or any(isinstance(s, Call) and flying(s.atom.completion) in counted for s in inside):
            return False
        views = [v for s in inside if isinstance(s, Call | Compute | Micro) for v, _ in reads_and_writes(s)]
        slots = [v.slot for v in views if v.slot is not None and v.buffer.slots > 1]
        return all(loop.var not in free(slot) for slot in slots)

    def run(self, sizes: Mapping[str, int], block: int) -> tuple[Unordered, ...]:
        """Run the blocks of one cluster.

        Args:
            sizes: values of symbols, and the number of blocks.
            block: the number of the cluster's first block.
        """
        kernel = self.kernel
        pending: list[tuple[Agent, Iterator[Blocked]]] = []
        agents: list[Agent] = []
        for rank in range(kernel.cluster):
            for b in kernel.barriers:
                self.world.barriers[rank, b.name] = [
                    Phase(b.count, self.world.clock(), b.count) for _ in range(b.slots)
                ]
            env = {**sizes, BLOCK: block + rank, RANK: rank}
            whole = self.world.agent(rank, None, 0, kernel.threads, env)
            agents.append(whole)
            pending.append((whole, self.walk(self.body, whole, None, ())))
        waiting: list[tuple[Agent, Iterator[Blocked], Blocked]] = []
        while pending or waiting:
            moved = bool(pending)
            for agent, steps in pending:
                self.step(agent, steps, waiting)
            pending = []
            still: list[tuple[Agent, Iterator[Blocked], Blocked]] = []
            for agent, steps, ready in waiting:
                if ready():
                    moved = True
                    self.step(agent, steps, still)
                else:
                    still.append((agent, steps, ready))
            for role_agent in self.forked:
                agents.append(role_agent[0])
                pending.append(role_agent)
            self.forked = []
            waiting = still
            if not moved and not pending:
                for agent, _, _ in waiting:
                    self.world.report("", f"{agent.label} waits", "what it waits for never comes", agent.waits)
                return tuple(self.world.found.values())
        flights.landed(self.world, agents)
        accesses.read_by_peers(self.world, agents)
        phases.all_awaited(self.world)
        return tuple(self.world.found.values())

    def step(
        self, agent: Agent, steps: Iterator[Blocked], waiting: list[tuple[Agent, Iterator[Blocked], Blocked]]
    ) -> None:
        ready = next(steps, None)
        if ready is not None:
            waiting.append((agent, steps, ready))

    def walk(self, body: Body, agent: Agent, mask: Array | None, whole: tuple[str, ...]) -> Iterator[Blocked]:
        """Run a body, stopping where the agent may have to wait.

        Args:
            body: the statements.
            agent: the agent that executes the statements.
            mask: which of the agent's threads are active, None for all.
            whole: variables of loops of which one trip stands for all.
        """
        for s in body:
            match s:
                case Let(var=var, value=value):
                    agent.env[var.name] = self.world.value(value, agent)
                case FindGroup():
                    self.find(s, agent)
                case Draw(var=var):
                    agent.env[var.name] = self.world.value(s.expected, agent)
                case Fetch(var=var):
                    agent.env[var.name] = 0
                case Vote(var=var):  # both outcomes are walked
                    agent.env[var.name] = s.taken
                case Region(body=inner):
                    yield from self.walk(inner, agent, mask, whole)
                case If(condition=condition, body=inner):
                    here = self.world.here(condition, agent, mask)
                    if here is not False:
                        yield from self.walk(inner, agent, None if here is True else here, whole)
                case For():
                    yield from self.loop(s, agent, mask, whole)
                case Call() | Compute() | Micro():
                    accesses.access(self.world, s, agent, mask, whole)
                case Sync(level=level, relaxed=relaxed):
                    yield from meetings.sync(self.world, level, agent, relaxed)
                case CountIn(var=var, level=level):
                    launches.tell(self.world, agent, level, "a counter in global memory")
                    yield from meetings.sync(self.world, level, agent, False)
                    agent.env[var.name] = 1
                case Meet(level=level):
                    launches.tell(self.world, agent, level, "a counter in global memory")
                    yield from meetings.sync(self.world, level, agent, False)
                case Lower(level=level):
                    launches.global_access(self.world, agent, "a flag in global memory")
                    yield from meetings.sync(self.world, level, agent, False)
                case Raise(level=level):
                    launches.tell(self.world, agent, level, "a flag in global memory")
                case Commit(group=group):
                    flights.commit(agent, group)
                case Wait():
                    flights.wait(self.world, s, agent)
                case InitBarriers(barriers=barriers):
                    agent.initialised.add(-1 - agent.rank)
                    self.world.made |= {(agent.rank, b.name) for b in barriers}
                case Await():
                    yield from phases.awaits(self.world, s, agent, mask)
                case Arrive():
                    phases.arrive(self.world, s, agent, mask)
                case Advance(cursor=cursor, by=by):
                    at = agent.env[cursor.slot.name] + self.world.number(by, agent, mask)
                    wraps = at // cursor.slots
                    agent.env[cursor.slot.name] = at - wraps * cursor.slots
                    agent.env[cursor.parity.name] = (agent.env[cursor.parity.name] + wraps) % 2
                case Fence(kind=kind):
                    self.fences(kind, agent)
                case Turn():
                    yield from meetings.turn(self.world, s, agent, mask)
                case Roles(roles=roles):
                    self.fork(roles, agent)
                case _:
                    pass

    def loop(self, loop: For, agent: Agent, mask: Array | None, whole: tuple[str, ...]) -> Iterator[Blocked]:
        extent = self.world.number(loop.extent, agent, mask)
        trips: list[int] = list(range(extent))
        if self.once(loop):
            trips, whole = trips[:1], (*whole, loop.var.name)
        elif extent > 3 * self.period:
            left = 2 * self.period + extent % self.period
            trips = trips[: self.period] + trips[extent - left + self.period :]
        for trip in trips:
            agent.env[loop.var.name] = trip
            yield from self.walk(loop.body, agent, mask, whole)

    def find(self, s: FindGroup, agent: Agent) -> None:
        """Set the variables of a search as if all groups had the same number of rows, the last groups perhaps less."""
        groups = s.groups
        count, rows = self.world.number(groups.count, agent, None), self.world.number(groups.rows, agent, None)
        items, item = self.world.number(groups.items, agent, None), self.world.number(s.item, agent, None)
        ends = [rows * (g + 1) // count for g in range(count)]
        begin = first = group = 0
        while group < count:
            many = -(-(ends[group] - begin) // groups.size) * items
            if item < first + many:
                break
            first, begin, group = first + many, ends[group], group + 1
        length = (ends[group] if group < count else begin) - begin
        names = (groups.group, groups.first, groups.begin, groups.length)
        agent.env.update({v.name: x for v, x in zip(names, (group, first, begin, length), strict=True)})

    def fork(self, roles: tuple[Role, ...], parent: Agent) -> None:
        """Make the agents of roles: one for each role, or for each warpgroup of a role that executes products."""
        made: list[tuple[Agent, Iterator[Blocked]]] = []
        for role in roles:
            apart = role.threads % WARPGROUP == 0 and any(starts(s, "products") for s in walk(role.body))
            size = WARPGROUP if apart else role.threads
            for first in range(0, role.threads, size):
                agent = self.world.agent(parent.rank, role, first, size, {**parent.env})
                for name, value in parent.env.items():
                    if isinstance(value, np.ndarray) and name != THREAD:
                        agent.env[name] = value[role.first + first : role.first + first + size]
                for cursor in role.cursors:
                    agent.env[cursor.slot.name] = agent.env[cursor.parity.name] = 0
                agent.initialised = {rank for rank in parent.initialised if rank >= 0}
                agent.launched = parent.launched
                if role.first + first == 0 and -1 - parent.rank in parent.initialised:
                    agent.initialised.add(-1 - parent.rank)
                made.append((agent, self.walk(role.body, agent, None, ())))
        self.forked = [*self.forked, *made]

    def fences(self, kind: str, agent: Agent) -> None:
        if kind == "proxy.async":
            agent.fence = self.world.tick()
        elif kind == "registers":
            agent.registers = self.world.tick()
        elif kind == "barrier.init" and -1 - agent.rank in agent.initialised:
            self.world.fenced.add(agent.rank)
        elif kind == "grid.wait":
            agent.launched = True
