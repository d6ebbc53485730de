"""Occupancy: the number of blocks resident on an SM, and the resource that limits it."""

from __future__ import annotations

from typing import Literal

import attrs

from fireiron.algebra.arch import Arch

Limit = Literal["registers", "shared memory", "threads", "blocks"]


@attrs.frozen
class Occupancy:
    """Hold the occupancy of one SM.

    Args:
        blocks: number of resident blocks; 0 where none fits.
        warps: number of resident warps.
        limit: the resource that is exhausted.
        fraction: resident warps divided by the SM's maximum.
    """

    blocks: int
    warps: int
    limit: Limit
    fraction: float


def occupancy(arch: Arch, threads: int, registers: int = 0, shared_nbytes: int = 0) -> Occupancy:
    """Count the blocks that fit on one SM.

    Args:
        arch: the architecture.
        threads: number of threads of a block.
        registers: registers of a thread, 0 where not known.
        shared_nbytes: bytes of shared memory of a block, static and dynamic.

    Source: cuda_occupancy.h of the CUDA toolkit (the rules of its occupancy calculator).

    Example:
        >>> from fireiron.algebra.arch import arch
        >>> occupancy(arch(80), threads=256, registers=128, shared_nbytes=0)
        Occupancy(blocks=2, warps=16, limit='registers', fraction=0.25)
    """
    warps = -(-threads // 32)
    counts: dict[Limit, int] = {
        "threads": arch.warps_per_sm // warps if threads <= arch.threads_per_block else 0,
        "registers": _blocks_by_registers(arch, warps, registers),
        "shared memory": _blocks_by_shared(arch, shared_nbytes),
        "blocks": arch.blocks_per_sm,
    }
    limit: Limit = min(counts, key=lambda name: counts[name])
    blocks = counts[limit]
    return Occupancy(blocks, blocks * warps, limit, blocks * warps / arch.warps_per_sm)


def _blocks_by_registers(arch: Arch, warps: int, registers: int) -> int:
    if registers > arch.registers_per_thread:
        return 0
    if registers == 0:
        return arch.blocks_per_sm
    each = -(-registers * 32 // arch.register_unit) * arch.register_unit
    # A warp lives in one partition of the SM, and takes its registers there.
    fit = arch.registers_per_sm // arch.partitions // each * arch.partitions
    # A block gets registers as if its warps were spread evenly over the partitions.
    granted = -(-warps // arch.partitions) * arch.partitions * each
    return fit // warps if granted <= arch.registers_per_sm else 0


def _blocks_by_shared(arch: Arch, nbytes: int) -> int:
    if nbytes > arch.shared_per_block:
        return 0
    each = -(-(nbytes + arch.shared_reserved) // arch.shared_unit) * arch.shared_unit
    return arch.shared_per_sm // each if each else arch.blocks_per_sm
