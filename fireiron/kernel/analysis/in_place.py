"""Programs whose output overwrites an input: a walk of the kernel checks that reads come before the write.

The walk executes some blocks of the finished kernel, with the values of indices only. Each access of the array is an
event: elements, threads, begin, and completion. An element's reads must be complete before its single write begins: by
the writing thread itself, or before a barrier that both threads pass. A block must write all elements that it reads;
since each element is written once, no other block reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, evaluate, free
from fireiron.atoms.flights import flying
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.analysis.sampling import reads_and_writes, typical_sizes
from fireiron.kernel.analysis.traffic import WARP, Array
from fireiron.kernel.ir.rewrite import reduced
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    Fetch,
    FindGroup,
    For,
    If,
    Kernel,
    Let,
    Meet,
    Micro,
    Region,
    Roles,
    Statement,
    Sync,
    View,
    Vote,
    Wait,
    walk,
)
from fireiron.language.levels import Block

ITEMS = 3  # work items for which a persistent block is walked
MOST_ACCESSES = 1 << 15  # most accesses of a block in a walk
NEVER = np.int64(1) << 62

Body = tuple[Statement, ...]


@attrs.frozen
class _Event:
    """Hold one access of all threads that make it.

    Args:
        way: read or write.
        elements: numbers of the array's elements, one row for each thread.
        threads: the threads that access these elements.
        begins: the time at which the access begins.
        ends: the time at which the access is complete; a list of one number, which a wait sets.
        link: the chain link that makes the access.
    """

    way: Literal["read", "write"]
    elements: Array
    threads: Array
    begins: int
    ends: list[int]
    link: Link | None


def check_in_place(kernel: Kernel, names: Collection[str]) -> None:
    """Raise an error where an element of an array is written before all its reads are complete.

    Args:
        kernel: the finished kernel.
        names: the arrays that outputs overwrite.

    Raises:
        DecompositionError: `inplace-order`.
    """
    sizes = typical_sizes(kernel)
    grid = max(1, int(evaluate(kernel.grid, sizes)))  # pyright: ignore[reportArgumentType]
    size = kernel.cluster
    blocks = max(size, -(-grid // (ITEMS * size)) * size) if kernel.persistent else grid
    for block in sorted({0, min(1, blocks - 1), blocks // 2, blocks - 1}):
        for name in (n for n in names if not _never_read(kernel, n)):
            env = {**sizes, BLOCKS: blocks, BLOCK: block, RANK: block % size}
            _Walk(kernel, name, env).run()


def _never_read(kernel: Kernel, name: str) -> bool:
    """Say whether a kernel writes an array, or adds to it, but reads none of it; the order does not matter then."""
    found = [
        (s, way)
        for s in walk(kernel.body)
        if isinstance(s, Call | Compute | Micro)
        for view, way in reads_and_writes(s)
        if view.buffer.name == name
    ]
    adding = (isinstance(s, Call) and (bool(s.atom.adding) or s.atom.kind == "Add") for s, _ in found)
    return bool(found) and all(added or way == "write" for added, (_, way) in zip(adding, found, strict=True))


@attrs.define
class _Walk:
    """Execute the statements of one block that access an array, or order its accesses.

    Args:
        kernel: the kernel.
        name: name of the array.
        env: values of the variables.
        now: the current time: the number of accesses, barriers and waits so far.
        unknown: names of variables whose values only the GPU finds.
        events: the accesses so far.
        barriers: times of the barriers of the whole block.
        of_warps: times of the barriers of units inside the block.
        flights: for each group of copies, those that are not committed, and the committed groups, oldest first.
    """

    kernel: Kernel
    name: str
    env: dict[str, Any]
    now: int = 0
    unknown: set[str] = attrs.field(factory=set[str])
    events: list[_Event] = attrs.field(factory=list[_Event])
    barriers: list[int] = attrs.field(factory=list[int])
    of_warps: list[int] = attrs.field(factory=list[int])
    flights: dict[str, tuple[list[_Event], list[list[_Event]]]] = attrs.field(
        factory=dict[str, tuple[list[_Event], list[list[_Event]]]]
    )

    def run(self) -> None:
        self.env[THREAD] = np.arange(self.kernel.threads)
        self.body(reduced(self.kernel.body, self.needed), np.ones(self.kernel.threads, bool))
        self.compare()

    def needed(self, s: Statement) -> bool:
        """Say whether the walk must execute a statement: it accesses the array, orders accesses, or defines a name."""
        if isinstance(s, Call | Compute | Micro):
            return any(view.buffer.name == self.name for view, _ in reads_and_writes(s))
        return isinstance(s, Let | Draw | Fetch | FindGroup | Vote | CountIn | Meet | Sync | Commit | Wait)

    def body(self, body: Body, mask: Array) -> None:
        for s in body:
            match s:
                case Let(var=var, value=value):
                    self.let(var.name, value)
                case Draw(var=var):
                    self.let(var.name, s.expected)
                case Fetch(var=var) | Vote(var=var):
                    self.unknown.add(var.name)
                case FindGroup(groups=groups):
                    self.unknown |= {v.name for v in (groups.group, groups.first, groups.begin, groups.length)}
                case CountIn(var=var):
                    self.env[var.name] = 1  # statements after it are executed only in the last unit
                    self.now += 1
                    self.barriers.append(self.now)
                case Meet():
                    self.now += 1
                    self.barriers.append(self.now)
                case Region(body=inner):
                    self.body(inner, mask)
                case If(condition=condition, body=inner):
                    here = mask if self.is_unknown(condition) else mask & (self.of(condition) != 0)
                    if here.any():
                        self.body(inner, here)
                case For():
                    self.loop(s, mask)
                case Roles():
                    if any(isinstance(inner, Call | Compute | Micro) for inner in walk((s,))):
                        raise self.refusal("warps of several roles access it", None)
                case Sync(level=level):
                    self.now += 1
                    (self.barriers if level.name == Block.name else self.of_warps).append(self.now)
                case Commit(group=group):
                    opened, committed = self.flights.setdefault(group, ([], []))
                    committed.append(opened.copy())
                    opened.clear()
                case Wait(group=group, pending=pending):
                    self.wait(group, pending)
                case Call() | Compute() | Micro():
                    self.access(s, mask)
                case _:
                    pass

    def let(self, name: str, value: Expr) -> None:
        if self.is_unknown(value):
            self.unknown.add(name)
            return
        self.unknown.discard(name)
        self.env[name] = evaluate(value, self.env)

    def is_unknown(self, e: Expr) -> bool:
        return any(leaf.name in self.unknown for leaf in free(e))

    def of(self, e: Expr) -> Array:
        return np.broadcast_to(np.asarray(evaluate(e, self.env), np.int64), self.env[THREAD].shape)

    def loop(self, loop: For, mask: Array) -> None:
        if self.is_unknown(loop.extent):
            if any(isinstance(s, Call | Compute | Micro) for s in walk(loop.body)):
                raise self.refusal("how often a loop around its accesses runs is known on the device alone", None)
            return
        extent = self.of(loop.extent)
        for trip in range(int(extent[mask].max()) if mask.any() else 0):
            self.env[loop.var.name] = trip
            self.body(loop.body, mask & (trip < extent))

    def wait(self, group: str, pending: int) -> None:
        self.now += 1
        _, committed = self.flights.setdefault(group, ([], []))
        while len(committed) > pending:
            for event in committed.pop(0):
                event.ends[0] = self.now

    def access(self, s: Call | Compute | Micro, mask: Array) -> None:
        kind = flying(s.atom.completion) if isinstance(s, Call) else ""
        found = [(v, way) for v, way in reads_and_writes(s) if v.buffer.name == self.name]
        for view, way in sorted(found, key=lambda x: x[1]):  # a statement reads, then it writes
            self.now += 1
            conditions = [c for c in (s.write, self.source(s, way)) if c is not None]
            if kind in ("loads", "stores", "products"):
                raise self.refusal("bulk copies access it", s.link)
            if any(self.is_unknown(e) for e in (view.offset, *conditions)):
                raise self.refusal("the device alone knows which elements a thread accesses", s.link)
            here = mask
            for condition in conditions:
                here = here & (self.of(condition) != 0)
            event = self.event(view, "read" if way == "read" else "write", here, s.link)
            if isinstance(s, Call) and kind == "copies" and way == "read":
                event.ends[0] = int(NEVER)
                self.flights.setdefault(s.atom.completion, ([], []))[0].append(event)
            self.events.append(event)
            if len(self.events) > MOST_ACCESSES:
                raise self.refusal(f"a thread of a block accesses it more than {MOST_ACCESSES} times", s.link)

    def source(self, s: Call | Compute | Micro, way: str) -> Expr | None:
        """Return the condition under which a Move reads its source."""
        return s.read if isinstance(s, Call) and way == "read" else None

    def event(self, view: View, way: Literal["read", "write"], here: Array, link: Link | None) -> _Event:
        steps = np.array([view.layout(i) for i in range(view.layout.size)], np.int64)  # pyright: ignore[reportArgumentType]
        elements = self.of(view.offset)[here][:, None] + steps[None, :]
        return _Event(way, elements, self.env[THREAD][here], self.now, [self.now], link)

    def compare(self) -> None:
        """Compare each element's reads with its write."""
        writes = [e for e in self.events if e.way == "write"]
        places, writers, begins, which = _flat(writes, lambda e: e.begins)
        if not len(places):
            return
        order = np.lexsort((begins, places))
        places, writers, begins, which = (x[order] for x in (places, writers, begins, which))
        for event in (e for e in self.events if e.way == "read" and e.elements.size):
            elements = event.elements.ravel()
            at = np.searchsorted(places, elements)
            lost = (at == len(places)) | (places[np.minimum(at, len(places) - 1)] != elements)
            if lost.any():
                raise self.refusal(
                    "a block reads elements that other blocks write, and no block waits for them", event.link
                )
            threads, end = np.repeat(event.threads, event.elements.shape[1]), event.ends[0]
            link = writes[int(which[at[0]])].link
            if event.begins > begins[at].min():
                raise self.refusal("elements are read after they are written", link)
            if end > begins[at].min():
                raise self.refusal("a copy may still read elements when they are written", link)
            apart = threads != writers[at]
            met = self.met(self.barriers, end, begins[at])
            met |= self.met(self.of_warps, end, begins[at]) & (threads // WARP == writers[at] // WARP)
            wrong = np.flatnonzero(apart & ~met)
            if len(wrong):
                reader, writer = threads[wrong[0]], writers[at][wrong[0]]
                said = f"thread {reader} reads what thread {writer} writes, no barrier between"
                raise self.refusal(said, link)

    def met(self, ticks: list[int], after: int, before: Array) -> Array:
        """Say for each write whether a barrier stands between the read's end and that write."""
        later = [t for t in ticks if t > after]
        return before > later[0] if later else np.zeros(len(before), bool)

    def refusal(self, why: str, link: Link | None) -> DecompositionError:
        return DecompositionError(
            "inplace-order",
            f"{self.name} is written in place, and {why}",
            fix=f"load {self.name} once to RF, by vector(), in the units that store the output, or leave inplace() out",
            link=link,
        )


def _flat(events: list[_Event], when: Callable[[_Event], int]) -> tuple[Array, Array, Array, Array]:
    """Flatten events to arrays of elements, threads, times and event numbers."""
    if not events:
        none: Array = np.zeros(0, np.int64)
        return none, none, none, none
    sizes = [e.elements.size for e in events]
    return (
        np.concatenate([e.elements.ravel() for e in events]),
        np.concatenate([np.repeat(e.threads, e.elements.shape[1]) for e in events]),
        np.repeat([when(e) for e in events], sizes),
        np.repeat(np.arange(len(events)), sizes),
    )
