"""Copies in flight: derives the commits after them and the waits for them.

The copies to one slot of a ring form a group, and so do the copies of a load without a ring; a commit closes the group
after its last copy. Consecutive chunks have consecutive groups, so the number of groups after a chunk's group is the
number of chunks after it. The wait for a chunk stands before the chunk's first reader. If other copies start before
that reader, the wait stands before these copies: they overwrite the slot that was read last, so they need a barrier
anyway, and that barrier then serves the reader too.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from fireiron.algebra.expr import Expr, Var, as_int, free, ge, proves, substitute
from fireiron.base.records import Itself
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import (
    Call,
    Commit,
    Compute,
    For,
    If,
    Micro,
    Region,
    Roles,
    Statement,
    View,
    Wait,
    walk,
)
from fireiron.language.levels import SH

Body = tuple[Statement, ...]
Accesses = tuple[tuple[View, str], ...]

_NOTHING: tuple[Accesses, bool] = ((), False)


def await_copies(body: Body) -> Body:
    """Insert the commits and waits that a kernel's copies need.

    Args:
        body: the kernel's statements, without commits and waits of copies.
    """
    calls = [s for s in walk(body) if isinstance(s, Call) and starts(s, "copies")]
    if not calls:
        return body
    copied = frozenset(v.buffer.name for c in calls for v in c.views if v.buffer.memory == SH)
    walked = _Pass(calls[0].atom.completion, copied)
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Roles):
            roles = tuple(attrs.evolve(r, body=_Pass(walked.group, copied).run(r.body)) for r in s.roles)
            s = Roles(roles)
        out.append(s)
    return walked.run(tuple(out))


@attrs.define
class _Pass:
    """Hold the state of the walk at a place.

    Args:
        group: the name of the groups (`Flight`).
        copied: the buffers that copies write.
        newest: the chunk of the last committed group; None where there is none, or it is not known.
        landed: the last chunk such that it and all earlier chunks have landed.
        apart: the buffers of committed groups without a chunk that have not landed, each with the number of groups
            committed since.
        empty: whether each wait is followed by an empty commit, in a loop that reads a chunk in each trip and starts
            none. Then the number of groups that may be in flight is the same in all trips.
        ring: the buffers whose chunks are counted.
        known: a cache: the accesses of a statement to copied buffers, and whether it starts copies.
        open, loose: the buffers of copies whose group is not committed yet, with a chunk and without.
    """

    group: str
    copied: frozenset[str]
    newest: Expr | None = None
    landed: Expr | None = None
    apart: dict[str, int] = attrs.field(factory=dict[str, int])
    empty: bool = False
    ring: set[str] = attrs.field(factory=set[str])
    open: set[str] = attrs.field(factory=set[str])
    loose: set[str] = attrs.field(factory=set[str])
    known: dict[Itself, tuple[Accesses, bool]] = attrs.field(factory=dict[Itself, "tuple[Accesses, bool]"])

    def run(self, body: Body) -> Body:
        """Walk a sequence of statements."""
        out: list[Statement] = []
        for i, s in enumerate(body):
            if self.starts(s):
                out += self.batch(body, i)
            elif isinstance(s, For) and (self.copies(s) or self.drains(s)):
                flies = bool(self.apart) or self.newest is not None
                out.append(self.loop(s))
                if flies and not proves(ge(s.extent, 1)):
                    out.append(self.all_landed())
            elif self.copies(s) and isinstance(s, If | Region):
                out.append(attrs.evolve(s, body=self.run(s.body)))
            else:
                out += [*self.wait(s), s]
        return tuple(out)

    def batch(self, body: Body, i: int) -> Body:
        """Insert the wait for later readers before a sequence of copies, and the commit after it."""
        s, chunk = body[i], self.chunk(body[i])
        more = i + 1 < len(body) and self.starts(body[i + 1])
        more = more and (chunk is None or _alike(self.chunk(body[i + 1]), chunk))
        first = i == 0 or not self.starts(body[i - 1]) or not _alike(self.chunk(body[i - 1]), chunk)
        out: list[Statement] = []
        if first and chunk is not None:
            out += self.ahead(body[i + 1 :], chunk)
        out.append(s)
        written = {v.buffer.name for v in self.views(s, "write")}
        self.open, self.loose = (
            (self.open, self.loose | written) if chunk is None else (self.open | written, self.loose)
        )
        if more:
            return tuple(out)
        self.apart = {name: groups + 1 for name, groups in self.apart.items()} | dict.fromkeys(self.loose, 0)
        if chunk is not None:
            self.follow(chunk, self.open)
        self.open, self.loose = set(), set()
        return (*out, Commit(self.group))

    def follow(self, chunk: Expr, started: set[str]) -> None:
        """Count a chunk; if it does not follow the newest one, another ring begins, or the same ring starts again."""
        newer = None if self.newest is None else as_int(chunk - self.newest)
        if newer != 1:
            left = None if self.newest is None or self.landed is None else as_int(self.newest - self.landed)
            if left is None or left > 0:
                self.apart |= dict.fromkeys(self.ring - started, 1)
            self.landed, self.ring = None, set()
        self.newest = chunk
        self.ring |= started

    def ahead(self, rest: Body, chunk: Expr) -> Body:
        """Wait for the chunk that the first reader after a batch needs, if no other copies start in between."""
        for s in rest:
            if self.starts(s) and _alike(self.chunk(s), chunk):
                continue
            if self.copies(s):
                return ()
            reads = self.reads(s)
            if reads:
                return () if any(_alike(r, chunk) for r in reads) else self.wait(s)
        return ()

    def drains(self, loop: For) -> bool:
        """Say whether each trip of a loop reads a chunk that may not have landed."""
        if self.newest is None or loop.var in free(self.newest) or self.empty:
            return False
        return any(as_int(substitute(r, {loop.var: loop.var + 1}) - r) == 1 for r in self.reads(loop))

    def loop(self, loop: For) -> For:
        """Walk a loop in the state after its first trip; assume nothing if the first trip starts in another state."""
        starts = self.copies(loop)
        entry, apart = (self.newest, self.landed), dict(self.apart)
        if not starts:
            assert self.newest is not None
            self.empty, self.newest = True, self.newest + loop.var
        self.run(loop.body)
        known: list[Expr | None] = []
        for end, start in zip((self.newest, self.landed), entry, strict=True):
            before = None if end is None else substitute(end, {loop.var: loop.var - 1})
            first = None if before is None else substitute(before, {loop.var: 0})
            known.append(before if first is not None and start is not None and _alike(first, start) else None)
        self.newest, self.landed = known
        self.apart = apart
        if not starts and entry[0] is not None:
            self.newest = entry[0] + loop.var
        body = self.run(loop.body)
        last = {loop.var: loop.extent - 1}
        self.newest, self.landed = (None if e is None else substitute(e, last) for e in (self.newest, self.landed))
        self.empty = self.empty and starts
        return attrs.evolve(loop, body=body)

    def all_landed(self) -> Wait:
        """Wait for all copies, behind a loop that may make no trip: its waits were for copies ahead of it.

        What follows may reuse the memory that these copies write.
        """
        self.landed, self.apart = self.newest, {}
        return Wait(self.group, 0)

    def wait(self, s: Statement) -> Body:
        """Return the wait that a statement needs before it."""
        needed: list[int] = []
        for read in self.reads(s):
            behind = None if self.landed is None else as_int(self.landed - read)
            if behind is not None and behind >= 0:
                continue
            newer = None if self.newest is None else as_int(self.newest - read)
            needed.append(0 if newer is None else max(0, newer))
            self.landed = read
        for name in {v.buffer.name for v in self.views(s, "read")} & set(self.apart):
            needed.append(self.apart[name])
        if not needed:
            return ()
        pending = min(needed)
        self.apart = {name: groups for name, groups in self.apart.items() if groups < pending}
        if not self.empty:
            return (Wait(self.group, pending),)
        self.newest = None if self.newest is None else self.newest + 1
        return (Wait(self.group, pending), Commit(self.group))

    def copies(self, s: Statement) -> bool:
        """Say whether copies are started in a statement."""
        return self.facts(s)[1]

    def facts(self, s: Statement) -> tuple[Accesses, bool]:
        """Return the accesses of a statement of the body."""
        found = self.known.get(Itself(s))
        if found is None:
            found = _NOTHING
            if isinstance(s, For | If | Region):
                parts = [facts for x in s.body if (facts := self.facts(x)) is not _NOTHING]
                if parts:
                    found = tuple(x for part, _ in parts for x in part), any(starts for _, starts in parts)
            elif isinstance(s, Call | Compute | Micro):
                views = tuple((v, way) for v, way in reads_and_writes(s) if v.buffer.name in self.copied)
                views = tuple((v, way) for v, way in views if v.buffer.memory == SH)
                found = (views, starts(s, "copies")) if views else _NOTHING
            self.known[Itself(s)] = found
        return found

    def starts(self, s: Statement) -> bool:
        """Say whether a statement only starts copies to one slot, each copy once."""
        if not self.copies(s) or any(True for _ in self.views(s, "read")):
            return False
        chunks = self.chunks(s)
        loops = {x.var for x in walk((s,)) if isinstance(x, For)}
        return len(chunks) == 1 and not any(c is not None and loops & _variables(c) for c in chunks)

    def chunk(self, s: Statement) -> Expr | None:
        return self.chunks(s)[0]

    def chunks(self, s: Statement) -> list[Expr | None]:
        found: list[Expr | None] = []
        for x in walk((s,)):
            if isinstance(x, Call) and starts(x, "copies"):
                view = next(v for v in x.views if v.buffer.memory == SH)
                chunk = view.slot if view.buffer.slots > 1 else None
                if not any(_alike(chunk, other) for other in found):
                    found.append(chunk)
        return found

    def reads(self, s: Statement) -> list[Expr]:
        """List the chunks of rings that a statement reads."""
        found: list[Expr] = []
        for view in self.views(s, "read"):
            if view.slot is not None and view.buffer.name in self.ring and not any(_alike(view.slot, r) for r in found):
                found.append(view.slot)
        return found

    def views(self, s: Statement, wanted: str) -> Iterator[View]:
        return (view for view, way in self.facts(s)[0] if way == wanted)


def _variables(e: Expr) -> set[Var]:
    return {x for x in free(e) if isinstance(x, Var)}


def _alike(a: Expr | None, b: Expr | None) -> bool:
    return a is b or (a is not None and b is not None and as_int(a - b) == 0)
