"""Architectures: the limits of an SM, the features of a target, and the GPU that represents it in estimates."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from fireiron.algebra.machine import MACHINES, Machine
from fireiron.base.errors import SpecError

# Clusters of blocks; barriers that count bytes; launches that begin before the previous one has ended; roles that
# exchange registers.
Feature: TypeAlias = Literal[
    "clusters", "wide clusters", "counting barriers", "dependent launches", "register budgets"
]  # fmt: skip
KIB = 1024

GUIDE = "CUDA programming guide 13, section 5.1, tables 30 and 31"
GUIDE12 = "CUDA programming guide 12.9, section 17.2, tables 27 and 28"
# Limits that all targets share. Source: CUDA programming guide, compute capabilities and thread block clusters.
MAX_CLUSTER = 8  # cluster size that every GPU with clusters supports
WIDEST_CLUSTER = 16  # cluster size of GPUs with "wide clusters": a function's attribute must allow it
MAX_THREADS = 1024  # threads of a block
# For it and later targets NVRTC ends its process on some loops (`kernel/passes/two_trips.py`); for none before.
FIRST_UNSTEADY = 100
# Registers that a role may give each of its threads. Source: PTX ISA, setmaxnreg.
LEAST_BUDGET, MOST_BUDGET, BUDGET_STEP = 24, 256, 8
SAFE = "not in the CUDA programming guide's tables: the smallest limits of compute capability 8.x"


@attrs.frozen
class Arch:
    """Describe one compilation target and the limits of its SM.

    Args:
        name: the name for compilers (`sm_90a`).
        number: compute capability as an integer (90 for 9.0).
        features: features beside instructions, such as clusters.
        shared_per_block: bytes of shared memory that one block may have, static and dynamic, after opting in.
        shared_per_sm: bytes of shared memory of an SM, the system's reserve included.
        shared_reserved: bytes of shared memory that the system reserves for each block.
        shared_unit: granularity in bytes of allocations of shared memory.
        threads_per_sm: the most threads resident on an SM.
        blocks_per_sm: the most blocks resident on an SM.
        source: where the limits were read.
        gpu: a GPU of this architecture, for estimates.
        registers_per_sm: 32-bit registers of an SM, all of which one block may have.
        registers_per_thread: the most registers of one thread.
        register_unit: granularity in registers of a warp's allocation.
        threads_per_block: the most threads of a block.
        shared_without_opt_in: bytes of dynamic shared memory that a launch may ask for without an attribute.
        partitions: warp schedulers of an SM; each owns an equal part of the registers.
    """

    name: str
    number: int
    features: tuple[Feature, ...]
    shared_per_block: int
    shared_per_sm: int
    shared_reserved: int
    shared_unit: int
    threads_per_sm: int
    blocks_per_sm: int
    source: str
    gpu: Machine
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    register_unit: int = 256
    threads_per_block: int = MAX_THREADS
    shared_without_opt_in: int = 48 * KIB
    partitions: int = 4

    @property
    def warps_per_sm(self) -> int:
        """Return the most warps resident on an SM."""
        return self.threads_per_sm // 32

    @property
    def target(self) -> Arch:
        """Return the target that kernels are compiled for: sm_90a for sm_90, since all GPUs of capability 9 run it.

        Example:
            >>> arch("sm_90").target.name, arch("sm_120").target.name
            ('sm_90a', 'sm_120')
        """
        return native(90) if self.number == 90 else self

    def has(self, feature: Feature) -> bool:
        """Say whether the target has a feature."""
        return feature in self.features

    def runs_on(self, number: int) -> bool:
        """Say whether a GPU of this compute capability runs a cubin of this target.

        Example:
            >>> arch("sm_80").runs_on(86), arch("sm_90a").runs_on(100)
            (True, False)
        """
        if self.name.endswith("a"):
            return number == self.number
        return number // 10 == self.number // 10 and number >= self.number

    def __str__(self) -> str:
        return self.name


# The smallest compute capability of each ability of a target; what instructions need, their rows say.
# Source: PTX ISA, "Target ISA Notes" of each instruction; compiled with NVRTC 13.
_SINCE: dict[Feature, int] = {"clusters": 90, "counting barriers": 90, "dependent launches": 90}
# What an `a` target adds, and who has one.
_BUDGETS: tuple[Feature, ...] = ("register budgets",)
_ACCELERATED = (90, 100, 103, 110, 120, 121)
# Who has clusters of more than 8 blocks. Source: CUDA programming guide, thread block clusters: non-portable sizes.
_WIDE: tuple[Feature, ...] = ("wide clusters",)
_WITH_WIDE = (90, 100, 103)

# number: shared KiB per block, shared KiB per SM, threads per SM, blocks per SM, source
_LIMITS = {
    70: (96, 96, 2048, 32, GUIDE12),
    72: (96, 96, 2048, 32, GUIDE12),
    75: (64, 64, 1024, 16, GUIDE),
    80: (163, 164, 2048, 32, GUIDE),
    86: (99, 100, 1536, 16, GUIDE),
    87: (163, 164, 1536, 16, GUIDE),
    88: (99, 100, 1536, 16, SAFE),
    89: (99, 100, 1536, 24, GUIDE),
    90: (227, 228, 2048, 32, GUIDE),
    100: (227, 228, 2048, 32, GUIDE),
    103: (227, 228, 2048, 32, GUIDE),
    110: (227, 228, 1536, 24, GUIDE),
    120: (99, 100, 1536, 24, GUIDE),
    121: (99, 100, 1536, 24, GUIDE),
}


def _row(number: int, accelerated: bool) -> Arch:
    block, sm, threads, blocks, source = _LIMITS[number]
    common: tuple[Feature, ...] = tuple(feature for feature, since in _SINCE.items() if since <= number)
    common = (*common, *_WIDE) if number in _WITH_WIDE else common
    return Arch(
        name=f"sm_{number}{'a' if accelerated else ''}",
        number=number,
        features=(*common, *_BUDGETS) if accelerated else common,
        shared_per_block=block * KIB,
        shared_per_sm=sm * KIB,
        # From 8.0 on the system reserves 1 KiB for each block, and allocates units of 128 bytes. Source: the guide, and
        # cuda_occupancy.h.
        shared_reserved=KIB if number >= 80 else 0,
        shared_unit=128 if number >= 80 else 256,
        threads_per_sm=threads,
        blocks_per_sm=blocks,
        source=source,
        gpu=MACHINES[number],
    )


ARCHS: tuple[Arch, ...] = tuple(
    row
    for number in _LIMITS
    for row in ((_row(number, False), _row(number, True)) if number in _ACCELERATED else (_row(number, False),))
)

_BY_NAME = {row.name: row for row in ARCHS}


def arch(name: object) -> Arch:
    """Find an architecture by its name (`sm_90a`, `90a`, `compute_90`, `9.0`) or number (90).

    Raises:
        SpecError: `unknown-arch`.

    Example:
        >>> arch("sm_90a").number, arch(80).shared_per_block // 1024, arch("8.6").name
        (90, 163, 'sm_86')
    """
    if isinstance(name, Arch):
        return name
    text = str(name).lower().strip().removeprefix("sm_").removeprefix("compute_").replace(".", "")
    found = _BY_NAME.get(f"sm_{text}")
    if found is None:
        known = ", ".join(row.name for row in ARCHS)
        raise SpecError("unknown-arch", f"unknown architecture {name!r}", fix=f"use one of {known}")
    return found


def machine(name: object) -> Machine:
    """Return the machine that represents an architecture in estimates and presets.

    Example:
        >>> machine("sm_90a").sms
        132
    """
    return arch(name).gpu


def native(number: int) -> Arch:
    """Choose the best target for a GPU of this compute capability: the `a` target where there is one.

    For a newer minor capability than the table has, this is the nearest older target of the same major capability.

    Raises:
        SpecError: `unknown-arch`.

    Example:
        >>> native(90).name, native(89).name
        ('sm_90a', 'sm_89')
    """
    if number in _ACCELERATED:
        return _BY_NAME[f"sm_{number}a"]
    older = [known for known in _LIMITS if known // 10 == number // 10 and known <= number]
    return arch(max(older) if older else number)
