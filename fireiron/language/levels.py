"""Levels of the machine and its memories, as records that a user can add to.

Source: CUDA programming guide, thread hierarchy; quad-pairs: PTX ISA 9.7.14, mma.m8n8k4.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.layout import Layout
from fireiron.base.contract import checked, checked_fields
from fireiron.base.errors import SpecError
from fireiron.base.link import here


@attrs.frozen(eq=False, repr=False, field_transformer=checked_fields)
class Level:
    """Describe a group of threads, such as a warp, and the places of its threads inside the enclosing group.

    Args:
        name: the name in trees and errors.
        parent: the enclosing level, None for the kernel.
        threads: the positions of a unit's threads inside one parent unit (`(4,2):(1,16)` for a quad-pair of a warp), or
            None where the number of threads follows from the schedule (blocks of a kernel).
        size: number of threads of a unit, or None where the number follows from the schedule.
    """

    name: str
    parent: Level | None = None
    threads: Layout | None = None
    size: int | None = None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        # Levels are compared thousands of times a schedule, nearly always with themselves.
        return self is other or (
            isinstance(other, Level)
            and (self.name, self.size, self.threads, self.parent)
            == (other.name, other.size, other.threads, other.parent)
        )

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def ancestors(self) -> tuple[Level, ...]:
        """List the enclosing levels, nearest first."""
        return () if self.parent is None else (self.parent, *self.parent.ancestors)

    def is_inside(self, other: Level) -> bool:
        """Say whether this level nests strictly inside `other`; single threads nest inside every group of threads.

        A unit of n consecutive threads also nests inside units of a multiple of n consecutive threads, whatever its
        ancestors.
        """
        if self.size == 1 and (other.size or 1) > 1:
            return True
        if any(level.name == other.name for level in self.ancestors):
            return True
        return other.is_row and any(
            level.is_row and level.size != other.size and (other.size or 0) % (level.size or 1) == 0
            for level in (self, *self.ancestors)
        )

    @property
    def is_row(self) -> bool:
        """Say whether a unit's threads have consecutive numbers in the block."""
        if self.threads is None or self.size is None or self.threads != Layout(self.size, 1):
            return False
        return self.parent is not None and (self.parent.size is None or self.parent.is_row)


Kernel = Level("Kernel")
Cluster = Level("Cluster", Kernel)
Block = Level("Block", Cluster)
Warpgroup = Level("Warpgroup", Block, Layout(128, 1), 128)
Warp = Level("Warp", Warpgroup, Layout(32, 1), 32)
QuadPair = Level("QuadPair", Warp, Layout((4, 2), (1, 16)), 8)
Thread = Level("Thread", QuadPair, Layout(1, 1), 1)


@checked
def Group(level: Level, count: int) -> Level:
    """Make a level of `count` neighbouring units of another; `Group(Warp, 4)` is the Warpgroup.

    A group of Threads has 2, 4, 8 or 16 lanes of one warp; 32 threads are the Warp.

    Raises:
        SpecError: `level-group` for a level whose threads do not follow each other, or fewer than one unit.

    Example:
        >>> str(Group(Warp, 2)), Group(Warp, 2).size, Group(Warp, 4) is Warpgroup
        ('Group(Warp, 2)', 64, True)
    """
    if level == Thread and count in (2, 4, 8, 16, Warp.size):
        return Warp if count == Warp.size else Level(f"Lanes{count}", Warp, Layout(count, 1), count)
    if not level.is_row or level.size is None or count < 1:
        raise SpecError(
            "level-group",
            f"{count} units of {level} make no group",
            fix="group 1 or more of a level whose threads follow each other: Warp, Warpgroup, or such a group",
            link=here(),
        )
    if count == 1 or (level.name, count) == (Warp.name, 4):
        return level if count == 1 else Warpgroup
    size = level.size * count
    return Level(f"Group({level}, {count})", Block, Layout(size, 1), size)


LEVELS = (Kernel, Cluster, Block, Warpgroup, Warp, QuadPair, Thread)


@attrs.frozen(eq=False, repr=False, field_transformer=checked_fields)
class Memory:
    """Describe a memory, and the level whose threads share one copy of a buffer in it.

    Args:
        name: the name in trees and errors.
        scope: the widest level whose threads see the same copy. Example: Block for shared memory.
        registers: whether elements are registers, found by the thread that owns them and not by an address.
    """

    name: str
    scope: Level
    registers: bool = False

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Memory)
            and (self.name, self.scope, self.registers) == (other.name, other.scope, other.registers)
        )

    def __hash__(self) -> int:
        return hash(self.name)


GL = Memory("GL", Kernel)
SH = Memory("SH", Block)
FR = Memory("FR", Warp, registers=True)
RF = Memory("RF", Thread, registers=True)

MEMORIES = (GL, SH, FR, RF)
