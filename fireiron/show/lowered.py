"""Find in a lowered kernel the regions, buffers, atoms, barriers and lines of a schedule's links."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from fireiron.algebra.expr import as_int
from fireiron.base.text import Writer
from fireiron.cuda.printer import INDENT
from fireiron.cuda.statements import Body
from fireiron.kernel.ir.statements import (
    Buffer,
    Call,
    Compute,
    For,
    Kernel,
    Micro,
    Region,
    RegionKind,
    Role,
    Roles,
    Statement,
    Sync,
    walk,
    within,
)
from fireiron.language.decompositions import Epilog, Load, Split, Tile
from fireiron.show.steps import Nested, Step

REGISTER_NBYTES = 4


def regions(kernel: Kernel, path: str, kind: RegionKind | None = None) -> tuple[Region, ...]:
    """List the regions with a path, of one kind or of all kinds."""
    found = (s for s in walk(kernel.body) if isinstance(s, Region))
    return tuple(r for r in found if r.path == path and kind in (None, r.kind))


def of_step(kernel: Kernel, step: Step) -> tuple[Region, ...]:
    """List the regions that a link made: a load's prologue and loop, an epilog's stores, a tile's inside, sums."""
    match step.link:
        case Tile(level=None):
            return ()
        case Tile():
            return regions(kernel, step.path, "spec")
        case Load():
            return _loads(kernel, step)
        case Epilog():
            return regions(kernel, step.path)
        case Split(level=level) if level is not None:
            return regions(kernel, step.path, "fold")
        case _:
            return ()


def _loads(kernel: Kernel, step: Step) -> tuple[Region, ...]:
    """List a load's regions in program order, with the regions of its hops."""
    hops = f"{step.path} > load src"
    found = (s for s in walk(kernel.body) if isinstance(s, Region))
    return tuple(r for r in found if r.path.startswith(hops) or (r.path == step.path and r.kind == "load"))


def buffer(kernel: Kernel, step: Step) -> Buffer | None:
    """Return the buffer that a load fills, or the accumulator of an epilog."""
    match step.link:
        case Load():
            for region in regions(kernel, step.path, "load"):
                return next((b for b in kernel.buffers if b.name == region.buffer), None)
        case Epilog():
            for region in regions(kernel, step.path, "init"):
                return next((s.dst.buffer for s in walk(region.body) if isinstance(s, Compute)), None)
            # An instruction that zeroes its accumulator itself leaves no Init.
            made = compute(kernel)
            if isinstance(made, Call) and made.atom.kind == "MatMul" and made.views[2].buffer.memory.registers:
                return made.views[2].buffer
        case _:
            pass
    return None


def meeting(kernel: Kernel, step: Step) -> tuple[str, int | None]:
    """Return the buffer through which a parallel split's units combine sums: its name, and its bytes if known."""
    for region in regions(kernel, step.path, "fold"):
        for statement in walk(region.body):
            if isinstance(statement, Call) and not statement.views[1].buffer.memory.registers:
                buffer = statement.views[1].buffer
                size = as_int(buffer.size)
                return buffer.name, buffer.nbytes or (None if size is None else size * buffer.dtype.nbytes)
    return "", None


def shuffled(kernel: Kernel, step: Step) -> bool:
    """Say whether the units of a parallel split, lanes of one warp, add their sums by shuffles."""
    found = (s for region in regions(kernel, step.path, "fold") for s in walk(region.body))
    return any(isinstance(s, Call) and s.atom.kind == "Shuffle" for s in found)


def registers(buffer: Buffer) -> int:
    """Return the number of registers of one thread's part of a register tensor."""
    size = as_int(buffer.size)
    return 0 if size is None else -(-size * buffer.slots * buffer.dtype.nbytes // REGISTER_NBYTES)


def register_total(kernel: Kernel) -> int:
    """Return the number of registers of register tensors and of vectors being converted, without those of addresses."""
    return sum(registers(b) for b in kernel.buffers if b.memory.registers)


def compute(kernel: Kernel) -> Call | Compute | Micro | None:
    """Return the instruction or microkernel that multiplies; if there is none, the last one that moves or computes."""
    last: Call | Compute | None = None
    for statement in walk(kernel.body):
        if isinstance(statement, Micro) or (isinstance(statement, Call) and statement.atom.kind == "MatMul"):
            return statement
        last = statement if isinstance(statement, Call | Compute) else last
    return last


def compute_name(kernel: Kernel) -> str:
    """Name the instruction or microkernel that `compute` returns; "" for plain arithmetic."""
    match compute(kernel):
        case Call(atom):
            return atom.name
        case Micro(name):
            return name
        case _:
            return ""


def move_atoms(kernel: Kernel, move: Nested, step: Step) -> tuple[str, ...]:
    """Name the instructions at the end of a Move, without those of nested hops."""
    kind: RegionKind = "store" if isinstance(step.link, Epilog) else "load"
    path = step.path if isinstance(step.link, Epilog) else move.path
    atoms: dict[str, None] = {}
    for region in regions(kernel, path, kind):
        for statement in _direct(region.body):
            if isinstance(statement, Call):
                atoms[statement.atom.name] = None
            elif isinstance(statement, Micro):
                atoms[statement.name] = None
    return tuple(atoms)


def _direct(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Visit statements as `walk` does, but not inside inner regions."""
    for statement, around in within(body):
        if not isinstance(statement, Region) and not any(isinstance(x, Region) for x in around):
            yield statement


def barriers(kernel: Kernel) -> tuple[Sync, ...]:
    """List the barriers in program order."""
    return tuple(s for s in walk(kernel.body) if isinstance(s, Sync))


def barriers_of(kernel: Kernel, name: str) -> tuple[Sync, ...]:
    """List the barriers whose reason names a buffer."""
    return tuple(s for s in barriers(kernel) if re.search(rf"\b{re.escape(name)}\b", s.reason))


def roles(kernel: Kernel) -> tuple[Role, ...]:
    """List the roles of a block; none where all threads do the same."""
    return next((s.roles for s in walk(kernel.body) if isinstance(s, Roles)), ())


def enclosing(kernel: Kernel) -> tuple[For, ...]:
    """List the loops around the instruction of `compute`, outermost first."""
    goal = compute(kernel)
    around = next((around for statement, around in within(kernel.body) if statement is goal), ())
    return tuple(loop for loop in around if isinstance(loop, For))


@attrs.frozen
class Lines:
    """Hold the lines of each statement in a printed kernel.

    Args:
        found: each statement with its first and last line, counted from 1, in program order.
    """

    found: tuple[tuple[Statement, int, int], ...]

    def of(self, statement: Statement) -> tuple[int, int] | None:
        """Return the first and last line of a statement."""
        return next(((first, last) for s, first, last in self.found if s is statement), None)


class _Counting(Writer):
    """Count lines while they are written."""

    def __init__(self) -> None:
        super().__init__(INDENT)
        self.count = 0

    def line(self, text: str = "") -> None:
        super().line(text)
        self.count += text.count("\n") + 1


@attrs.define
class _Marking(Body):
    """Print statements, and record the lines of each."""

    marks: list[tuple[Statement, int, int]] = attrs.field(factory=list[tuple[Statement, int, int]])

    def statement(self, statement: Statement) -> None:
        assert isinstance(self.writer, _Counting)
        first, place = self.writer.count, len(self.marks)
        # A region heads itself with an empty line, which is not its own.
        blank = 1 if isinstance(statement, Region) else 0
        Body.statement(self, statement)
        self.marks.insert(place, (statement, first + blank, self.writer.count - 1))


def lines(kernel: Kernel, source: str) -> Lines:
    """Find each statement's lines in the kernel's printed source; none if the source is not this kernel's."""
    writer = _Counting()
    with writer.indent():
        body = _Marking(kernel.threads, writer)
        body.statements(kernel.body)
    text = writer.text()
    at = source.find(text)
    start = source[:at].count("\n")
    if at < 0:  # the printer drops an empty line at the very start
        at = source.find(text.removeprefix("\n"))
        start = source[:at].count("\n") - 1
    if at < 0:
        return Lines(())
    return Lines(tuple((s, first + start + 1, last + start + 1) for s, first, last in body.marks))
