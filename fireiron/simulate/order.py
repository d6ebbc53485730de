"""Happens-before: which earlier accesses of a cluster's other threads a thread may rely on.

Vector clocks use global time: `known[t, u] = s` says that all accesses of thread u up to time s happened before thread
t's next access. After a barrier of all threads one number, `base`, stands for the whole matrix, so most kernels never
build it.

Asynchronous accesses are recorded for agents, which have columns after those of the threads: one agent for the bytes
that land on a slot of an mbarrier, another for the operands that a warpgroup's instructions read. A second half of each
row gives, in the same columns, the time up to which a thread's generic accesses were fenced for the asynchronous proxy.
Barriers merge both halves.

Where blocks of a cluster read each other's shared memory, a third part of each row gives, in the same columns, the
accesses that are visible to a thread. mbarriers that order only within a block pass it on only within that block:
another block's writes may not have arrived yet, and its reads of this block's memory may still be going on.

Source: PTX ISA, memory consistency model: scope, causality order; mbarrier.arrive and mbarrier.try_wait: .scope.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

NOBODY = 0  # `who` is a thread's number plus one, so that zeroed pages mean "no access yet"
MANY = -1
AGENT = -2  # `who` of the first agent; the others count down from it


def spread(value: Any, shape: tuple[int, ...]) -> Array:
    """Broadcast an array to a shape: `np.broadcast_to` takes microseconds where nothing is to be done, or little."""
    found = np.asarray(value)
    if found.shape == shape:
        return found
    return np.broadcast_to(found, shape) if found.ndim else np.full(shape, found)


def some(truth: Array) -> bool:
    """Say whether any element is true; on a few thousand elements, this takes a tenth of the time of `truth.any()`.

    Example:
        >>> some(np.array([False, True])), some(np.array([]))
        (True, False)
    """
    return bool(np.count_nonzero(truth))


def every(truth: Array) -> bool:
    """Say whether all elements are true; on a few thousand elements, faster than `truth.all()`.

    Example:
        >>> every(np.array([False, True])), every(np.array([]))
        (False, True)
    """
    return bool(np.count_nonzero(truth) == truth.size)


def distinct(numbers: Array) -> int:
    """Count distinct whole numbers; where they lie close together, without sorting them.

    Example:
        >>> distinct(np.array([7, 3, 7]))
        2
    """
    if not numbers.size:
        return 0
    low = numbers.min()
    if int(numbers.max()) - int(low) > 8 * numbers.size:
        return len(np.unique(numbers))
    return int(np.count_nonzero(np.bincount(numbers - low)))


def evenly(numbers: Array) -> slice | Array:
    """Return ascending numbers that lie evenly as a slice, which NumPy reads and writes without copies of the indices.

    Example:
        >>> evenly(np.array([4, 6, 8])), evenly(np.array([4, 6, 7]))
        (slice(4, 9, 2), array([4, 6, 7]))
    """
    first, last = int(numbers[0]), int(numbers[-1])
    step = 1 if len(numbers) == 1 else int(numbers[1]) - first
    if step > 0 and last - first == step * (len(numbers) - 1) and every(numbers[1:] - numbers[:-1] == step):
        return slice(first, last + 1, step)
    return numbers


class Order:
    """Keep the time, and the order of accesses of threads and agents in the running cluster.

    Args:
        threads: number of threads of all blocks of a cluster.
        partial: whether the kernel has barriers of fewer threads.
        agents: number of asynchronous agents; None where the kernel has no asynchronous accesses, proxies or clusters.
        peers: number of threads of each block, where blocks read each other's shared memory; else 0.
    """

    def __init__(self, threads: int, partial: bool, agents: int | None = None, peers: int = 0) -> None:
        self.threads = threads
        self.proxies = agents is not None
        self.peers = peers
        self.partial = partial or self.proxies
        self.columns = threads + (agents or 0)
        self.width = self.columns * (3 if peers else 2 if self.proxies else 1)
        self.now = 0
        self.start = 0  # accesses up to here belong to earlier clusters
        self.base = 0  # accesses of this cluster up to here are ordered before all that follows
        self.group = 0  # the running cluster; without clusters, the running block
        self.known: Array | None = None
        self.places: list[int] = [0]  # for each time, the number of the site that was executed
        self.starts: list[int] = []  # start times of all blocks, in the order of execution
        # For each counter: (index of a block in that order, time of its release).
        self.counters: dict[tuple[str, int], list[tuple[int, int]]] = {}
        # For each block in that order, the time up to which its accesses are ordered before this block.
        self.acquired = np.zeros(0, np.int32)

    def tick(self, place: int) -> int:
        """Advance the time for an access at a site."""
        self.now += 1
        self.places.append(place)
        return self.now

    def begin_block(self, group: int) -> None:
        """Reset the order for the next cluster; nothing orders accesses of two clusters."""
        self.group = group
        self.start = self.base = self.now
        self.known = None
        self.starts.append(self.now)
        self.acquired = np.zeros(0, np.int32)

    def matrix(self) -> Array:
        """Return the vector clocks of all threads, all zeros at first."""
        if self.known is None:
            self.known = np.zeros((self.threads, self.width), np.int32)
        return self.known

    def join_all(self) -> None:
        """Order all accesses so far before all later ones in this cluster."""
        if self.proxies and self.known is not None:
            # Fences must be remembered: a barrier does not replace them.
            self.known[:] = self.released(np.arange(self.threads))
        else:
            self.known = None
        self.base = self.now

    def count_in(self, counter: tuple[str, int], released: int, acquires: bool) -> None:
        """Release this block's accesses up to a time at a counter, and acquire those that earlier blocks released."""
        earlier = self.counters.setdefault(counter, [])
        if acquires:
            known = np.zeros(len(self.starts), np.int32)
            known[: len(self.acquired)] = self.acquired
            for block, time in earlier:
                known[block] = max(known[block], time)
            self.acquired = known
        earlier.append((len(self.starts) - 1, released))

    def foreign(self, time: Array) -> Array:
        """Say which accesses, given by their times, are of other blocks and not ordered before this block's."""
        found = (time > 0) & (time <= self.start)
        if self.acquired.size and some(found):
            block = np.searchsorted(np.asarray(self.starts), time, side="left") - 1
            found &= time > self.acquired[np.clip(block, 0, len(self.acquired) - 1)]
        return found

    def join(self, units: list[Array]) -> None:
        """Give each thread of a unit the union of the threads' vector clocks, after a barrier."""
        known = self.matrix()
        for threads in units:
            known[threads] = self.released(threads)

    def released(self, threads: Array) -> Array:
        """Return the union of these threads' vector clocks and own accesses, which their arrival releases."""
        known = self.matrix()
        merged = known[threads[0]].copy() if len(threads) == 1 else known[threads].max(axis=0)
        merged[threads] = self.now
        if self.peers:
            merged[2 * self.columns + threads] = self.now
        return merged

    def within(self, row: Array, thread: int) -> Array:
        """Return the part of a vector clock that an arrival within a block releases."""
        if not self.peers:
            return row
        row = row.copy()
        seen = row[2 * self.columns : 2 * self.columns + self.threads]
        seen[np.arange(self.threads) // self.peers != thread // self.peers] = 0
        return row

    def common(self, threads: Array) -> Array:
        """Return the intersection of vector clocks: the accesses that are ordered before all of the threads."""
        if len(threads) == 1:
            row = self.matrix()[threads[0]].copy()
            row[threads[0]] = self.now
            return row
        rows = self.matrix()[threads]
        rows[np.arange(len(threads)), threads] = self.now
        return rows.min(axis=0)

    def learn(self, threads: Array, row: Array) -> None:
        """Merge released vector clocks into those of threads."""
        known = self.matrix()
        known[threads] = np.maximum(known[threads], row)

    def fence(self, threads: Array) -> None:
        """Make the threads' earlier generic accesses visible to asynchronous accesses ordered after this fence."""
        self.matrix()[threads, self.columns + threads] = self.now

    def concurrent(self, who: Array, other: Array, time: Array) -> Array:
        """Say which of `other`'s accesses at `time` in this cluster are not ordered before the current access of `who`.

        Args:
            who: numbers of threads in the cluster, plus one.
            other: numbers of threads or agents of the earlier accesses, plus one; never MANY where the matrix is in
                use.
            time: the times of the earlier accesses.
        """
        found = (time > self.base) & (other != who)
        if self.known is not None and some(found):
            # Entries that are no thread of this cluster are already decided by time; clip them to a legal index.
            mine = np.clip(who - 1, 0, self.threads - 1)
            found &= (time > self.known[mine, self._column(other)]) | (other == MANY)
        return found

    def unordered(self, row: Array, other: Array, time: Array) -> Array:
        """Return which accesses are not ordered before an agent with the vector clock `row`."""
        late = time > self.base
        if some(late):
            late &= time > row[self._column(other)]
        return late

    def unfenced(self, row: Array, other: Array, time: Array) -> Array:
        """Say which generic accesses are ordered before an asynchronous one without a proxy fence between them."""
        late = time > self.start
        if some(late):
            late &= time > row[self.columns + self._column(other)]
        return late

    def unseen(self, who: Array, other: Array, time: Array) -> Array:
        """Say which writes of other blocks in this cluster are ordered before, but may not be visible yet."""
        mine, theirs = np.clip(who - 1, 0, self.threads - 1), np.clip(other - 1, 0, self.threads - 1)
        found = (time > self.base) & (other > 0) & (mine // self.peers != theirs // self.peers)
        return found & (time > self.matrix()[mine, 2 * self.columns + theirs])

    def unread(self, who: Array, other: Array, time: Array) -> Array:
        """Say which reads of other blocks in this cluster are ordered before only by barriers within one block."""
        mine, theirs = np.clip(who - 1, 0, self.threads - 1), np.clip(other - 1, 0, self.threads - 1)
        ordered = time <= np.maximum(self.matrix()[mine, theirs], self.base)  # what is not ordered is a race
        return ordered & self.unseen(who, other, time)

    def _column(self, other: Array) -> Array:
        place = np.where(other <= AGENT, self.threads + AGENT - other, other - 1)
        return np.minimum(np.maximum(place, 0), self.columns - 1)  # `np.clip` takes three times as long
