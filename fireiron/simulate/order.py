"""Happens-before: which earlier accesses of a block's other threads a thread may rely on.

A vector clock is kept in global time: `known[t, u] = s` says that all that thread u did up to time s happened before
what thread t does now. A barrier of the whole block makes one number, `base`, stand for the whole matrix, so most
kernels never build it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

NOBODY = 0  # `who` is a thread's number plus one, so that zeroed pages mean "no access yet"
MANY = -1


class Order:
    """Keep the time, and who is ordered after whom inside the running block.

    Args:
        threads: threads of a block.
        partial: whether the kernel has barriers of less than a block.
    """

    def __init__(self, threads: int, partial: bool) -> None:
        self.threads = threads
        self.partial = partial
        self.now = 0
        self.start = 0  # accesses up to here belong to earlier blocks
        self.base = 0  # accesses of this block up to here are ordered before all that follows
        self.block = 0
        self.known: Array | None = None
        self.places: list[int] = [0]  # at each time, the number of the site that ran
        self.starts: list[int] = []  # of all blocks that ran, in that order
        self.released: dict[tuple[str, int], list[tuple[int, int]]] = {}  # counter: (block in that order, up to when)
        self.acquired = np.zeros(0, np.int32)  # for each block in that order, what is ordered before this one

    def tick(self, place: int) -> int:
        """Begin one access event at a site."""
        self.now += 1
        self.places.append(place)
        return self.now

    def begin_block(self, block: int) -> None:
        """Forget the order inside the block before; nothing orders two blocks."""
        self.block = block
        self.start = self.base = self.now
        self.known = None
        self.starts.append(self.now)
        self.acquired = np.zeros(0, np.int32)

    def join_all(self) -> None:
        """Order everything so far before everything that follows in this block."""
        self.base = self.now
        self.known = None

    def count_in(self, counter: tuple[str, int], released: int, acquires: bool) -> None:
        """Release this block's accesses up to a time at a counter, and acquire what blocks before it released there."""
        earlier = self.released.setdefault(counter, [])
        if acquires:
            known = np.zeros(len(self.starts), np.int32)
            known[: len(self.acquired)] = self.acquired
            for block, time in earlier:
                known[block] = max(known[block], time)
            self.acquired = known
        earlier.append((len(self.starts) - 1, released))

    def foreign(self, time: Array) -> Array:
        """Say which accesses, by their times, other blocks made that nothing orders before this one."""
        found = (time > 0) & (time <= self.start)
        if self.acquired.size and found.any():
            block = np.searchsorted(np.asarray(self.starts), time, side="left") - 1
            found &= time > self.acquired[np.clip(block, 0, len(self.acquired) - 1)]
        return found

    def join(self, units: list[Array]) -> None:
        """Let the threads of each unit know all that any of them knows, and what each has done."""
        if self.known is None:
            self.known = np.zeros((self.threads, self.threads), np.int32)
        for threads in units:
            merged = self.known[threads].max(axis=0)
            merged[threads] = self.now
            self.known[threads] = merged

    def concurrent(self, who: Array, other: Array, time: Array) -> Array:
        """Say which of `other`'s accesses at `time` in this block are not ordered before what `who` does now.

        Args:
            who: threads plus one, counted inside the block.
            other: the same, of the earlier accesses; no MANY where the matrix is in use.
            time: when they were.
        """
        found = (time > self.base) & (other != who)
        if self.known is not None and found.any():
            # Entries that are no thread of this block are already decided by time; clip them to a legal index.
            mine = np.clip(who - 1, 0, self.threads - 1)
            theirs = np.clip(other - 1, 0, self.threads - 1)
            found &= (time > self.known[mine, theirs]) | (other == MANY)
        return found
