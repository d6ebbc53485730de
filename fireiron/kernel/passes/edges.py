"""The edges of a finished kernel: each access that must come after another one, and whether something orders the two.

The kernel is walked as its agents run it: a block's threads, or each warpgroup of a role, of all blocks of a cluster.
Nothing is computed. An access is a buffer's ring slot (or registers), a direction, a proxy and a completion; agents
hold clocks of what they know to be complete, which barriers, mbarriers and waits pass on. An access that conflicts with
an earlier one that its agent does not know to be complete is an edge that nothing orders.

Loops with many trips are walked for two rounds of every ring at their beginning and at their end. Accesses of global
memory are not followed; only the wait for the launch before is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Any, Literal, TypeAlias, cast

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, as_int, evaluate, free
from fireiron.atoms.flights import flying
from fireiron.kernel.analysis.sampling import reads_and_writes, typical_sizes
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Advance,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Call,
    Commit,
    Compute,
    CountIn,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Kernel,
    Let,
    Lower,
    Micro,
    Raise,
    Region,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    View,
    Wait,
    walk,
)
from fireiron.language.levels import GL, SH, Block, Cluster, Level

Body = tuple[Statement, ...]
Array: TypeAlias = "np.ndarray[Any, Any]"
Blocked = Callable[[], bool]  # whether an agent may go on

WARPGROUP = 128
ITEMS = 3  # work items of a persistent block


@attrs.frozen
class Unordered:
    """Name an edge that nothing orders, or a statement that waits for what never comes.

    Args:
        first: the earlier access, or what is missing.
        then: the later access.
        lacks: what is between them.
    """

    first: str
    then: str
    lacks: str

    def __str__(self) -> str:
        return f"{self.first} -> {self.then}: {self.lacks}"


@attrs.define(eq=False)
class _Event:
    """Hold the last access of one kind.

    Args:
        owner: the agent (or the engine) whose clock counts it.
        tick: when it was made, or completed.
        view: what it touched.
        way: how.
        proxy: generic accesses are fenced before asynchronous ones; what was awaited needs no fence.
        flight: what it is in until it is awaited, "" where it is complete.
        span: first register and the one behind the last, or the ring's slot; None for all.
        words: it, for messages.
        id: of its statement.
    """

    owner: int
    tick: int
    view: View
    way: Literal["read", "write"]
    proxy: Literal["generic", "async", "awaited"]
    flight: str
    span: tuple[int, int] | None
    words: str
    id: int


@attrs.define(eq=False)
class _Group:
    """Hold what is in flight of one group: the open part, and the committed ones, oldest first."""

    open: list[_Event] = attrs.field(factory=list[_Event])
    committed: list[list[_Event]] = attrs.field(factory=list[list[_Event]])


@attrs.define(eq=False)
class _Phase:
    """Hold one slot of an mbarrier of a block."""

    count: int
    engine: int
    pending: int = 0
    nbytes: int = 0
    phase: int = 0
    awaited: int = 0
    told: dict[int, int] = attrs.field(factory=dict[int, int])
    fenced: dict[int, int] = attrs.field(factory=dict[int, int])
    known: tuple[dict[int, int], dict[int, int]] = attrs.field(factory=lambda: ({}, {}))
    remote: bool = False

    def settle(self, now: int) -> None:
        if self.pending == 0 and self.nbytes == 0:
            self.told[self.engine] = self.fenced[self.engine] = now
            self.known = (dict(self.told), dict(self.fenced))
            self.phase += 1
            self.pending = self.count


@attrs.define(eq=False)
class _Agent:
    """Hold threads that run one body together.

    Args:
        number: its clock.
        products: the clock of its unit's products.
        rank: of its block in the cluster.
        role: its role, None for a whole block.
        first: its first thread in the role.
        threads: how many.
        env: values of variables.
        known, proxied: by clock, up to when accesses are complete for all of its threads; for asynchronous ones too.
        partly: the same for some of its threads.
        met: by level's size, its last barrier and the last fence ahead of that.
        fence, registers: its last fence of the proxy, and of registers (0 where a loop that spins stands behind it).
        initialised: the blocks whose mbarriers it may use; -1 - rank where it initialised them itself.
        groups: what is in flight.
        launched: whether it has waited for the launch before.
        wrote: its last write of global memory.
    """

    number: int
    products: int
    rank: int
    role: Role | None
    first: int
    threads: int
    env: dict[str, Any]
    known: dict[int, int] = attrs.field(factory=dict[int, int])
    proxied: dict[int, int] = attrs.field(factory=dict[int, int])
    partly: dict[bytes, tuple[dict[int, int], dict[int, int]]] = attrs.field(
        factory=dict[bytes, tuple[dict[int, int], dict[int, int]]]
    )
    met: dict[int, tuple[int, int]] = attrs.field(factory=dict[int, tuple[int, int]])
    fence: int = 0
    registers: int = 0
    initialised: set[int] = attrs.field(factory=set[int])
    groups: dict[str, _Group] = attrs.field(factory=dict[str, _Group])
    launched: bool = False
    wrote: int = 0

    @property
    def label(self) -> str:
        return "block" if self.role is None else self.role.name

    def grain(self, mask: Array | None) -> int:
        """Give the smallest size of units each of which has a thread here."""
        if mask is None:
            return 1
        here = np.flatnonzero(mask)
        for size in sorted({1, 4, 8, 16, 32, 64, WARPGROUP, self.threads}):
            if self.threads % size == 0 and len(np.unique(here // size)) == self.threads // size:
                return size
        return self.threads

    def since(self, size: int) -> tuple[int, int]:
        """Give the last barrier of units of at least a size, and the fence ahead of it."""
        found = [ticks for level, ticks in self.met.items() if level >= min(size, self.threads)]
        return max((t for t, _ in found), default=0), max((f for _, f in found), default=0)


@attrs.define(eq=False)
class _Gate:
    """Hold a barrier where agents meet: how often it opened, who came since, and what they tell, and then know."""

    opened: int = 0
    threads: int = 0
    agents: list[_Agent] = attrs.field(factory=list[_Agent])
    told: tuple[dict[int, int], dict[int, int]] = attrs.field(factory=lambda: ({}, {}))
    known: tuple[dict[int, int], dict[int, int]] = attrs.field(factory=lambda: ({}, {}))
    initialised: set[int] = attrs.field(factory=set[int])


def _merge(into: dict[int, int], other: Mapping[int, int]) -> None:
    for key, tick in other.items():
        if into.get(key, 0) < tick:
            into[key] = tick


def unordered(kernel: Kernel) -> tuple[Unordered, ...]:
    """List the edges of a kernel that nothing orders: none, where its barriers, waits, phases and fences suffice.

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
        self.now = 1
        self.clocks = 0
        self.found: dict[str, Unordered] = {}
        self.events: dict[tuple[int, int, str], dict[Any, _Event]] = {}
        self.turns: dict[tuple[int, int], _Gate] = {}
        self.meetings: dict[Any, _Gate] = {}
        self.fenced: set[int] = set()
        self.made: set[tuple[int, str]] = set()
        self.forked: list[tuple[_Agent, Iterator[Blocked]]] = []
        calls = [s for s in walk(kernel.body) if isinstance(s, Call)]
        self.holds = any(flying(c.atom.completion) == "products" for c in calls)
        self.tells = kernel.dependent or any(isinstance(s, CountIn | Raise) for s in walk(kernel.body))
        shared = [b for b in kernel.buffers if b.memory == SH]
        self.beside = {
            b.name: [c.name for c in shared if c.offset < b.offset + b.nbytes and b.offset < c.offset + c.nbytes]
            for b in shared
        }
        period = 1
        for slots in {*(b.slots for b in kernel.buffers), *(b.slots for b in kernel.barriers)}:
            period = period * slots // gcd(period, slots)
        self.period = 2 * period  # rings' parities too
        self.barriers: dict[tuple[int, str], list[_Phase]] = {}
        self.body = self.needed(kernel.body)

    # What is walked

    def needed(self, body: Body) -> Body:
        """Leave out what touches neither shared memory nor, where products are in flight, registers."""
        out: list[Statement] = []
        for s in body:
            match s:
                case For(body=inner) | If(body=inner) | Region(body=inner):
                    if inside := self.needed(inner):
                        out.append(attrs.evolve(s, body=inside))
                case Roles(roles=roles):
                    out.append(Roles(tuple(attrs.evolve(r, body=self.needed(r.body)) for r in roles)))
                case Call() | Compute() | Micro():
                    views = reads_and_writes(s)
                    if any(self.follows(v) or (self.tells and v.buffer.memory == GL) for v, _ in views):
                        out.append(s)
                case _:
                    out.append(s)
        # Names are needed by what stands behind them alone.
        return tuple(out) if any(not isinstance(s, Let) for s in out) else ()

    def follows(self, view: View) -> bool:
        return view.buffer.memory == SH or (self.holds and view.buffer.memory.registers)

    def once(self, loop: For) -> bool:
        """Say whether all trips of a loop touch the same: one stands for all."""
        inside = tuple(walk(loop.body))
        plain = all(isinstance(s, Call | Compute | Micro | For | If | Region | Let) for s in inside)
        counted = ("products", "loads")
        if not plain or any(isinstance(s, Call) and flying(s.atom.completion) in counted for s in inside):
            return False
        views = [v for s in inside if isinstance(s, Call | Compute | Micro) for v, _ in reads_and_writes(s)]
        slots = [v.slot for v in views if v.slot is not None and v.buffer.slots > 1]
        return all(loop.var not in free(slot) for slot in slots)

    # Agents and what they wait for

    def clock(self) -> int:
        self.clocks += 1
        return self.clocks

    def tick(self) -> int:
        self.now += 1
        return self.now

    def agent(self, rank: int, role: Role | None, first: int, threads: int, env: Mapping[str, Any]) -> _Agent:
        made = _Agent(self.clock(), self.clock(), rank, role, first, threads, dict(env))
        made.env[THREAD] = np.arange(first, first + threads)
        return made

    def run(self, sizes: Mapping[str, int], block: int) -> tuple[Unordered, ...]:
        """Run the blocks of one cluster.

        Args:
            sizes: of symbols, and how many blocks there are.
            block: the number of the cluster's first one.
        """
        kernel = self.kernel
        pending: list[tuple[_Agent, Iterator[Blocked]]] = []
        agents: list[_Agent] = []
        for rank in range(kernel.cluster):
            for b in kernel.barriers:
                self.barriers[rank, b.name] = [_Phase(b.count, self.clock(), b.count) for _ in range(b.slots)]
            env = {**sizes, BLOCK: block + rank, RANK: rank}
            whole = self.agent(rank, None, 0, kernel.threads, env)
            agents.append(whole)
            pending.append((whole, self.walk(self.body, whole, None, ())))
        waiting: list[tuple[_Agent, Iterator[Blocked], Blocked]] = []
        while pending or waiting:
            moved = bool(pending)
            for agent, steps in pending:
                self.step(agent, steps, waiting)
            pending = []
            still: list[tuple[_Agent, Iterator[Blocked], Blocked]] = []
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
                    self.report("", f"{agent.label} waits", "what it waits for never comes")
                return tuple(self.found.values())
        self.end(agents)
        return tuple(self.found.values())

    def step(
        self, agent: _Agent, steps: Iterator[Blocked], waiting: list[tuple[_Agent, Iterator[Blocked], Blocked]]
    ) -> None:
        ready = next(steps, None)
        if ready is not None:
            waiting.append((agent, steps, ready))

    def end(self, agents: list[_Agent]) -> None:
        """See that nothing is in flight where a block ends, and that peers' reads and arrivals were awaited."""
        for agent in agents:
            for name, group in agent.groups.items():
                for event in (*group.open, *(e for part in group.committed for e in part)):
                    if event.flight and event.view.buffer.memory == SH:
                        self.report(event.words, "the end of the block", f"it is still in flight ({name})")
        for (rank, _, _), table in self.events.items():
            here = [a for a in agents if a.rank == rank]
            for event in (e for e in table.values() if e.view.peer is not None):
                if all(event.owner != a.number and a.known.get(event.owner, 0) < event.tick for a in here):
                    self.report(event.words, "the end of the block", "nothing tells that its peers have read")
        for (_, name), ring in self.barriers.items():
            if any(p.remote and p.phase > p.awaited for p in ring):
                self.report(f"peers arrive at {name}", "the end of the block", "nothing awaits them")

    def report(self, first: str, then: str, lacks: str) -> None:
        made = Unordered(first, then, lacks)
        self.found.setdefault(str(made), made)

    # Statements

    def value(self, e: Expr, agent: _Agent) -> Any:
        known = as_int(e)
        if known is not None:
            return known
        found = evaluate(e, agent.env)
        return int(found) if isinstance(found, np.integer) else found

    def number(self, e: Expr, agent: _Agent, mask: Array | None) -> int:
        found = self.value(e, agent)
        if isinstance(found, int):
            return found
        found = np.broadcast_to(found, (agent.threads,))
        return int((found if mask is None else found[mask])[0])

    def walk(self, body: Body, agent: _Agent, mask: Array | None, whole: tuple[str, ...]) -> Iterator[Blocked]:
        """Run a body, stopping where the agent may have to wait.

        Args:
            body: the statements.
            agent: who runs them.
            mask: which of its threads, None for all.
            whole: variables of loops of which one trip stands for all.
        """
        for s in body:
            match s:
                case Let(var=var, value=value):
                    agent.env[var.name] = self.value(value, agent)
                case FindGroup():
                    self.find(s, agent)
                case Fetch(var=var):
                    agent.env[var.name] = 0
                case Region(body=inner):
                    yield from self.walk(inner, agent, mask, whole)
                case If(condition=condition, body=inner):
                    here = self.here(condition, agent, mask)
                    if here is not False:
                        yield from self.walk(inner, agent, None if here is True else here, whole)
                case For():
                    yield from self.loop(s, agent, mask, whole)
                case Call() | Compute() | Micro():
                    self.access(s, agent, mask, whole)
                case Sync(level=level, relaxed=relaxed):
                    yield from self.sync(level, agent, mask, relaxed)
                case CountIn(var=var, level=level):
                    self.tell(agent, level, "a counter in global memory")
                    yield from self.sync(level, agent, mask, False)
                    agent.env[var.name] = 1
                case Lower(level=level):
                    self.global_access(agent, "a flag in global memory")
                    yield from self.sync(level, agent, mask, False)
                case Raise(level=level):
                    self.tell(agent, level, "a flag in global memory")
                case Commit(group=group):
                    flight = agent.groups.setdefault(group, _Group())
                    flight.committed.append(flight.open)
                    flight.open = []
                case Wait():
                    self.wait(s, agent)
                case InitBarriers(barriers=barriers):
                    agent.initialised.add(-1 - agent.rank)
                    self.made |= {(agent.rank, b.name) for b in barriers}
                case Await():
                    yield from self.awaits(s, agent, mask)
                case Arrive():
                    self.arrive(s, agent, mask)
                case Advance(cursor=cursor, by=by):
                    at = agent.env[cursor.slot.name] + self.number(by, agent, mask)
                    wraps = at // cursor.slots
                    agent.env[cursor.slot.name] = at - wraps * cursor.slots
                    agent.env[cursor.parity.name] = (agent.env[cursor.parity.name] + wraps) % 2
                case Fence(kind=kind):
                    self.fences(kind, agent)
                case Turn():
                    yield from self.turn(s, agent, mask)
                case Roles(roles=roles):
                    self.fork(roles, agent)
                case _:
                    pass

    def here(self, condition: Expr, agent: _Agent, mask: Array | None) -> Array | bool:
        """Say which threads a condition holds in: all, none, or some."""
        found = self.value(condition, agent)
        if isinstance(found, int):
            return bool(found) and (True if mask is None else mask)
        holds = np.broadcast_to(found, (agent.threads,)) != 0
        wanted = holds if mask is None else holds & mask
        if not wanted.any():
            return False
        return True if mask is None and wanted.all() else wanted

    def loop(self, loop: For, agent: _Agent, mask: Array | None, whole: tuple[str, ...]) -> Iterator[Blocked]:
        extent = self.number(loop.extent, agent, mask)
        trips: list[int] = list(range(extent))
        if self.once(loop):
            trips, whole = trips[:1], (*whole, loop.var.name)
        elif extent > 3 * self.period:
            left = 2 * self.period + extent % self.period
            trips = trips[: self.period] + trips[extent - left + self.period :]
        for trip in trips:
            agent.env[loop.var.name] = trip
            yield from self.walk(loop.body, agent, mask, whole)

    def find(self, s: FindGroup, agent: _Agent) -> None:
        """Let groups have all the same number of rows, but for the rest."""
        groups = s.groups
        count, rows = self.number(groups.count, agent, None), self.number(groups.rows, agent, None)
        items, item = self.number(groups.items, agent, None), self.number(s.item, agent, None)
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

    def fork(self, roles: tuple[Role, ...], parent: _Agent) -> None:
        """Begin roles: each warpgroup that runs products is an agent of its own."""
        made: list[tuple[_Agent, Iterator[Blocked]]] = []
        for role in roles:
            apart = role.threads % WARPGROUP == 0 and any(
                isinstance(s, Call) and flying(s.atom.completion) == "products" for s in walk(role.body)
            )
            size = WARPGROUP if apart else role.threads
            for first in range(0, role.threads, size):
                agent = self.agent(parent.rank, role, first, size, {**parent.env})
                for name, value in parent.env.items():
                    if isinstance(value, np.ndarray) and name != THREAD:
                        agent.env[name] = value[role.first + first : role.first + first + size]
                for cursor in role.cursors:
                    agent.env[cursor.slot.name] = agent.env[cursor.parity.name] = 0
                agent.initialised = {rank for rank in parent.initialised if rank >= 0}
                agent.launched = parent.launched
                if role.first + first == 0 and -1 - parent.rank in parent.initialised:
                    agent.initialised.add(parent.rank)
                made.append((agent, self.walk(role.body, agent, None, ())))
        self.forked = [*self.forked, *made]

    # What orders

    def fences(self, kind: str, agent: _Agent) -> None:
        if kind == "proxy.async":
            agent.fence = self.tick()
        elif kind == "registers":
            agent.registers = self.tick()
        elif kind == "barrier.init" and -1 - agent.rank in agent.initialised:
            self.fenced.add(agent.rank)
        elif kind == "grid.wait":
            agent.launched = True

    def global_access(self, agent: _Agent, words: str) -> None:
        if self.kernel.dependent and not agent.launched:
            self.report("the launch before", words, "no grid.wait stands between them")

    def tell(self, agent: _Agent, level: Level, words: str) -> None:
        """See that a barrier stands between what a unit wrote and what tells other blocks of it."""
        self.global_access(agent, words)
        if agent.since(level.size or agent.threads)[0] < agent.wrote:
            self.report("a write of global memory", words, "no barrier stands between them")

    def wait(self, s: Wait, agent: _Agent) -> None:
        group = agent.groups.setdefault(s.group, _Group())
        kind, now = flying(s.group), self.tick()
        done = group.committed[: max(0, len(group.committed) - s.pending)]
        if not s.reads_only:
            group.committed = group.committed[len(done) :]
        for event in (e for part in done for e in part):
            if not event.flight or (s.reads_only and event.way == "write"):
                continue
            event.flight, event.tick, event.proxy = "", now, "awaited"
            if kind == "products":  # a whole unit waits, and knows
                event.owner = agent.products
                agent.known[agent.products] = agent.proxied[agent.products] = now

    def sync(self, level: Level, agent: _Agent, mask: Array | None, relaxed: bool) -> Iterator[Blocked]:
        size = level.size
        inside = size is not None and size <= agent.threads
        if inside or (level == Block and agent.role is None):
            self.meet(agent, size if inside and size is not None else agent.threads)
            if not inside or size == agent.threads:
                agent.initialised |= {-1 - r for r in agent.initialised if r < 0 and -1 - r in self.fenced}
            return
        unit = 0 if size is None else agent.first // size
        key = (None if level == Cluster else agent.rank, agent.role and agent.role.name, level.name, unit)
        threads = self.kernel.threads if agent.role is None else agent.role.threads
        many = size if size is not None else threads * (self.kernel.cluster if level == Cluster else 1)
        gate = self.meetings.setdefault(key, _Gate())
        turn = gate.opened
        gate.agents.append(agent)
        if sum(a.threads for a in gate.agents) < many:
            yield lambda: gate.opened > turn
            return
        here, gate.agents, gate.opened = gate.agents, [], turn + 1
        names = {-1 - r if r < 0 else r for a in here for r in a.initialised if r >= 0 or -1 - r in self.fenced}
        for a in here:
            a.initialised |= names
        if not relaxed:
            self.together(here)

    def meet(self, agent: _Agent, size: int) -> None:
        """Let units of one agent meet."""
        now = self.tick()
        agent.met[size] = (now, agent.fence)
        for key in list(agent.partly):
            if agent.grain(np.frombuffer(key, bool)) <= size:
                known, proxied = agent.partly.pop(key)
                _merge(agent.known, known)
                _merge(agent.proxied, proxied)

    def together(self, agents: list[_Agent]) -> None:
        for a in agents:
            self.meet(a, a.threads)
        now = self.tick()
        for a in agents:
            a.known[a.number], a.proxied[a.number] = now, a.fence
        for a in agents:
            for b in agents:
                _merge(a.known, b.known)
                _merge(a.proxied, b.proxied)

    def released(self, agent: _Agent, mask: Array | None) -> tuple[dict[int, int], dict[int, int]]:
        """Give what those of an agent's threads that are here know, and what they did themselves."""
        known, proxied = dict(agent.known), dict(agent.proxied)
        if mask is not None and mask.tobytes() in agent.partly:
            more = agent.partly[mask.tobytes()]
            _merge(known, more[0])
            _merge(proxied, more[1])
        grain = agent.grain(mask)
        own = (self.tick(), agent.fence) if grain == 1 else agent.since(grain)
        known[agent.number], proxied[agent.number] = own
        return known, proxied

    def learn(self, agent: _Agent, mask: Array | None, told: tuple[dict[int, int], dict[int, int]]) -> None:
        into = (agent.known, agent.proxied)
        if mask is not None:
            into = agent.partly.setdefault(mask.tobytes(), ({}, {}))
        for mine, theirs in zip(into, told, strict=True):
            _merge(mine, theirs)

    def usable(self, barrier: Barrier, rank: int, agent: _Agent) -> None:
        if rank not in agent.initialised or (rank, barrier.name) not in self.made:
            self.report(f"{barrier.name} is initialised", f"{agent.label} uses it", "no fence and barrier between them")

    def awaits(self, s: Await, agent: _Agent, mask: Array | None) -> Iterator[Blocked]:
        self.usable(s.barrier, agent.rank, agent)
        slot = self.barriers[agent.rank, s.barrier.name][self.number(s.slot, agent, mask)]
        parity = self.number(s.parity, agent, mask)
        if slot.phase % 2 == parity:
            yield lambda: slot.phase % 2 != parity
        slot.awaited = max(slot.awaited, slot.phase)
        agent.registers = 0  # a loop that spins orders no registers for the products behind it
        self.learn(agent, mask, slot.known)

    def arrive(self, s: Arrive, agent: _Agent, mask: Array | None) -> None:
        threads = np.arange(agent.threads) if mask is None else np.flatnonzero(mask)
        slots = np.broadcast_to(self.value(s.slot, agent), (agent.threads,))[threads]
        ranks = np.full(len(threads), agent.rank)
        if s.peer is not None:
            ranks = np.broadcast_to(self.value(s.peer, agent), (agent.threads,))[threads]
        told = self.released(agent, mask)
        for rank, at in zip(map(int, ranks), map(int, slots), strict=True):
            self.usable(s.barrier, rank, agent)
            slot = self.barriers[rank, s.barrier.name][at]
            slot.remote |= rank != agent.rank
            slot.pending -= 1
            if slot.pending < 0:
                self.report(f"{s.barrier.name} counts {slot.count}", f"{agent.label} arrives", "the phase is complete")
            slot.nbytes += s.nbytes
            _merge(slot.told, told[0])
            _merge(slot.fenced, told[1])
            slot.settle(self.tick())

    def turn(self, s: Turn, agent: _Agent, mask: Array | None) -> Iterator[Blocked]:
        gate = self.turns.setdefault((agent.rank, s.number), _Gate())
        at = gate.opened
        gate.threads += agent.threads if mask is None else int(mask.sum())
        for mine, theirs in zip(gate.told, self.released(agent, mask), strict=True):
            _merge(mine, theirs)
        gate.initialised |= {r for r in agent.initialised if r in self.fenced}
        if gate.threads > s.threads:
            self.report(f"barrier {s.number} counts {s.threads} threads", f"{agent.label} arrives", "it has opened")
        if gate.threads >= s.threads:
            gate.opened, gate.threads, gate.known = at + 1, 0, (dict(gate.told[0]), dict(gate.told[1]))
        elif s.waits:
            yield lambda: gate.opened > at
        if s.waits:
            self.learn(agent, mask, gate.known)
            agent.initialised |= gate.initialised

    # Accesses

    def access(self, s: Call | Compute | Micro, agent: _Agent, mask: Array | None, whole: tuple[str, ...]) -> None:
        if s.write is not None:
            here = self.here(s.write, agent, mask)
            if here is False:
                return
        pairs = reads_and_writes(s)
        if self.kernel.dependent and any(v.buffer.memory == GL for v, _ in pairs):
            self.global_access(agent, "an access of global memory")
        if any(way == "write" and v.buffer.memory == GL for v, way in pairs):
            agent.wrote = self.tick()
        flight = s.atom.completion if isinstance(s, Call) else ""
        kind = flying(flight)
        for view, way in pairs:
            if not self.follows(view):
                continue
            if kind == "stores" and view.buffer.memory != SH:
                continue
            proxy: Literal["generic", "async"] = "async" if kind in ("products", "stores", "loads") else "generic"
            span = self.span(view, agent, mask, whole)
            direction: Literal["read", "write"] = "read" if way == "read" else "write"
            words = f"{view.buffer.name} {'read' if way == 'read' else 'written'} by {self.name(s)} ({agent.label})"
            landing = flight if kind in ("products", "stores") or (kind == "copies" and way == "write") else ""
            made = _Event(agent.number, 0, view, direction, proxy, landing, span, words, s.id)
            if kind == "products" and view.buffer.memory.registers:
                self.held(made, agent)
            if kind == "loads":
                assert isinstance(s, Call)
                self.load(s, made, agent, mask)
                continue
            if kind == "copies":
                made.flight = landing
            rank = agent.rank if view.peer is None else self.number(view.peer, agent, mask)
            self.conflicts(made, agent, mask, rank)
            made.tick = self.tick()
            if landing:
                agent.groups.setdefault(flight, _Group()).open.append(made)
            self.keep(made, rank, agent)

    def name(self, s: Call | Compute | Micro) -> str:
        return s.atom.name if isinstance(s, Call) else s.name if isinstance(s, Micro) else "threads"

    def span(self, view: View, agent: _Agent, mask: Array | None, whole: tuple[str, ...]) -> tuple[int, int] | None:
        """Give the ring's slot, or the registers, that an access touches; None where they may be any."""
        if view.buffer.memory.registers:
            if any(getattr(leaf, "name", "") in whole for leaf in free(view.offset)):
                return None
            first, last = self.number(view.offset, agent, mask), as_int(view.layout.cosize)
            return None if last is None else (first, first + last)
        if view.slot is None or view.buffer.slots == 1:
            return None
        at = self.number(view.slot, agent, mask) % view.buffer.slots
        return (at, at + 1)

    def load(self, s: Call, made: _Event, agent: _Agent, mask: Array | None) -> None:
        """Let a box land at once, in each block that it is sent to."""
        assert s.signal is not None and s.map is not None
        barrier, slot = s.signal
        peers = 1 << agent.rank if s.peers is None else self.number(s.peers, agent, mask)
        nbytes = s.map.buffer.dtype.nbytes
        for extent in s.map.box:
            nbytes *= extent
        at = self.number(slot, agent, mask)
        for rank in (r for r in range(self.kernel.cluster) if peers >> r & 1):
            self.usable(barrier, rank, agent)
            phase = self.barriers[rank, barrier.name][at]
            self.conflicts(made, agent, mask, rank)
            event = attrs.evolve(made, owner=phase.engine, tick=self.tick(), proxy="awaited", flight="")
            self.keep(event, rank, agent)
            phase.nbytes -= nbytes
            phase.settle(self.tick())

    def place(self, buffer: Buffer, rank: int, agent: _Agent) -> tuple[int, int, str]:
        return (rank, agent.number if buffer.memory.registers else 0, buffer.name)

    def keep(self, event: _Event, rank: int, agent: _Agent) -> None:
        table = self.events.setdefault(self.place(event.view.buffer, rank, agent), {})
        key = (event.span, agent.number, event.owner, event.way, event.proxy, event.id)
        old = table.get(key)
        if old is not None and old.flight and old.words != event.words:
            key = (*key, event.tick)
        table[key] = event

    def held(self, made: _Event, agent: _Agent) -> None:
        """See that a fence stands between the last access of a product's registers and the product."""
        table = self.events.get(self.place(made.view.buffer, agent.rank, agent), {})
        last = max((e for e in table.values() if e.proxy == "generic" and _meets(e, made)), key=_tick, default=None)
        if agent.registers == 0 or (last is not None and last.tick > agent.registers):
            first = "registers before" if last is None else last.words
            self.report(first, made.words, "no fence of registers stands between them")

    def conflicts(self, made: _Event, agent: _Agent, mask: Array | None, rank: int) -> None:
        """See that every earlier access that an access conflicts with is complete, and known to be."""
        buffer = made.view.buffer
        names = [buffer.name] if buffer.memory.registers else self.beside[buffer.name]
        known, proxied = agent.known, agent.proxied
        if mask is not None and mask.tobytes() in agent.partly:
            known, proxied = dict(known), dict(proxied)
            _merge(known, agent.partly[mask.tobytes()][0])
            _merge(proxied, agent.partly[mask.tobytes()][1])
        for name in names:
            place = (rank, agent.number if buffer.memory.registers else 0, name)
            for event in self.events.get(place, {}).values():
                if event.way == "read" and made.way == "read":
                    continue
                if event.way == made.way and event.id == made.id:
                    continue
                if name == buffer.name and not _meets(event, made):
                    continue
                lacks = self.lacks(event, made, agent, known, proxied)
                if lacks:
                    self.report(event.words, made.words, lacks)

    def lacks(
        self, event: _Event, made: _Event, agent: _Agent, known: Mapping[int, int], proxied: Mapping[int, int]
    ) -> str:
        """Say what is missing between two accesses, "" where nothing is."""
        mine = event.owner in (agent.number, agent.products)
        if not mine and _private(event, made):
            return ""
        if event.flight:
            both = flying(event.flight) == "products" and made.flight == event.flight
            if both and event.owner == agent.number:  # products of one unit go in order
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


def _tick(event: _Event) -> int:
    return event.tick


def _meets(a: _Event, b: _Event) -> bool:
    return a.span is None or b.span is None or (a.span[0] < b.span[1] and b.span[0] < a.span[1])


def _private(a: _Event, b: _Event) -> bool:
    """Say whether two agents' accesses are of copies of their own."""
    units = [e.view.buffer.unit or Block for e in (a, b)]
    return all(u.size is not None and u.size <= WARPGROUP for u in units)


def _scope(a: _Event, b: _Event, agent: _Agent) -> int:
    """Give the threads of the narrowest unit that both buffers are private to."""
    sizes = [(e.view.buffer.unit or Block).size for e in (a, b)]
    return agent.threads if None in sizes else min(agent.threads, max(s for s in sizes if s is not None))
