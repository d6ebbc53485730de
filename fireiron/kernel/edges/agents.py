"""Records of the edge verifier: agents of a kernel, their clocks of complete accesses, and their events."""

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
    """Hold an edge that nothing orders, or a wait for an event that never happens.

    Args:
        first: the earlier access, or what is missing.
        then: the later access.
        lacks: what is missing between them.
        owed: the pass whose statements should have ordered them.
    """

    first: str
    then: str
    lacks: str
    owed: str

    def __str__(self) -> str:
        return f"{self.first} -> {self.then}: {self.lacks}"


@attrs.define(eq=False)
class Event:
    """Hold the last access of one kind.

    Args:
        owner: the agent (or the engine) whose clock counts it.
        tick: when it was made, or completed.
        view: the elements it touched.
        way: read or write.
        proxy: generic accesses are fenced before asynchronous ones; what was awaited needs no fence.
        flight: the group of asynchronous operations that it belongs to until it is awaited, "" where it is complete.
        span: the range of registers, or the ring's slot; None for all.
        words: its name, for messages.
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
class Group:
    """Hold the operations in flight of one group: the open ones, and the committed ones, oldest first."""

    open: list[Event] = attrs.field(factory=list[Event])
    committed: list[list[Event]] = attrs.field(factory=list[list[Event]])


@attrs.define(eq=False)
class Phase:
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
        """Complete the phase where all have arrived and all bytes have landed."""
        if self.pending == 0 and self.nbytes == 0:
            self.told[self.engine] = self.fenced[self.engine] = now
            self.known = (dict(self.told), dict(self.fenced))
            self.phase += 1
            self.pending = self.count


@attrs.define(eq=False)
class Agent:
    """Hold threads that run one body together.

    Args:
        number: its clock.
        products: the clock of its unit's products.
        rank: of its block in the cluster.
        role: its role, None for a whole block.
        first: its first thread in the role.
        threads: how many.
        env: values of variables.
        known, proxied: for each clock, the tick up to which accesses are complete for all of its threads; `proxied`
        also for asynchronous accesses.
        partly: the same for some of its threads.
        met: by level's size, its last barrier and the last fence before that barrier.
        fence, registers: its last fence of the proxy, and of registers (0 if a spinning loop follows it).
        initialised: the blocks whose mbarriers it may use; -1 - rank where it initialised them itself.
        groups: what is in flight.
        launched: whether it has waited for the previous launch.
        wrote: its last write of global memory.
        waits: the pass that made it wait, where it waits.
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
        """Name the agent in messages."""
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
class Gate:
    """Hold a barrier of agents: how often it opened, the agents that arrived since, and the clocks it passes on."""

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
