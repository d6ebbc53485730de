"""Sums passed between units of the grid: derives the flags that are set after writes and cleared before reads.

Each unit has a place in the workspace, and a flag. After a unit's writes to its place, its flag is set (release).
Before another unit's reads of that place, the flag is awaited and cleared (acquire). The slot of an access is the
number of the place. Loops over the elements of one place stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from fireiron.algebra.expr import Expr
from fireiron.base.link import Link
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.statements import (
    Buffer,
    Call,
    Compute,
    For,
    If,
    Lower,
    Micro,
    Raise,
    Region,
    Roles,
    Statement,
    View,
    walk,
)
from fireiron.language.levels import Level

Body = tuple[Statement, ...]


@attrs.frozen
class Handed:
    """Hold a workspace through which units pass sums to each other.

    Args:
        buffer: the workspace's name.
        flags: the buffer of flags, one for each place.
        level: level of the units.
        link: the link that needs the exchange.
    """

    buffer: str
    flags: Buffer
    level: Level
    link: Link | None = attrs.field(default=None, eq=False, repr=False)

    def places(self, s: Statement, way: str) -> Iterator[Expr]:
        """List the places that a statement reads, or writes."""
        for x in walk((s,)):
            if isinstance(x, Call | Compute | Micro):
                for view, how in reads_and_writes(x):
                    if how == way and view.buffer.name == self.buffer and view.slot is not None:
                        yield view.slot


def raise_flags(body: Body, workspaces: Sequence[Handed]) -> Body:
    """Insert the setting and clearing of flags, by which units of the grid wait for other units' writes.

    Args:
        body: the kernel's statements.
        workspaces: the workspaces through which a unit passes its sums to the next one.
    """
    for handed in workspaces:
        body = _raised(body, handed)
    return body


def _raised(body: Body, handed: Handed) -> Body:
    out: list[Statement] = []
    for s in body:
        match s:
            case Roles(roles=roles):
                out.append(Roles(tuple(attrs.evolve(r, body=_raised(r.body, handed)) for r in roles)))
                continue
            case If(body=inner) | Region(body=inner):
                out.append(attrs.evolve(s, body=_raised(inner, handed)))
                continue
            case For(body=inner, kind=kind) if kind != "elements":
                out.append(attrs.evolve(s, body=_raised(inner, handed)))
                continue
            case _:
                pass
        read = next(handed.places(s, "read"), None)
        written = next(handed.places(s, "write"), None)
        lowered = () if read is None else (Lower(View(handed.flags, read), handed.level, handed.link),)
        raised = () if written is None else (Raise(View(handed.flags, written), handed.level, handed.link),)
        out += [*lowered, s, *raised]
    return tuple(out)
