"""The state of the edge verifier's walk: clocks, recorded events, and findings. The rules stand in the other files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fireiron.algebra.expr import Expr, as_int, evaluate
from fireiron.kernel.edges.agents import Agent, Array, Event, Gate, Phase, Unordered
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import THREAD, Call, CountIn, Kernel, Meet, Raise, Role, View, walk
from fireiron.language.levels import SH


class World:
    """Hold the state of a walk.

    Args:
        kernel: the kernel that is verified.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.now = 1
        self.clocks = 0
        self.found: dict[str, Unordered] = {}
        self.events: dict[tuple[int, int, str], dict[Any, Event]] = {}
        self.turns: dict[tuple[int, int], Gate] = {}
        self.meetings: dict[Any, Gate] = {}
        self.fenced: set[int] = set()
        self.made: set[tuple[int, str]] = set()
        calls = [s for s in walk(kernel.body) if isinstance(s, Call)]
        self.holds = any(starts(c, "products") for c in calls)
        sends = [c for c in calls if starts(c, "sends")]
        self.sent = {v.buffer.name for c in sends for v in c.views if v.peer is not None}
        self.told = {c.signal[0].name for c in sends if c.signal is not None}  # mbarriers that count sent bytes
        self.tells = kernel.dependent or any(isinstance(s, CountIn | Meet | Raise) for s in walk(kernel.body))
        shared = [b for b in kernel.buffers if b.memory == SH]
        self.beside = {
            b.name: [c.name for c in shared if c.offset < b.offset + b.nbytes and b.offset < c.offset + c.nbytes]
            for b in shared
        }
        self.barriers: dict[tuple[int, str], list[Phase]] = {}

    def follows(self, view: View) -> bool:
        """Say whether accesses through a view are recorded and checked."""
        return view.buffer.memory == SH or (self.holds and view.buffer.memory.registers)

    def clock(self) -> int:
        """Make a clock."""
        self.clocks += 1
        return self.clocks

    def tick(self) -> int:
        """Advance the time."""
        self.now += 1
        return self.now

    def agent(self, rank: int, role: Role | None, first: int, threads: int, env: Mapping[str, Any]) -> Agent:
        """Make an agent."""
        made = Agent(self.clock(), self.clock(), rank, role, first, threads, dict(env))
        made.env[THREAD] = np.arange(first, first + threads)
        return made

    def report(self, first: str, then: str, lacks: str, owed: str) -> None:
        """Record a finding: two accesses that nothing orders, and the pass that should have ordered them."""
        made = Unordered(first, then, lacks, owed)
        self.found.setdefault(str(made), made)

    def value(self, e: Expr, agent: Agent) -> Any:
        """Evaluate an expression for all threads of an agent."""
        known = as_int(e)
        if known is not None:
            return known
        found = evaluate(e, agent.env)
        return int(found) if isinstance(found, np.integer) else found

    def number(self, e: Expr, agent: Agent, mask: Array | None) -> int:
        """Evaluate an expression that is the same for all active threads."""
        found = self.value(e, agent)
        if isinstance(found, int):
            return found
        found = np.broadcast_to(found, (agent.threads,))
        return int((found if mask is None else found[mask])[0])

    def here(self, condition: Expr, agent: Agent, mask: Array | None) -> Array | bool:
        """Return where a condition holds: True for all threads, False for none, else a mask of the threads."""
        found = self.value(condition, agent)
        if isinstance(found, int):
            return bool(found) and (True if mask is None else mask)
        holds = np.broadcast_to(found, (agent.threads,)) != 0
        wanted = holds if mask is None else holds & mask
        if not wanted.any():
            return False
        return True if mask is None and wanted.all() else wanted
