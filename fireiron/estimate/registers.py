"""Registers: the fewest registers that a thread's register tensors need at once."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.arch import Arch
from fireiron.algebra.expr import evaluate
from fireiron.algebra.occupancy import occupancy
from fireiron.kernel.analysis.sampling import Site, reads_and_writes, sites
from fireiron.kernel.ir.statements import Buffer, Kernel, Role, Roles

REGISTER_NBYTES = 4
ADDRESSING = 24  # registers for indices, addresses and loops, beside the tensors; the presets take 20 to 40


def registers_of(buffer: Buffer) -> int:
    """Return the number of 32-bit registers that a register tensor takes in each thread."""
    size = evaluate(buffer.size, {})
    assert isinstance(size, int)
    return -(-size * buffer.slots * buffer.dtype.nbytes // REGISTER_NBYTES)


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
        first, last = lives[buffer.name]
        sources = [b for b in kernel.buffers if b.name == buffer.follows and b.name in lives]
        taken = sum(registers_of(b) if sizes is None else sizes.get(b.name, 0) for b in sources)
        shared = range(lives[buffer.follows][0], lives[buffer.follows][1] + 1) if sources else range(0)
        for index in range(first, last + 1):  # an element takes its source's registers
            alive[index] += max(0, size - taken) if index in shared else size
    return max(alive, default=0)


def _lives(everything: tuple[Site, ...]) -> Mapping[str, tuple[int, int]]:
    """Return the first and last site where each buffer is needed.

    A buffer with values from before a loop that a statement of the loop reads is needed until the loop ends.
    """
    ends: dict[str, int] = {}
    starts: dict[str, int] = {}
    for site in everything:
        for loop in site.loops:
            starts.setdefault(loop.var.name, site.index)
            ends[loop.var.name] = site.index
    lives: dict[str, tuple[int, int]] = {}
    for site in everything:
        for view, _ in reads_and_writes(site.statement):
            name = view.buffer.name
            first, last = lives.get(name, (site.index, site.index))
            entered = [ends[x.var.name] for x in site.loops if first < starts[x.var.name]]
            lives[name] = (first, max(last, site.index, *entered))
    return lives


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
