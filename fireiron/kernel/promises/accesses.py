"""Accesses: what one thread executes of a body, statement by statement, with the places that each touches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.statements import (
    THREAD,
    Call,
    Compute,
    Lower,
    Micro,
    Raise,
    Region,
    Role,
    Roles,
    Statement,
    View,
)
from fireiron.kernel.passes.handed import Handed
from fireiron.kernel.promises.values import Run, Values

Body = tuple[Statement, ...]


@attrs.frozen
class Access:
    """Hold what one statement accesses.

    Args:
        name: of the instruction, or of the kind of statement.
        touched: for each view `read` or `write`, its buffer, its slot (None for no ring) and its place.
    """

    name: str
    touched: tuple[tuple[str, str, int | None, tuple[object, ...]], ...]


@attrs.define
class _Trace(Run):
    """Note accesses; values do not count.

    Args:
        fills: whether those in regions that fill rings are noted, else all others; None for both.
        found: the accesses so far.
        inside: whether the run is in such a region.
    """

    fills: bool | None = None
    found: list[Access] = attrs.field(factory=list[Access])
    inside: bool = False

    def body(self, body: Body) -> None:
        for s in body:
            if isinstance(s, Region) and s.kind == "fill":
                self.inside = True
                super().body((s,))
                self.inside = False
                continue
            if isinstance(s, Raise | Lower):
                self.note(type(s).__name__, ((s.flag, "write"),))
            super().body((s,))

    def read(self, view: View) -> int:
        return 0

    def compute(self, s: Compute) -> None:
        if s.write is None or self.of(s.write):
            self.note("compute", reads_and_writes(s))

    def call(self, s: Call) -> None:
        if s.write is None or self.of(s.write):
            self.note(s.atom.name, reads_and_writes(s))

    def micro(self, s: Micro) -> None:
        self.note(s.name, reads_and_writes(s))

    def note(self, name: str, views: Iterable[tuple[View, str]]) -> None:
        if self.fills in (None, self.inside):
            self.found.append(Access(name, tuple(self.touched(view, way) for view, way in views)))

    def touched(self, view: View, way: str) -> tuple[str, str, int | None, tuple[object, ...]]:
        slot = None if view.slot is None else self.of(view.slot)
        return way, view.buffer.name, slot, self.lies(view)


def traced(body: Body, env: Mapping[str, int], fills: bool | None = None) -> list[Access]:
    """List what one thread accesses, in its order.

    Args:
        body: the statements, without roles.
        env: the thread, the block, and the sizes.
        fills: whether to list what fills rings, or all else; None for both.

    Raises:
        TooLong: where it executes too many statements.
    """
    run = _Trace(Values(env), {}, fills=fills)
    run.begin(body)
    return run.found


def roles_of(body: Body) -> tuple[Role, ...]:
    """List the roles of a kernel's body."""
    return next((s.roles for s in body if isinstance(s, Roles)), ())


def projected(before: Body, after: Body, env: Mapping[str, int]) -> Iterator[str]:
    """Name the roles that do not execute their part of a body: one what fills rings, the other all else.

    Args:
        before: the body, with the names that the kernel begins with.
        after: the same, parted.
        env: the thread, the block, and the sizes.
    """
    for role, fills in zip(roles_of(after), (True, False), strict=True):
        mine = {**env, THREAD: 0} if fills else env
        wanted, made = traced(before, mine, fills), traced(role.body, mine)
        if wanted != made:
            yield f"role {role.name} executes {len(made)} accesses, and they are not the {len(wanted)} of its part"


def flagged(body: Body, handed: Handed, env: Mapping[str, int]) -> Iterator[str]:
    """Name the places of a workspace that are read before their flag is lowered, or written and no flag raised."""
    lowered: set[object] = set()
    written: dict[object, None] = {}
    for access in traced(body, env):
        for way, buffer, slot, place in access.touched:
            if buffer == handed.flags.name:
                flag = place[0]
                if access.name == Lower.__name__:
                    lowered.add(flag)
                elif flag not in written:
                    yield f"{buffer}[{flag}] is raised, and {handed.buffer} was not written there"
                else:
                    del written[flag]
            elif buffer == handed.buffer and slot is not None:
                if way == "write":
                    written[slot] = None
                elif slot not in lowered:
                    yield f"{buffer} is read at {slot} before its flag is lowered"
    yield from (f"{handed.buffer} is written at {slot}, and no flag is raised behind it" for slot in written)
