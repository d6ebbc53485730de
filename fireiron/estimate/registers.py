"""Registers: the fewest registers that a thread's register tensors need at once."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.arch import Arch
from fireiron.algebra.expr import evaluate
from fireiron.algebra.occupancy import occupancy
from fireiron.kernel.analysis.sampling import Site, reads_and_writes, sites
from fireiron.kernel.ir.statements import Buffer, Call, For, Kernel, Role, Roles

REGISTER_NBYTES = 4
ADDRESSING = 24  # registers for indices, addresses and loops, beside the tensors; the presets take 20 to 40


def registers_of(buffer: Buffer) -> int:
    """Return the number of 32-bit registers that a register tensor takes in each thread."""
    size = evaluate(buffer.size, {})
    assert isinstance(size, int)
    return -(-size * buffer.slots * buffer.dtype.nbytes // REGISTER_NBYTES)


def registers_lacking(kernel: Kernel, arch: Arch) -> int:
    """Return the registers of all register tensors beyond those of a thread; negative where all tensors fit at once."""
    held = sum(registers_of(buffer) for buffer in kernel.buffers if buffer.memory.registers)
    most = max((role.registers for role in roles_of(kernel)), default=0)
    return held - (most or register_cap(arch, kernel.threads, kernel.minimum_blocks))


def least_registers(kernel: Kernel, sizes: Mapping[str, int] | None = None, role: Role | None = None) -> int:
    """Return the registers of a thread that hold tensors, at the place where the most are in use.

    The compiler adds addresses and loop counters. It may also need fewer registers, by reordering unrolled code.

    Args:
        kernel: the kernel.
        sizes: registers of each buffer to count, by name; None for all buffers of the kernel.
        role: the role of the threads; None for the role that needs the most.
    """
    everything = tuple(
        s for s in sites(kernel.body) if role is None or (s.role is not None and s.role.name == role.name)
    )
    everything = tuple(attrs.evolve(site, index=i) for i, site in enumerate(everything))
    lives = _lives(everything)
    alive = [0] * len(everything)
    for buffer in kernel.buffers:
        if not buffer.memory.registers or buffer.name not in lives:
            continue
        size = registers_of(buffer) if sizes is None else sizes.get(buffer.name, 0)
        sources = [b for b in kernel.buffers if b.name == buffer.follows and b.name in lives]
        taken = sum(registers_of(b) if sizes is None else sizes.get(b.name, 0) for b in sources)
        shared = {i for first, last in lives[buffer.follows] for i in range(first, last + 1)} if sources else set[int]()
        for index in {i for first, last in lives[buffer.name] for i in range(first, last + 1)}:
            # An element takes its source's registers.
            alive[index] += max(0, size - taken) if index in shared else size
    return max(alive, default=0)


def _lives(everything: tuple[Site, ...]) -> Mapping[str, list[tuple[int, int]]]:
    """Return the first and last sites of the ranges where each buffer is needed.

    A buffer with values from before a loop that a statement of the loop reads is needed until the loop ends. Before and
    behind a loop over chunks that writes a buffer first, the buffer has other values: ranges of their own.
    """
    spans = _spans(everything)
    lives: dict[str, list[tuple[int, int]]] = {}
    around: dict[str, For | None] = {}
    for site, loops in zip(everything, spans, strict=True):
        chunks = next((loop for loop in site.loops if loop.kind == "chunks" and not loop.unroll), None)
        ways = dict[str, str]()
        for view, way in reads_and_writes(site.statement):
            ways.setdefault(view.buffer.name, way)
        if isinstance(site.statement, Call) and site.statement.accumulate is not None:  # the first step takes zeros
            ways |= {v.buffer.name: "write" for v, way in reads_and_writes(site.statement) if way == "write"}
        for name, way in ways.items():
            ranges = lives.setdefault(name, [])
            if not ranges or (way == "write" and around[name] is not chunks):
                ranges.append((site.index, site.index))
            around[name] = chunks
            first, last = ranges[-1]
            ranges[-1] = first, max(last, site.index, *(end for start, end in loops if first < start))
    return lives


def _spans(everything: tuple[Site, ...]) -> list[list[tuple[int, int]]]:
    """List, for each site, the first and last sites of the loops around it; several loops may share a variable."""
    firsts: list[list[int]] = []
    before: tuple[For, ...] = ()
    for site in everything:
        same = 0
        while same < min(len(before), len(site.loops)) and before[same] is site.loops[same]:
            same += 1
        kept = firsts[-1][:same] if firsts else []
        firsts.append([*kept, *[site.index] * (len(site.loops) - same)])
        before = site.loops
    ends: dict[tuple[int, int], int] = {}
    for site, begun in zip(everything, firsts, strict=True):
        ends |= {(depth, first): site.index for depth, first in enumerate(begun)}
    return [[(first, ends[depth, first]) for depth, first in enumerate(begun)] for begun in firsts]


def roles_of(kernel: Kernel) -> tuple[Role, ...]:
    """List the roles of a block's warps; () without roles."""
    return next((s.roles for s in kernel.body if isinstance(s, Roles)), ())


def register_cap(arch: Arch, threads: int, minimum_blocks: int = 1) -> int:
    """Return the most registers of a thread (a multiple of 8, or 255) with which `minimum_blocks` blocks fit on an SM.

    Example:
        >>> from fireiron.algebra.arch import arch
        >>> register_cap(arch(90), 256), register_cap(arch(90), 1024), register_cap(arch(90), 256, 2)
        (255, 64, 128)
    """
    if threads > arch.threads_per_block:
        return arch.registers_per_thread
    for registers in (arch.registers_per_thread, *range(arch.registers_per_thread // 8 * 8, 0, -8)):
        if occupancy(arch, threads, registers).blocks >= max(1, minimum_blocks):
            return registers
    return 0
