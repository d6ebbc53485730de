"""Accesses: the statements that one thread executes of a body, with the places that each statement accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import attrs

from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.statements import (
    THREAD,
    Buffer,
    Call,
    Compute,
    Fetch,
    Lower,
    Micro,
    Raise,
    Region,
    Role,
    Roles,
    Statement,
    View,
    walk,
)
from fireiron.kernel.passes.handed import Handed
from fireiron.kernel.promises.values import Run, Values

Body = tuple[Statement, ...]


@attrs.frozen
class Access:
    """Hold the accesses of one statement.

    Args:
        name: name of the instruction, or of the kind of statement.
        touched: for each view: `read` or `write`, the buffer's name, the slot (None without a ring) and the place.
    """

    name: str
    touched: tuple[tuple[str, str, int | None, tuple[object, ...]], ...]


@attrs.define
class Trace(Run):
    """Record accesses; values are ignored.

    Args:
        fills: True to record only accesses in regions that fill rings, False for all others, None for both.
        found: the accesses recorded so far.
        inside: whether the current statement is in a region that fills rings.
        outside: places outside of arrays at which indices are read.
    """

    fills: bool | None = None
    found: list[Access] = attrs.field(factory=list[Access])
    inside: bool = False
    outside: list[str] = attrs.field(factory=list[str])

    def body(self, body: Body) -> None:
        """Run statements, keeping track of regions that fill rings."""
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
        """Return the same fingerprint for all elements."""
        return 0

    def compute(self, s: Compute) -> None:
        """Record a statement that computes."""
        if s.write is None or self.of(s.write):
            self.note("compute", reads_and_writes(s))

    def call(self, s: Call) -> None:
        """Record the accesses of an instruction."""
        if s.write is None or self.of(s.write):
            self.note(s.atom.name, reads_and_writes(s))

    def micro(self, s: Micro) -> None:
        """Record the accesses of a microkernel."""
        self.note(s.name, reads_and_writes(s))

    def fetch(self, s: Fetch) -> None:
        """Read an index from its array; record a place outside the array."""
        super().fetch(s)
        if self.of(s.present) and not 0 <= (at := self.of(s.view.offset)) < self.of(s.view.buffer.size):
            self.outside.append(f"element {at} of {s.view.buffer.name} is read, which has {s.view.buffer.size}")

    def note(self, name: str, views: Iterable[tuple[View, str]]) -> None:
        """Record the accesses of a statement."""
        if self.fills in (None, self.inside):
            self.found.append(Access(name, tuple(self.touched(v, way, i) for i, (v, way) in enumerate(views))))

    def touched(self, view: View, way: str, number: int = 0) -> tuple[str, str, int | None, tuple[object, ...]]:
        """Return the access of the statement's view with this number."""
        slot = None if view.slot is None else self.of(view.slot)
        return way, view.buffer.name, slot, self.lies(view)


def traced(body: Body, env: Mapping[str, int], fills: bool | None = None) -> list[Access]:
    """List the accesses of one thread, in the order of execution.

    Args:
        body: the statements, without roles.
        env: values of the thread's and block's index, and of sizes.
        fills: True to list only accesses that fill rings, False for all others, None for both.

    Raises:
        TooLong: where the thread executes too many statements.
    """
    run = Trace(Values(env), {}, fills=fills)
    run.begin(body)
    return run.found


def bodies_of(body: Body) -> tuple[Body, ...]:
    """List the bodies that run at the same time: each role's body, or the kernel's."""
    return tuple(role.body for role in roles_of(body)) or (body,)


def buffers_of(body: Body) -> dict[str, Buffer]:
    """Return the buffers that statements touch, by name."""
    found: dict[str, Buffer] = {}

    def view(part: object) -> None:
        match part:
            case View(buffer=buffer):
                found[buffer.name] = buffer
            case Buffer(name=name):
                found[name] = part
            case tuple():
                for x in cast("tuple[object, ...]", part):
                    view(x)
            case _:
                pass

    for s in walk(body):
        for field in attrs.fields(type(s)):
            view(getattr(s, field.name))
        if isinstance(s, Call) and s.map is not None:
            found[s.map.buffer.name] = s.map.buffer
    return found


def subscripted(before: Body, after: Body, env: Mapping[str, int]) -> Iterator[str]:
    """Describe differences between statements with array elements as indices and those that read these first.

    Args:
        before: statements with array elements as indices.
        after: the same statements, which first read each element to a variable.
        env: values of the thread's and block's index, and of sizes.

    Raises:
        TooLong: where the thread executes too many statements.
    """
    for old, new in zip(bodies_of(before), bodies_of(after), strict=True):
        run = Trace(Values(env), {})
        run.begin(new)
        yield from dict.fromkeys(run.outside)
        if run.found != traced(old, env):
            yield "what is accessed at subscripts lies elsewhere"


def roles_of(body: Body) -> tuple[Role, ...]:
    """List the roles of a kernel's body."""
    return next((s.roles for s in body if isinstance(s, Roles)), ())


def projected(before: Body, after: Body, env: Mapping[str, int]) -> Iterator[str]:
    """List the roles that do not execute their part of a body: the first role fills rings, the second does the rest.

    Args:
        before: the body, with the definitions at the kernel's start.
        after: the body split into roles.
        env: values of the thread's and block's index, and of sizes.
    """
    for role, fills in zip(roles_of(after), (True, False), strict=True):
        mine = {**env, THREAD: 0} if fills else env
        wanted, made = traced(before, mine, fills), traced(role.body, mine)
        if wanted != made:
            yield f"role {role.name} executes {len(made)} accesses, and they are not the {len(wanted)} of its part"


def flagged(body: Body, handed: Handed, env: Mapping[str, int]) -> Iterator[str]:
    """List the places of a workspace that are read before their flag is cleared, or written without setting a flag."""
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
