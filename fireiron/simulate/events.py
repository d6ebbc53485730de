"""Events: what blocks did, as traces list it and timelines draw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

Kind = Literal["run", "commit", "wait", "meet", "sync", "arrive", "await", "gap"]
Point: TypeAlias = tuple[object, ...]  # where threads meet, or a phase of an mbarrier's slot, each time anew


@attrs.frozen
class Touch:
    """Name what an event reads or writes: a buffer, the ring slot of it, and whose copy where units have their own."""

    buffer: str
    memory: str
    slot: int = 0
    owner: str = ""


@attrs.frozen
class Event:
    """Hold one thing that a block did.

    Args:
        kind: an instruction; a group closed, or awaited; coming to a meeting, and going on after it; arriving at a
            phase, and going on after one; or iterations that were left out.
        what: the instruction, the group, the meeting's level and reason, the barrier, or how many iterations.
        title: of the enclosing region.
        role: which role's threads did it, empty where all do the same.
        loops: the loop variables around it, outermost first.
        reads, writes: what it touches.
        count: instructions that each thread executes, or iterations that are left out.
        clocks: issue clocks of one of them on a sub-partition.
        flies: whether it lands only when its group or phase is awaited.
        pending: groups that a wait leaves in flight.
        group: of what flies, or is closed or awaited.
        reads_only: whether a wait is for sources alone.
        points: the meeting, the phase that is awaited, or those that an arrival or a copy's bytes count for.
        nbytes: bytes that a bulk copy moves.
        threads: that do it, 0 for all of the block.
        rank: of the block in its cluster.
        tile: which work item of a persistent block, None where there are none.
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
        events: in an order in which they can happen.
        threads: of the block.
        slots: ring slots of each buffer.
        left_out: iterations of outer loops that did not run.
        outer: variables of the loops whose iterations are chunks: rolled, with barriers or waits inside, outermost or
            right inside the loop over a persistent block's tiles.
        rank: of the block in its cluster.
        tiles: how many tiles a persistent block took, 0 for others.
    """

    events: tuple[Event, ...]
    threads: int
    slots: Mapping[str, int]
    left_out: int
    outer: frozenset[str] = frozenset()
    rank: int = 0
    tiles: int = 0
