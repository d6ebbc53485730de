"""Traces: what one block of a simulation did, in order: moves started, groups awaited, barriers passed, products made.

A long outer loop is cut short: of its iterations the first ones and the last run, the rest is left out and said so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import as_int, evaluate
from fireiron.kernel.ir import (
    BLOCK,
    Call,
    Commit,
    Compute,
    CountIn,
    For,
    Kernel,
    Micro,
    Number,
    Pointer,
    Region,
    Statement,
    Sync,
    View,
    Wait,
    walk,
)
from fireiron.kernel.sites import reads_and_writes, typical_sizes
from fireiron.simulate.access import Env
from fireiron.simulate.machine import Arrival
from fireiron.simulate.order import Array
from fireiron.simulate.program import Act, Compiler, Run, Scope, Step, Walk
from fireiron.simulate.run import prepare, run_block
from fireiron.simulate.state import State

Kind = Literal["run", "commit", "wait", "sync", "gap"]


@attrs.frozen
class Touch:
    """Name what an event reads or writes: a buffer, and the ring slot of it."""

    buffer: str
    memory: str
    slot: int = 0


@attrs.frozen
class Event:
    """Say one thing that a block did.

    Args:
        kind: an instruction; a group closed, or awaited; a barrier; or iterations that were left out.
        what: the instruction, the group, the barrier's level and reason, or how many iterations.
        title: of the enclosing region.
        role: which role's threads did it, empty where all do the same.
        loops: the loop variables around it, outermost first.
        reads, writes: what it touches.
        count: instructions that each thread executes.
        clocks: issue clocks of one of them on a sub-partition.
        flies: whether it lands only when its group is awaited.
        pending: groups that a wait leaves in flight.
    """

    kind: Kind
    what: str
    title: str = ""
    role: str = ""
    loops: tuple[tuple[str, int], ...] = ()
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
    count: int = 1
    clocks: float = 0.0
    flies: bool = False
    pending: int = 0


@attrs.frozen
class Trace:
    """Hold the events of one block.

    Args:
        events: in order.
        threads: of the block.
        slots: ring slots of each buffer.
        left_out: iterations of outer loops that did not run.
        outer: variables of the loops whose iterations are chunks: rolled, outermost, with barriers or waits inside.
    """

    events: tuple[Event, ...]
    threads: int
    slots: Mapping[str, int]
    left_out: int
    outer: frozenset[str] = frozenset()


def trace(kernel: Kernel, sizes: Mapping[str, int] | None = None, block: int = 0, chunks: int = 6) -> Trace:
    """Run one block on zeros, and list what it did.

    Args:
        kernel: what to run.
        sizes: values of the symbols; a typical one stands for what is missing.
        block: which one.
        chunks: iterations of an outer loop that run: the first ones, and the last.

    Raises:
        SimulationError: as `simulate` does, but for races.
    """
    values = typical_sizes(kernel, sizes)
    numbers = {p.name: 1.0 for p in kernel.parameters if isinstance(p, Number)}
    arrays = {p.buffer.name: _zeros(p, values) for p in kernel.parameters if isinstance(p, Pointer)}
    machine = prepare(kernel, arrays, values, numbers, track=False)
    tracing = Tracing(machine, chunks)
    with np.errstate(all="ignore"):
        run_block(machine, tracing.program(), block)
    slots = {b.name: b.slots for b in kernel.buffers}
    return Trace(tuple(tracing.events), kernel.threads, slots, tracing.left_out, frozenset(tracing.outer))


def _zeros(pointer: Pointer, sizes: Mapping[str, int]) -> Array:
    """Make an array of zeros that takes one element, whatever its extents."""
    dtype: DType = pointer.buffer.dtype
    shape = tuple(int(evaluate(e, sizes)) for e in pointer.shape)  # pyright: ignore[reportArgumentType]
    strides = [int(evaluate(e, sizes)) * dtype.nbytes for e in pointer.strides]  # pyright: ignore[reportArgumentType]
    flat = np.zeros(1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) // dtype.nbytes, dtype.numpy)
    return np.lib.stride_tricks.as_strided(flat, shape, strides)


class Tracing(Compiler):
    """Compile a kernel whose statements also say that they ran."""

    def __init__(self, machine: Any, chunks: int) -> None:
        super().__init__(machine)
        self.chunks = chunks
        self.events: list[Event] = []
        self.left_out = 0
        self.outer: set[str] = set()
        self.depth = 0  # rolled loops around the statement that is compiled

    def statement(self, statement: Statement, scope: Scope) -> Step:
        """Compile a statement, with its events around it."""
        match statement:
            case Commit(group=group):
                return self._before(super().statement(statement, scope), Event("commit", group), scope)
            case Wait(group=group, pending=pending):
                event = Event("wait", group, pending=pending)
                return self._before(super().statement(statement, scope), event, scope)
            case Sync(level=level, reason=reason):
                return self._before(super().statement(statement, scope), Event("sync", f"{level}: {reason}"), scope)
            case CountIn():
                return self._before(
                    super().statement(statement, scope), Event("sync", "Grid: the block counts in"), scope
                )
            case Call() | Compute() | Micro():
                return self._touching(super().statement(statement, scope), statement, scope)
            case For():
                return self._together(super().statement(statement, scope), statement, scope)
            case _:
                return super().statement(statement, scope)

    def loop(self, statement: For, scope: Scope) -> Step:
        """Compile a loop; of a long rolled one outside all others only the ends run."""
        outer = self.depth == 0 and not statement.unroll
        self.depth += not statement.unroll
        try:
            step = super().loop(statement, scope)
        finally:
            self.depth -= not statement.unroll
        inner = any(isinstance(s, Wait | Sync | CountIn | Commit) for s in walk(statement.body))
        if not outer or step.walk is None or not inner:
            return step
        return self._shortened(statement, scope)

    def _shortened(self, statement: For, scope: Scope) -> Step:
        """Run the first iterations and the last; what is left out is a whole number of turns of every ring."""
        name, extent = statement.var.name, self.value(statement.extent)
        self.outer.add(name)
        ring = math.lcm(*(b.slots for b in self.machine.kernel.buffers), 1)
        self.depth += 1
        body = self.body(statement.body, scope.bind(name, frozenset([name])))
        self.depth -= 1
        assert body.walk is not None
        inner = body.walk

        def walk_(state: State, act: Act) -> Iterator[Arrival]:
            total = int(extent(state.env))
            skipped = max(0, (total - self.chunks) // ring * ring)
            first = max(1, min(self.chunks - ring, total - skipped - 1)) if skipped else total
            at = 0
            while at < total:
                if skipped and at == first:
                    self.left_out += skipped
                    self.events.append(Event("gap", f"{skipped} of {total} iterations of {name} left out"))
                    at += skipped
                state.env[name] = at
                yield from inner(state, act)
                at += 1

        return Step(None, walk_)

    def _before(self, step: Step, event: Event, scope: Scope) -> Step:
        """Note an event, then do what it names."""

        def note(state: State) -> None:
            self.events.append(attrs.evolve(event, title=_title(scope), loops=_loops(scope, state.env)))

        return _around(step, note, None)

    def _touching(self, step: Step, statement: Call | Compute | Micro, scope: Scope) -> Step:
        def note(state: State) -> None:
            self._note(statement, scope, state.env, 1)

        return _around(step, note, None)

    def _together(self, step: Step, statement: For, scope: Scope) -> Step:
        """Note the statements of a nest whose iterations ran at once, and said nothing themselves."""
        if step.walk is not None:
            return step
        found = [s for s in walk(statement.body) if isinstance(s, Call | Compute | Micro)]
        regions = [s for s in walk(statement.body) if isinstance(s, Region)]
        inside = scope.enter(regions[-1]) if regions else scope
        trips = math.prod(as_int(s.extent) or 1 for s in (statement, *walk(statement.body)) if isinstance(s, For))
        said = 0

        def before(state: State) -> None:
            nonlocal said
            said = len(self.events)

        def after(state: State) -> None:
            if len(self.events) == said:
                for each in found:
                    self._note(each, inside, state.env, trips)

        return _around(step, before, after)

    def _note(self, statement: Call | Compute | Micro, scope: Scope, env: Env, count: int) -> None:
        touched: dict[str, list[Touch]] = {"read": [], "write": []}
        for view, way in reads_and_writes(statement):
            touched[way].append(self._touch(view, env))
        match statement:
            case Call(atom=atom):
                what, clocks, flies = atom.name, atom.clocks, bool(atom.completion)
            case Compute():
                what, clocks, flies = "compute", 1.0, False
            case Micro(name=name):
                what, clocks, flies = name, 1.0, False
        self.events.append(
            Event(
                "run", what, _title(scope), loops=_loops(scope, env), reads=tuple(touched["read"]),
                writes=tuple(touched["write"]), count=count, clocks=clocks, flies=flies,
            )
        )  # fmt: skip

    def _touch(self, view: View, env: Env) -> Touch:
        slot = 0
        if view.slot is not None and view.buffer.slots > 1:
            slot = int(np.asarray(self.value(view.slot)(env)).flat[0]) % view.buffer.slots
        return Touch(view.buffer.name, str(view.buffer.memory), slot)


def _around(step: Step, before: Any, after: Any) -> Step:
    """Do something before and after a compiled statement."""
    if step.run is not None:
        inner: Run = step.run

        def run(state: State, act: Act) -> None:
            before(state)
            inner(state, act)
            if after is not None:
                after(state)

        return Step(run)
    assert step.walk is not None
    walker: Walk = step.walk

    def walk_(state: State, act: Act) -> Iterator[Arrival]:
        before(state)
        yield from walker(state, act)

    return Step(None, walk_)


def _title(scope: Scope) -> str:
    return scope.region.title if scope.region is not None else ""


def _loops(scope: Scope, env: Env) -> tuple[tuple[str, int], ...]:
    """Give the values of the loop variables around a statement, where each is one number now."""
    found: list[tuple[str, int]] = []
    for name, needs in scope.needs:
        if name != BLOCK and needs == frozenset([name]) and isinstance(env.get(name), int):
            found.append((name, int(env[name])))
    return tuple(found)
