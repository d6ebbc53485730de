"""Facts: threads, memory, registers and findings of a schedule, finished or not, on an architecture."""
# pyright: reportPrivateUsage=false
# What a chain holds for fireiron alone is private, so that completion leaves it out.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import attrs

from fireiron.algebra.arch import Arch
from fireiron.algebra.occupancy import Occupancy, occupancy
from fireiron.base.errors import Finding, FireironError, UsageError
from fireiron.base.link import Link
from fireiron.base.text import count, nbytes
from fireiron.estimate import resources
from fireiron.estimate.findings import findings, ranked, traffic
from fireiron.estimate.partial import HOLE, OPEN, Completion, added, complete, idle_ways, shares
from fireiron.estimate.registers import REGISTER_NBYTES, least_registers, registers_of
from fireiron.kernel.analysis.access import AccessRow, accesses
from fireiron.kernel.analysis.sampling import Site, reads_and_writes, sites
from fireiron.kernel.ir.statements import Kernel
from fireiron.kernel.lower.kernel import lower
from fireiron.language.decompositions import Decomposition
from fireiron.language.levels import Kernel as KernelLevel
from fireiron.language.residual import Residual
from fireiron.language.specs import Spec, Task

LATER = "set by a later link"


class Schedule(Protocol):
    """A chain, finished or not."""

    @property
    def program(self) -> Task:
        """Return the task."""
        ...

    @property
    def links(self) -> tuple[Decomposition, ...]:
        """Give the decompositions, outermost first."""
        ...

    @property
    def _origin(self) -> Residual:
        """Give the residual spec before the first link."""
        ...


@attrs.frozen
class BufferFact:
    """Describe one buffer.

    Args:
        name: the C identifier.
        memory: SH, FR or RF.
        dtype: element type.
        nbytes: its bytes, ring slots and copies included.
        scope: whether `nbytes` are the bytes of a block or of a thread.
        slots: number of ring slots.
        link: the load or epilog that made it.
    """

    name: str
    memory: str
    dtype: str
    nbytes: int
    scope: Literal["block", "thread"]
    slots: int = 1
    link: Link | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Facts:
    """Hold facts about a schedule.

    Args:
        spec: the residual spec, in words.
        arch: the architecture's name.
        complete: whether the chain is closed.
        threads: number of threads of a block; None where a later link determines it.
        shared_nbytes: bytes of shared memory of a block, for the loads written so far.
        registers: lower bound of a thread's registers: those of its tensors where the most are in use; None if
            `threads` is None.
        occupancy: upper bound of an SM's occupancy, computed from `registers`; None if `threads` is None.
        buffers: buffers in shared memory and registers.
        rows: GL and SH accesses of the Moves written so far.
        findings: errors, warnings and notes, located at links.
        unknown: facts that are not determined yet, in words.
    """

    spec: str
    arch: str
    complete: bool
    threads: int | None
    shared_nbytes: int
    registers: int | None
    occupancy: Occupancy | None
    buffers: tuple[BufferFact, ...]
    rows: tuple[AccessRow, ...]
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """List the errors, which keep the schedule from running."""
        return tuple(f for f in self.findings if f.severity == "error")

    def __repr__(self) -> str:
        return f"<Facts of {self.spec} on {self.arch}, {count(len(self.findings), 'finding')}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        lines = [f"{self.spec} on {self.arch}"]
        lines.append(f"threads: {LATER if self.threads is None else self.threads}")
        lines.append(f"shared memory: {nbytes(self.shared_nbytes)}")
        lines.append(f"registers: {LATER if self.registers is None else f'at least {self.registers} a thread'}")
        if self.occupancy is not None:
            o = self.occupancy
            lines.append(f"occupancy: at most {o.fraction:.0%}, {o.blocks} blocks of an SM, limited by {o.limit}")
        for row in self.rows:
            unit = ("wavefront" if row.memory == "SH" else "sector") + "s" * (row.per_request != 1)
            what = f"{row.title}: {row.direction}s {row.buffer}"
            fewest = row.per_request / row.degree if row.degree else 0.0
            more = "the fewest" if row.degree <= 1.0 else f"{fewest:.3g} would be enough"
            lines.append(f"{what}, {row.per_request:.3g} {unit} per request; {more}")
        return "\n".join((*lines, *self.unknown, *(f"{f.severity}[{f.code}]: {f.message}" for f in self.findings)))


def facts(schedule: Schedule, arch: Arch, kernel: Kernel | None = None) -> Facts:
    """Measure a schedule, finished or not.

    An unfinished schedule is closed by plain links; the accesses and registers of these links are left out. Where the
    number of threads is not determined yet, Moves are measured with 256 threads, and `unknown` says so.

    Args:
        schedule: a chain of a whole program.
        arch: the architecture.
        kernel: a finished schedule's kernel, where it is lowered already.

    Raises:
        UsageError: `nested-chain` for the chain of a Move inside another schedule.
    """
    if schedule._origin.level.name != KernelLevel.name:
        raise UsageError(
            "nested-chain",
            f"{schedule._origin} is a Move inside another schedule",
            fix="call this on the whole schedule",
        )
    spec = schedule.program.spec
    whole = complete(spec, schedule.links)
    links, problems, unknown = schedule.links, list[Finding](), list[str]()
    notes = tuple(idle_ways(spec, links))
    for kept in range(len(links), -1, -1):
        completion = complete(spec, links[:kept])
        if completion is None:
            break
        closed = completion.residual.closed
        if kernel is not None and closed:
            return _measure(spec, kernel, completion, arch, notes, (), whole)
        try:
            lowered = lower(schedule.program, completion.links, "kernel", arch.number, trust_no_sync=not closed)
        except FireironError as error:
            if error.link is HOLE or (error.code in OPEN and not closed):
                words = type(links[kept - 1]).__name__.lower()
                unknown += [f"link {kept} ({words}) is not measured yet: {error.message}"] if not unknown else []
            elif not problems:
                problems.append(Finding(error.code, error.message, "error", error.fix, error.link, error.path))
            continue
        return _measure(spec, lowered, completion, arch, (*problems, *notes), tuple(unknown), whole)
    spec = str(schedule._origin if whole is None else whole.residual)
    unknown.append(f"blocks, threads, shared memory and registers: {LATER}, which tiles to Block")
    return Facts(spec, arch.name, False, None, 0, None, None, (), (), tuple(problems), tuple(unknown))


def _measure(
    spec: Spec,
    kernel: Kernel,
    completion: Completion,
    arch: Arch,
    problems: tuple[Finding, ...],
    unknown: tuple[str, ...],
    whole: Completion | None,
) -> Facts:
    words = str((whole or completion).residual)
    everything = sites(kernel.body)
    made = resources.origins(kernel)
    if completion.residual.closed:
        least = least_registers(kernel)
        rows = accesses(kernel)
        return Facts(
            words, arch.name, True, kernel.threads, kernel.shared_nbytes, least,
            occupancy(arch, kernel.threads, least, kernel.shared_nbytes), _buffers(kernel, None, made, True), rows,
            ranked([*problems, *findings(kernel, arch, rows)]), unknown,
        )  # fmt: skip
    real = {name for name, origin in made.items() if origin.link is not HOLE}
    open_registers = frozenset[str]() if completion.owners_known else _hole_registers(everything)

    def keep(site: Site) -> bool:
        return not added(site) and not any(v.buffer.name in open_registers for v, _ in reads_and_writes(site.statement))

    rows = accesses(kernel, keep=keep)
    held = {b.name: registers_of(b) for b in kernel.buffers if b.memory.registers and b.name in real}
    even = {} if completion.owners_known else shares(spec, completion.links, kernel.threads)
    for buffer in kernel.buffers:
        link = made[buffer.name].link if buffer.name in open_registers & real else None
        if link is not None and link in even:
            held[buffer.name] = -(-buffer.dtype.nbytes_of(even[link] * buffer.slots) // REGISTER_NBYTES)
    least = least_registers(kernel, held)
    found = [*problems, *resources.shared_memory(kernel, arch), *traffic(kernel, rows)]
    more = [*unknown]
    threads = kernel.threads if completion.threads_known else None
    if threads is not None:
        found += [*resources.limits(kernel, arch, None), *resources.registers(kernel, arch, least, held)]
    elif least * kernel.threads > arch.registers_per_sm:
        found.append(_too_many_registers(kernel, arch, least, held))
    if threads is None:
        more.append(f"threads: {LATER}; Moves are measured with {kernel.threads}")
    if open_registers & real:
        names = ", ".join(sorted(open_registers & real))
        more.append(f"which thread holds which element of {names}: {LATER}, so their Moves are not measured")
    return Facts(
        words, arch.name, False, threads, kernel.shared_nbytes, None if threads is None else least,
        None if threads is None else occupancy(arch, threads, least, kernel.shared_nbytes),
        _buffers(kernel, held, made, threads is not None), rows, ranked(found), tuple(more),
    )  # fmt: skip


def _hole_registers(everything: tuple[Site, ...]) -> frozenset[str]:
    """List the register tensors whose ownership is determined by links that were added to close the chain."""
    return frozenset(
        view.buffer.name
        for site in everything
        if added(site)
        for view, _ in reads_and_writes(site.statement)
        if view.buffer.memory.registers
    )


def _too_many_registers(kernel: Kernel, arch: Arch, least: int, held: Mapping[str, int]) -> Finding:
    """Find register tensors that a block cannot hold, however many threads it has."""
    block = REGISTER_NBYTES * kernel.threads
    names = sorted(held, key=lambda name: -held[name])
    listed = ", ".join(f"{name} {nbytes(held[name] * block)}" for name in names)
    have = nbytes(arch.registers_per_sm * REGISTER_NBYTES)
    origin = resources.origins(kernel)[names[0]]
    return Finding(
        "registers",
        f"a block's register tensors take {nbytes(least * block)}, an SM of {arch} has {have}: {listed}",
        "error",
        fix="use a smaller tile a block",
        link=origin.link,
        path=origin.path,
    )


def _buffers(
    kernel: Kernel, held: Mapping[str, int] | None, made: Mapping[str, resources.Origin], threads_known: bool
) -> tuple[BufferFact, ...]:
    """List the author's buffers; `held` gives registers of a thread by name, None where the kernel's are final."""
    found: list[BufferFact] = []
    for buffer in kernel.buffers:
        registers = buffer.memory.registers
        if buffer.name not in made or made[buffer.name].link is HOLE:
            continue
        each = registers_of(buffer) if held is None or not registers else held[buffer.name]
        size = each * REGISTER_NBYTES * (1 if threads_known else kernel.threads) if registers else buffer.nbytes
        scope: Literal["block", "thread"] = "thread" if registers and threads_known else "block"
        link = made[buffer.name].link
        found.append(BufferFact(buffer.name, str(buffer.memory), str(buffer.dtype), size, scope, buffer.slots, link))
    return tuple(found)
