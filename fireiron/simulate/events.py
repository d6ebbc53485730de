"""Events: the actions of blocks, as traces list and timelines draw them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

Kind = Literal["run", "commit", "wait", "meet", "sync", "arrive", "await", "gap"]
Point: TypeAlias = tuple[object, ...]  # where threads meet, or a phase of an mbarrier's slot, each time anew


@attrs.frozen
class Touch:
    """Name what an event reads or writes: a buffer, its ring slot, and the unit where each unit has a copy."""

    buffer: str
    memory: str
    slot: int = 0
    owner: str = ""


@attrs.frozen
class Event:
    """Hold one action of a block.

    Args:
        kind: an instruction; the commit of a group, or the wait for it; reaching a barrier, and leaving it; arriving at
            an mbarrier's phase, and continuing after a wait for one; or iterations that were left out.
        what: the name of the instruction or group, the barrier's level and reason, the mbarrier, or the number of
            iterations.
        title: of the enclosing region.
        role: the role of the threads, "" where all threads do the same.
        loops: the loop variables around it, outermost first.
        reads, writes: the accessed buffers.
        count: number of instructions that each thread executes, or of iterations that are left out.
        clocks: issue clocks of one instruction on a sub-partition.
        flies: whether it completes only when its group or phase is awaited.
        pending: number of groups that a wait leaves in flight.
        group: name of the group of an asynchronous instruction, a commit or a wait.
        reads_only: whether a wait is only for the reads of sources.
        points: the barrier, the awaited phase, or the phases that an arrival or a copy's bytes count for.
        nbytes: bytes that a bulk copy moves.
        threads: number of threads that take part, 0 for all of the block.
        rank: of the block in its cluster.
        tile: number of the work item of a persistent block, None for other blocks.
        loop: variable of the loop whose iterations are left out.
    """

    kind: Kind
    what: str
    title: str = ""
    role: str = ""
    loops: tuple[tuple[str, int], ...] = ()
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
    count: int = 1
    clocks: float = 0.0
    flies: bool = False
    pending: int = 0
    group: str = ""
    reads_only: bool = False
    points: tuple[Point, ...] = ()
    nbytes: int = 0
    threads: int = 0
    rank: int = 0
    tile: int | None = None
    loop: str = ""


@attrs.frozen
class Trace:
    """Hold the events of one block, and of its cluster.

    Args:
        events: the events, in an order in which they can happen.
        threads: number of threads of the block.
        slots: number of ring slots of each buffer.
        left_out: number of iterations of outer loops that were not executed.
        outer: variables of the loops over chunks: rolled loops with barriers or waits, outermost or directly inside the
            loop over a persistent block's tiles.
        rank: of the block in its cluster.
        tiles: number of tiles that a persistent block computed, 0 for other blocks.
    """

    events: tuple[Event, ...]
    threads: int
    slots: Mapping[str, int]
    left_out: int
    outer: frozenset[str] = frozenset()
    rank: int = 0
    tiles: int = 0
