"""Asynchronous products whose operands threads write to shared memory: derives the fences before them and waits after.

wgmma reads shared memory by another proxy than threads write it, so each thread that has written executes a fence
before the barrier that precedes the products. wgmma also reads after it was issued, so each thread waits for its
products before the barrier after which threads may overwrite the operands. Bulk copies write by the asynchronous proxy,
and their slots are released only after the products have ended, so their buffers need neither.
"""

from __future__ import annotations

import attrs

from fireiron.atoms.flights import flying
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.statements import (
    Call,
    Commit,
    Compute,
    Fence,
    For,
    If,
    Micro,
    Region,
    Roles,
    Statement,
    Sync,
    Wait,
    walk,
)
from fireiron.language.levels import SH

Body = tuple[Statement, ...]
MOST_CLOSED = 8  # most groups that are counted after products


def order_products(body: Body) -> Body:
    """Insert the fences and waits for products whose operands threads write.

    Args:
        body: the kernel's statements, with their barriers.
    """
    read: set[str] = set()
    written: set[str] = set()
    copied: set[str] = set()
    for s in walk(body):
        if not isinstance(s, Call | Compute | Micro):
            continue
        kind = flying(s.atom.completion) if isinstance(s, Call) else None
        for view, way in reads_and_writes(s):
            if view.buffer.memory != SH or view.buffer.guarded:  # a ring's barriers order its buffers
                continue
            if kind == "products" and way != "write":
                read.add(view.buffer.name)
            if kind in (None, "copies") and way != "read":
                (written if kind is None else copied).add(view.buffer.name)
    if not read & (written | copied):
        return body
    return _Pass(frozenset(read & written), frozenset(read & copied)).run(body, _Open())[0]


@attrs.frozen
class _Open:
    """Hold the state of the walk at a place.

    Args:
        unseen: buffers that threads have written since the last fence.
        group: name of the group of products that may be in flight and read buffers that threads write; "" for none.
        closed: number of groups committed since the newest of these products began.
    """

    unseen: frozenset[str] = frozenset()
    group: str = ""
    closed: int = 0

    def __or__(self, other: _Open) -> _Open:
        if not self.group or not other.group:
            newest = self if self.group else other
            return attrs.evolve(newest, unseen=self.unseen | other.unseen)
        return _Open(self.unseen | other.unseen, self.group, min(self.closed, other.closed))


@attrs.frozen
class _Pass:
    """Walk statements in the order in which threads execute them.

    Args:
        written: names of products' operands that threads write.
        copied: names of products' operands that threads write by cp.async; the writes are complete where the threads
            wait for the copies.
    """

    written: frozenset[str]
    copied: frozenset[str]

    def run(self, body: Body, now: _Open) -> tuple[Body, _Open]:
        """Return a body with fences and waits, and the state after it.

        Args:
            body: the statements.
            now: the state before the statements.
        """
        out: list[Statement] = []
        for s in body:
            match s:
                case Sync():
                    out += [Commit(now.group)] if now.group and not now.closed else []
                    out += [Wait(now.group, max(0, now.closed - 1))] if now.group else []
                    if now.unseen:
                        names = " and ".join(sorted(now.unseen))
                        out.append(Fence("proxy.async", f"threads write {names} before products read it"))
                    now = _Open()
                case Fence(kind="proxy.async"):
                    now = attrs.evolve(now, unseen=frozenset())
                case Commit(group=group) if group == now.group:
                    now = attrs.evolve(now, closed=min(now.closed + 1, MOST_CLOSED))
                case Wait(group=group, pending=pending) if flying(group) == "products":
                    now = attrs.evolve(now, group=now.group if pending >= max(1, now.closed) else "")
                case Wait(group=group) if flying(group) == "copies":
                    now = attrs.evolve(now, unseen=now.unseen | self.copied)
                case For():
                    inner, after = self.run(s.body, now)
                    if now | after != now:  # the next trip begins with what this one leaves open
                        inner, after = self.run(s.body, now | after)
                    s, now = attrs.evolve(s, body=inner), now | after
                case If():
                    inner, after = self.run(s.body, now)
                    s, now = attrs.evolve(s, body=inner), now | after
                case Region():
                    inner, now = self.run(s.body, now)
                    s = attrs.evolve(s, body=inner)
                case Roles():
                    s = Roles(tuple(attrs.evolve(r, body=self.run(r.body, now)[0]) for r in s.roles))
                case Call() if flying(s.atom.completion) == "products":
                    mine = any(v.buffer.name in self.written | self.copied for v in s.views)
                    now = attrs.evolve(now, group=s.atom.completion, closed=0) if mine else now
                case Call() if flying(s.atom.completion) is not None:
                    pass
                case Call() | Compute() | Micro():
                    names = {v.buffer.name for v, way in reads_and_writes(s) if way != "read"}
                    now = attrs.evolve(now, unseen=now.unseen | (self.written & names))
                case _:
                    pass
            out.append(s)
        return tuple(out), now
