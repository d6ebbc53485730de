"""Records of the edge verifier: agents (groups of threads that run one body), their clocks, and their events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np

from fireiron.kernel.ir.statements import Role, View

Array: TypeAlias = "np.ndarray[Any, Any]"
Blocked = Callable[[], bool]  # whether an agent may continue

WARPGROUP = 128


@attrs.frozen
class Unordered:
    """Hold a finding: two conflicting accesses that nothing orders, or a wait for an event that never happens.

    Args:
        first: the earlier access, or the missing event.
        then: the later access.
        lacks: the missing barrier, wait or fence between the two accesses, in words.
        owed: the name of the pass that should have inserted what is missing.
    """

    first: str
    then: str
    lacks: str
    owed: str

    def __str__(self) -> str:
        return f"{self.first} -> {self.then}: {self.lacks}"


@attrs.define(eq=False)
class Event:
    """Hold the last access of one kind (buffer, agent, read or write).

    Args:
        owner: number of the clock that counts the access: an agent's, or an asynchronous engine's.
        tick: the time of the access, or of its completion.
        view: the accessed elements.
        way: read or write.
        proxy: whether ordinary instructions (generic) or asynchronous ones made the access; between a generic access
            and an asynchronous access of the same memory there must be a fence. An access that was waited for needs
            none.
        flight: the group of asynchronous operations that the access belongs to until a wait completes it; "" for a
            complete access.
        span: the range of registers or ring slots; None for all.
        words: the description of the access in messages.
        id: number of the statement.
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
class Group:
    """Hold the operations of one kind that are in flight.

    Args:
        open: operations that are not committed yet.
        committed: the committed groups of operations, oldest first.
    """

    open: list[Event] = attrs.field(factory=list[Event])
    committed: list[list[Event]] = attrs.field(factory=list[list[Event]])


@attrs.define(eq=False)
class Phase:
    """Hold one slot of an mbarrier of a block.

    Args:
        count: number of arrivals that complete a phase.
        engine: number of the clock of the bulk copies whose bytes the slot counts.
        pending: number of arrivals that the current phase still lacks.
        nbytes: number of announced bytes that have not landed.
        phase: number of completed phases.
        awaited: number of completed phases at the last wait.
        told, fenced: for each clock, the tick up to which accesses are ordered before the arrivals of this phase;
            `fenced` also for asynchronous accesses.
        known: `told` and `fenced` when the last phase was completed.
        remote: whether threads of another block arrive.
    """

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
        """Complete the phase if all arrivals have been made and all bytes have landed."""
        if self.pending == 0 and self.nbytes == 0:
            self.told[self.engine] = self.fenced[self.engine] = now
            self.known = (dict(self.told), dict(self.fenced))
            self.phase += 1
            self.pending = self.count


@attrs.define(eq=False)
class Agent:
    """Hold a group of threads that run one body together.

    Args:
        number: number of the agent's clock.
        products: number of the clock of the asynchronous products of the agent's unit.
        rank: index of the agent's block in the cluster.
        role: the role whose code the agent runs, None for a whole block.
        first: number of the agent's first thread in the role.
        threads: number of the agent's threads.
        env: values of variables.
        known, proxied: for each clock, the tick up to which accesses are complete for all threads of the agent;
            `proxied` also for asynchronous accesses.
        partly: `known` and `proxied` of some threads of the agent, by the threads' mask.
        met: for each size of a unit, in threads: the times of the unit's last barrier and of the last fence before it.
        fence, registers: times of the last proxy fence and of the last register fence (0 if a spinning loop follows
            it).
        initialised: ranks of the blocks whose mbarriers the agent may use; -1 - rank where the agent initialised them.
        groups: the asynchronous operations in flight, by kind.
        launched: whether the agent has waited for the previous launch.
        wrote: the time of the last write to global memory.
        waits: while the agent waits, the name of the pass that inserted the wait.
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
    groups: dict[str, Group] = attrs.field(factory=dict[str, Group])
    launched: bool = False
    wrote: int = 0
    waits: str = ""

    @property
    def label(self) -> str:
        """Describe the agent in messages."""
        return "block" if self.role is None else self.role.name

    def grain(self, mask: Array | None) -> int:
        """Return the smallest size of units such that each unit of the agent has an active thread."""
        if mask is None:
            return 1
        here = np.flatnonzero(mask)
        for size in sorted({1, 4, 8, 16, 32, 64, WARPGROUP, self.threads}):
            if self.threads % size == 0 and len(np.unique(here // size)) == self.threads // size:
                return size
        return self.threads

    def since(self, size: int) -> tuple[int, int]:
        """Return the times of the last barrier among units of at least a size, and of the last fence before it."""
        found = [ticks for level, ticks in self.met.items() if level >= min(size, self.threads)]
        return max((t for t, _ in found), default=0), max((f for _, f in found), default=0)


@attrs.define(eq=False)
class Gate:
    """Hold a barrier among agents.

    Args:
        opened: how often the barrier has opened.
        threads: number of threads that have arrived since the barrier last opened.
        agents: the agents that have arrived since the barrier last opened.
        told: merged clocks of all agents that have arrived, of accesses and of fenced accesses.
        known: `told` when the barrier opened last.
        initialised: ranks of the blocks whose mbarriers the arriving agents may use.
    """

    opened: int = 0
    threads: int = 0
    agents: list[Agent] = attrs.field(factory=list[Agent])
    told: tuple[dict[int, int], dict[int, int]] = attrs.field(factory=lambda: ({}, {}))
    known: tuple[dict[int, int], dict[int, int]] = attrs.field(factory=lambda: ({}, {}))
    initialised: set[int] = attrs.field(factory=set[int])


def merge(into: dict[int, int], other: Mapping[int, int]) -> None:
    """Keep the later of two ticks of each clock."""
    for key, tick in other.items():
        if into.get(key, 0) < tick:
            into[key] = tick
