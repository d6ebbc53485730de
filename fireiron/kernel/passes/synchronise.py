"""Barriers of shared memory, derived from accesses; each stands directly before the first statement that needs it.

A barrier separates each read after a write, write after a read and write after a write of shared memory.

Statements are walked in order. Accesses since the last barrier are pending. A statement that conflicts with a pending
access gets a barrier before it, and that barrier clears all pending accesses in its scope. A loop's last statements are
compared with its first ones: a conflict gets a barrier at the loop's end; if the loop issues products before the first
statement that conflicts, the barrier stands before this statement, and the products run while threads wait.

An access of another block's shared memory conflicts with accesses in all blocks of the cluster, so it needs a barrier
of the cluster. A block ends only after other blocks have read its shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Var, as_expr, as_int, evaluate, free, gt, proves, substitute
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import (
    BLOCKS,
    THREAD,
    Call,
    Compute,
    CountIn,
    For,
    If,
    Let,
    Lower,
    Meet,
    Micro,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    View,
    Wait,
    walk,
)
from fireiron.kernel.lower.window import Storage
from fireiron.language.levels import GL, SH, Block, Cluster, Level

MANY_BLOCKS = 5040  # a multiple of all small numbers of blocks that may share a tile


@attrs.frozen
class Touch:
    """Record one access of shared memory.

    Args:
        view: the elements.
        kind: `read` or `write`.
        place: the number of the accessing statement.
        ordered: the widest level with a barrier after the access, None for no barrier. Units of wider levels are not
            ordered yet.
        landed: whether this record stands for all asynchronous writes to the buffer, which the issuing threads have
            just awaited.
        far: whether blocks of the cluster read the buffer in each other's shared memory.
    """

    view: View
    kind: Literal["read", "write"]
    place: int
    ordered: Level | None = None
    landed: bool = False
    far: bool = False

    @property
    def of_peer(self) -> bool:
        """Say whether another block's shared memory is accessed."""
        return self.view.peer is not None

    def conflicts(self, later: Touch) -> bool:
        """Say whether the order of two accesses matters.

        A statement does not conflict with itself in another trip: tiles do not overlap, and chunks are read in between.
        """
        if self.kind == later.kind and (self.kind == "read" or self.place == later.place):
            return False
        a, b = self.view.buffer, later.view.buffer
        if self.landed:
            return later.kind == "read" and a.name == b.name
        if a.name != b.name:
            return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
        if self.view.slot is None or later.view.slot is None or (a.slots == 1 and a.memory != GL):
            return True
        if a.memory == GL:  # places of a workspace through which units hand on sums
            return as_int(self.view.slot - later.view.slot) in (None, 0)
        return as_int((self.view.slot - later.view.slot) % a.slots) in (None, 0)


@attrs.frozen
class Edge:
    """Hold a conflict: an earlier access, and a later one that must wait for it."""

    first: Touch
    then: Touch

    @property
    def scope(self) -> Level:
        """Return the level whose units must wait: the narrowest one that both buffers are private to."""
        if self.first.of_peer or self.then.of_peer:
            return Cluster
        units = [t.view.buffer.unit or Block for t in (self.first, self.then)]
        if any(not u.is_inside(Block) for u in units):
            return Block
        return max(units, key=lambda u: u.size or 0)

    @property
    def waits(self) -> bool:
        """Say whether no barrier yet orders the two."""
        met = self.first.ordered
        return met is None or not (self.scope.name == met.name or self.scope.is_inside(met))

    def words(self) -> str:
        """Return the reason of a barrier, as the CUDA comment has it."""
        a, b = self.first.view.buffer.name, self.then.view.buffer.name
        if self.first.kind == "write" and self.then.of_peer:
            return f"{b} is written before peers read it"
        if self.first.kind == "write" and self.then.kind == "read":
            return f"{b} is written before it is read"
        done = "read" if self.first.kind == "read" else "written"
        if a != b:
            return f"{a} is {done} before {b} takes its place"
        return f"{a} is {done} before it is {'overwritten' if done == 'read' else 'written again'}"


def touches(statement: Statement) -> list[Touch]:
    """List the accesses of shared memory in a statement, nested ones included."""
    match statement:
        case For(body=body) | If(body=body) | Region(body=body):
            return [t for s in body for t in touches(s)]
        case Call(atom, views):
            found: list[Touch] = []
            for operand, view in zip(atom.operands, views, strict=True):
                if view.buffer.memory == SH and not view.buffer.guarded:
                    kinds: tuple[Literal["read", "write"], ...] = (
                        ("read", "write") if operand.access == "update" else (operand.access,)
                    )
                    found += [Touch(view, kind, statement.id) for kind in kinds]
            return found
        case Compute(dst, _, inputs):
            reads = [Touch(v, "read", statement.id) for v in inputs if v.buffer.memory == SH]
            return [*reads, *([Touch(dst, "write", statement.id)] if dst.buffer.memory == SH else [])]
        case Micro(roles=roles, views=views, written=written):
            pairs = [(r, v) for r, v in zip(roles, views, strict=True) if v.buffer.memory == SH]
            reads = [Touch(v, "read", statement.id) for _, v in pairs]
            return [*reads, *(Touch(v, "write", statement.id) for r, v in pairs if r in written)]
        case _:
            return []


@attrs.define
class _Pass:
    """Hold the facts of a kernel, and the state of the walk at a place.

    Args:
        storages: the buffers by name.
        varying: variables that depend on the thread.
        trust: whether every `no_sync` is accepted without a proof.
        definitions: definitions of named index expressions.
        workspaces: names of the workspaces in global memory.
        shared: names of buffers that blocks of the cluster read in each other's shared memory.
        path: the region's place in the decomposition tree, for errors.
        role: whether only some of a block's warps run the code.
        flying: by group and buffer, the asynchronous writes whose group has not been awaited.
        met: the levels whose units had a barrier since global memory was written; None before the first write.
        left: names of the buffers of global memory that were written since the last barrier.
    """

    storages: Mapping[str, Storage]
    varying: frozenset[Expr]
    trust: bool
    definitions: Mapping[Var, Expr] = attrs.field(factory=dict[Var, Expr])
    workspaces: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    path: str = ""
    role: bool = False
    flying: dict[tuple[str, str], Touch] = attrs.field(factory=dict[tuple[str, str], Touch])
    met: tuple[Level, ...] | None = None
    left: dict[str, None] = attrs.field(factory=dict[str, None])

    def touches(self, statement: Statement) -> list[Touch]:
        found = touches(statement)
        if self.workspaces:
            found += self.of_workspaces(statement)
        if not self.shared:
            return found
        return [evolve(t, far=True) if t.view.buffer.name in self.shared else t for t in found]

    def of_workspaces(self, statement: Statement) -> list[Touch]:
        """List the accesses of workspaces at places that several threads share: one reads, another overwrites."""
        return [
            Touch(view, "read" if way == "read" else "write", s.id)
            for s in walk((statement,))
            if isinstance(s, Call | Compute | Micro)
            for view, way in reads_and_writes(s)
            if view.buffer.name in self.workspaces and not self.own(view)
        ]

    def own(self, view: View) -> bool:
        """Say whether each thread of a block accesses different elements."""
        place, known = view.offset, self.definitions
        while inner := {v: known[v] for v in free(place) if isinstance(v, Var) and v in known}:
            place = substitute(place, inner)
        thread = next((v for v in free(place) if isinstance(v, Var) and v.name == THREAD), None)
        width = as_int(view.layout.cosize)
        if thread is None or thread.extent is None or width is None:
            return False
        threads = np.arange(as_int(thread.extent) or 1)
        env: dict[str, Any] = {getattr(v, "name", ""): 0 for v in free(place)}
        # Units of a block that each have a tile take those of further blocks: of so many that no two share a tile.
        found: Any = evaluate(place, {**env, BLOCKS: MANY_BLOCKS, THREAD: threads})
        places = np.sort(np.broadcast_to(found, threads.shape))
        return bool((np.diff(places) >= width).all())

    def landed(self, group: str) -> list[Touch]:
        """List the writes of a group of copies, after a wait for the group."""
        return [touch for (name, _), touch in self.flying.items() if name == group]

    def conflicts(
        self, pending: list[Touch], statement: Statement, shift: tuple[Var, Expr] | None = None
    ) -> list[Edge]:
        if not pending:
            return []
        later = self.touches(statement)
        if shift is not None:  # another trip has other places in a workspace
            later = [_shifted(t, *shift) for t in later if t.view.buffer.memory == SH]
        edges = [Edge(a, b) for b in later for a in pending if a.conflicts(b)]
        edges = [e for e in edges if e.scope.size != 1 and e.waits]
        if self.trust:
            edges = [e for e in edges if not self._claimed(e)]
        elif edges and all(self._claimed(e) for e in edges):
            self._refuse(edges[0])
        return edges

    def _claimed(self, edge: Edge) -> bool:
        """Say whether the author's `no_sync` covers this edge."""
        storage = self.storages.get(edge.first.view.buffer.name)
        return edge.first.kind == "write" and edge.then.kind == "read" and storage is not None and storage.no_sync

    def _refuse(self, edge: Edge) -> None:
        storage = self.storages[edge.first.view.buffer.name]
        raise DecompositionError(
            "no-sync-needed",
            f"no_sync() would drop the only barrier between writing {storage.name} and reading it",
            fix="drop no_sync(); barriers that another load needs anyway are never doubled",
            link=storage.claimed,
            path=self.path,
        )

    def run(
        self, body: tuple[Statement, ...], pending: list[Touch], uniform: bool
    ) -> tuple[list[Statement], list[Touch]]:
        out: list[Statement] = []
        for statement in body:
            if not isinstance(statement, Region | If) and not _awaits(statement) and not _enters(statement):
                pending = self.separate(out, pending, self.conflicts(pending, statement), uniform)
            match statement:
                case Region():
                    self.path = statement.path or self.path
                    inner, pending = self.run(statement.body, pending, uniform)
                    out.append(_with_body(statement, inner))
                case If():
                    same = not any(
                        isinstance(x, Var) and (x.name == THREAD or x in self.varying)
                        for x in free(statement.condition)
                    )
                    # Later statements may need the barrier too, where the body is skipped.
                    pending = self.separate(out, pending, self.conflicts(pending, statement), uniform)
                    inner, after = self.run(statement.body, pending, uniform and same)
                    pending = [*pending, *(t for t in after if t not in pending)]
                    out.append(_with_body(statement, inner))
                case For():
                    inner, pending = self.loop(out, statement, pending, uniform)
                    out.append(_with_body(statement, inner))
                case Sync(level=level):
                    pending = self.meets(pending, level)
                    out.append(statement)
                case Raise(level=level, link=link):
                    pending = self.told(out, level, link, pending)
                    out.append(statement)
                case CountIn(level=level, link=link) | Meet(level=level, link=link):
                    pending = _after(self.told(out, level, link, pending), level)
                    out.append(statement)
                case Lower(level=level):
                    pending = _after(pending, level)
                    out.append(statement)
                case Roles(roles=roles):  # buffers that roles share are guarded; the others belong to one role
                    self.role = True
                    bodies = [tuple(self.run(role.body, pending, uniform)[0]) for role in roles]
                    self.role = False
                    out.append(Roles(tuple(evolve(r, body=b) for r, b in zip(roles, bodies, strict=True))))
                case Wait(group=group):
                    # What was in flight is there for its issuers: all others see it after a barrier from here on.
                    pending = [*pending, *(t for t in self.landed(group) if t not in pending)]
                    out.append(statement)
                case _:
                    found = self.touches(statement)
                    if left := _left(statement):
                        self.left = dict.fromkeys(left) if self.met else {**self.left, **dict.fromkeys(left)}
                        self.met = ()
                    pending = [*pending, *(t for t in found if t not in pending)]
                    if isinstance(statement, Call) and statement.atom.completion:
                        for t in found:
                            if t.kind == "write":
                                key = statement.atom.completion, t.view.buffer.name
                                self.flying[key] = evolve(t, landed=True)
                    out.append(statement)
        return out, pending

    def meets(self, pending: list[Touch], level: Level) -> list[Touch]:
        """Return the accesses that are still unordered after a barrier."""
        if self.met is not None:
            self.met = (*self.met, level)
        return _after(pending, level)

    def told(self, out: list[Statement], level: Level, link: Link | None, pending: list[Touch]) -> list[Touch]:
        """Insert a barrier of the unit before it sets a flag for its threads' writes to global memory."""
        if self.met is None or any(level == met or level.is_inside(met) for met in self.met):
            return pending
        out.append(Sync(level, f"all threads have written {' and '.join(self.left)}", link))
        return self.meets(pending, level)

    def entering(
        self, out: list[Statement], statement: For, pending: list[Touch], uniform: bool
    ) -> tuple[list[Statement], list[Touch]]:
        """Omit the barrier before a loop with its own barriers, where the loop's first trip conflicts with nothing."""
        inner, after = self.run(statement.body, [], uniform)
        earlier = [_shifted(t, statement.var, statement.var - 1) for t in after]
        if self.behind_products(statement.body, earlier):
            inner, after = self.run(statement.body, [*pending, *(t for t in earlier if t not in pending)], uniform)
            after = self.separate(inner, after, self.carried(inner, after, statement.var, statement.var + 1), uniform)
            last = [_shifted(t, statement.var, statement.extent - 1) for t in after]
            return inner, last if proves(gt(statement.extent, 0)) else [*pending, *last]
        after = self.separate(inner, after, self.carried(inner, after, statement.var, statement.var + 1), uniform)
        met = _syncs(tuple(inner))
        if Block not in met and Cluster not in met:
            before = self.conflicts(pending, statement)
            return inner, [*self.separate(out, pending, before, uniform), *after]
        pending = self.separate(out, pending, self.carried(inner, pending, statement.var, as_expr(0)), uniform)
        for level in met:
            pending = _after(pending, level)
        # What no barrier of the last trip has ordered is that trip's.
        last = [_shifted(t, statement.var, statement.extent - 1) for t in after]
        return inner, [*(t for t in pending if t.far), *last]

    def behind_products(self, body: tuple[Statement, ...], earlier: list[Touch]) -> bool:
        """Say whether products are issued before the first statement that conflicts with accesses of the last trip."""
        first = next((i for i, s in enumerate(body) if self.conflicts(earlier, s)), 0)
        return any(starts(s, "products") for s in walk(body[:first]))

    def loop(
        self, out: list[Statement], statement: For, pending: list[Touch], uniform: bool
    ) -> tuple[list[Statement], list[Touch]]:
        if _awaits(statement):
            return self.awaiting(statement, pending, uniform)
        if _enters(statement):
            return self.entering(out, statement, pending, uniform)
        inner, after = self.run(statement.body, pending, uniform)
        open_ends = self.carried(inner, after, statement.var, statement.var + 1)
        after = self.separate(inner, after, open_ends, uniform)
        return inner, after

    def awaiting(self, statement: For, pending: list[Touch], uniform: bool) -> tuple[list[Statement], list[Touch]]:
        """Put the barrier of a loop that begins with a wait directly after the wait.

        After that barrier all threads see the landed copies, and may overwrite what the previous trip has read.
        """
        wait, *rest = statement.body
        _, after = self.run(tuple(rest), pending, uniform)
        landed = self.landed(wait.group) if isinstance(wait, Wait) else []
        pending = [*pending, *(t for t in landed if t not in pending)]
        edges = [e for s in rest for e in self.conflicts(pending, s)] + self.carried(
            list(rest), after, statement.var, statement.var + 1
        )
        edges.sort(key=lambda e: (e.first.kind, e.then.kind) != ("write", "read"))  # the reason that a reader expects
        head: list[Statement] = [wait]
        earlier = [_shifted(t, statement.var, statement.var - 1) for t in after]
        pending = self.separate(head, [*pending, *(t for t in earlier if t not in pending)], edges, uniform)
        inner, after = self.run(tuple(rest), pending, uniform)
        left = self.carried(inner, after, statement.var, statement.var + 1) if not edges else []
        return [*head, *inner], self.separate(inner, after, left, uniform)

    def carried(self, body: list[Statement], pending: list[Touch], var: Var, value: Expr) -> list[Edge]:
        """Collect the conflicts with another trip (the next one, or the first), up to the barriers in that trip."""
        edges: list[Edge] = []
        waiting = list(pending)
        for statement in body:
            if not waiting:
                break
            if isinstance(statement, Sync):
                waiting = _after(waiting, statement.level)
                continue
            if isinstance(statement, Region | If | For):
                found = self.carried(list(statement.body), waiting, var, value)
                edges += found
                for level in _syncs((statement,)):
                    waiting = _after(waiting, level)
                continue
            edges += self.conflicts(waiting, statement, (var, value))
        return edges

    def separate(self, out: list[Statement], pending: list[Touch], edges: list[Edge], uniform: bool) -> list[Touch]:
        """Insert the barriers that edges need; return the accesses that stay pending."""
        if not edges:
            return pending
        # Of several reasons the plainest: a read after a write, before a write after a write.
        told = sorted(edges, key=lambda e: e.first.kind == e.then.kind)
        scopes = {e.scope.name: e for e in reversed(told)}
        widest = next((level.name for level in (Cluster, Block) if level.name in scopes), None)
        if widest is not None:
            scopes = {widest: scopes[widest]}
        for edge in scopes.values():
            storage = self.storages.get(edge.then.view.buffer.name)
            if not uniform or (self.role and edge.scope == Cluster):
                raise DecompositionError(
                    "barrier-in-guard",
                    f"a barrier is needed ({edge.words()}) where only some threads arrive",
                    fix="map a number of tiles that keeps every unit busy, "
                    "or load above the tile that leaves units idle",
                    link=storage.link if storage else None,
                    path=self.path,
                )
            out.append(Sync(edge.scope, edge.words(), storage.link if storage else None))
            pending = self.meets(pending, edge.scope)
        return pending


def _with_body(statement: For | If | Region, body: list[Statement]) -> Statement:
    """Return a statement with another body; the statement itself where the body is the same."""
    same = len(body) == len(statement.body) and all(a is b for a, b in zip(body, statement.body, strict=True))
    return statement if same else evolve(statement, body=tuple(body))


def _left(statement: Statement) -> list[str]:
    """List the buffers of global memory that threads write in a statement, without bulk stores, which have waits."""
    if not isinstance(statement, Call | Compute | Micro):
        return []
    if isinstance(statement, Call) and statement.atom.completion:
        return []
    pairs = reads_and_writes(statement)
    return [view.buffer.name for view, way in pairs if way == "write" and view.buffer.memory == GL]


def _awaits(statement: Statement) -> bool:
    """Say whether a statement is a loop whose body begins with a wait."""
    return isinstance(statement, For) and bool(statement.body) and isinstance(statement.body[0], Wait)


def _enters(statement: Statement) -> bool:
    """Say whether a statement is a loop over chunks, which may contain barriers."""
    return (
        isinstance(statement, For) and not statement.unroll and any(isinstance(s, Region) for s in walk(statement.body))
    )


def _syncs(body: tuple[Statement, ...]) -> list[Level]:
    """List the barriers of a body that no condition skips."""
    found: list[Level] = []
    for s in body:
        if isinstance(s, Sync):
            found.append(s.level)
        elif isinstance(s, Region | For):
            inner = _syncs(s.body)
            found += inner if inner and (isinstance(s, Region) or proves(gt(s.extent, 0))) else ()
    return found


def _after(pending: list[Touch], level: Level) -> list[Touch]:
    """Return the accesses that are still unordered after a barrier: after a block's barrier, those of other blocks."""
    if level == Cluster:
        return []
    if level == Block:
        return [evolve(t, ordered=Block) for t in pending if t.far]
    found: list[Touch] = []
    for touch in pending:
        unit = touch.view.buffer.unit or Block
        met = unit.name == level.name or unit.is_inside(level)
        found.append(evolve(touch, ordered=level) if met else touch)
    return found


def _shifted(touch: Touch, var: Var, value: Expr) -> Touch:
    """Return an access as it is in another trip; the same object where the access is the same in all trips."""
    view = touch.view
    if view.slot is None:
        return touch
    slot = substitute(view.slot, {var: value})
    # Constructed directly: evolve takes twice as long.
    other = View(view.buffer, view.offset, view.layout, slot, view.origin, view.swizzle, view.peer)
    return Touch(other, touch.kind, touch.place, touch.ordered, far=touch.far)


def synchronise(
    body: tuple[Statement, ...],
    storages: Mapping[str, Storage],
    definitions: Mapping[Var, Expr],
    trust_no_sync: bool = False,
    workspaces: Collection[str] = (),
) -> tuple[Statement, ...]:
    """Insert the barriers that accesses of a kernel's shared memory and workspaces need.

    Args:
        body: the kernel's statements.
        storages: the buffers by name.
        definitions: definitions of named index expressions; a name that depends on the thread makes a condition
            non-uniform.
        trust_no_sync: whether every `no_sync` is accepted without a proof.
        workspaces: names of the workspaces in global memory.

    Raises:
        DecompositionError: `no-sync-needed`, `barrier-in-guard`.
    """
    varying = {
        v for v, meaning in definitions.items() if any(isinstance(x, Var) and x.name == THREAD for x in free(meaning))
    }
    shared = frozenset(
        view.buffer.name
        for s in walk(body)
        if isinstance(s, Call)
        for view in s.views
        if view.peer is not None and not view.buffer.guarded
    )
    meanings = (
        {**definitions, **{s.var: s.value for s in walk(body) if isinstance(s, Let)}} if workspaces else definitions
    )
    walked = _Pass(storages, frozenset(varying), trust_no_sync, meanings, frozenset(workspaces), shared)
    out, left = walked.run(body, [], uniform=True)
    read = next((t for t in left if t.of_peer), None)
    if read is not None:
        link = storages[read.view.buffer.name].link
        out.append(Sync(Cluster, "peers have read what this block shares before it ends", link))
    return tuple(out)
