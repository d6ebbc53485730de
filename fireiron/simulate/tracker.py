"""Races: the last writer and readers of each granule, checked against the happens-before order at every access.

A granule is the unit of tracking: an element, or a part of one where overlaid buffers have smaller elements. For each
granule the tracker keeps the last writer, and the readers since that write: one thread, or MANY. This is exact while
only barriers of the whole block order threads, since of two readers at least one is not the writer. Where barriers
order fewer threads, the tracker also keeps all reads since the last barrier of the block, and searches them when a
granule that MANY threads have read is written.

An asynchronous access is checked when it starts, against the accesses that are ordered before its issuer, and recorded
when it ends, as an access of an agent. Only threads that waited for its end are ordered after it. In between, `flying`
marks the granules that it writes and `reading` those that it reads. Earlier generic accesses also need a fence, so
reads are kept until a write follows them.
"""

from __future__ import annotations

from typing import Literal

import attrs
import numpy as np

from fireiron.simulate.order import MANY, Array, Order, some


class Race(Exception):
    """Raised for a race; the statement's handler makes the user's error of it.

    Args:
        kind: the kinds of the earlier and the later access.
        granule: the granule.
        mine: the later access's thread plus one (numbered over the grid for GL), or MANY for several threads.
        other: the earlier access's thread plus one, or MANY.
        time: the time of the earlier access.
        proxy: whether the accesses are ordered, and only a proxy fence (generic to asynchronous) is missing.
    """

    def __init__(self, kind: str, granule: int, mine: int, other: int, time: int, proxy: bool = False) -> None:
        super().__init__(kind)
        self.kind = kind
        self.proxy = proxy
        self.granule = granule
        self.mine = mine
        self.other = other
        self.time = time


@attrs.define
class _Read:
    granules: Array
    who: Array
    time: int
    generic: bool = True
    _span: tuple[int, int] | None = None

    def meets(self, low: int, high: int) -> bool:
        """Say whether granules may lie between two; the answer yes may be wrong."""
        if self._span is None:
            self._span = _span(self.granules)
        return self._span[0] <= high and self._span[1] >= low

    def drop(self, gone: Array) -> None:
        """Remove some of the granules."""
        self.granules, self.who = self.granules[~gone], self.who[~gone]


class Tracker:
    """Track the granules of one memory.

    Args:
        granules: number of granules.
        order: the clocks of the running cluster.
        scope: GL (all blocks share it) or SH (each block starts anew).
        check: whether to look for races; first writes are recorded in any case.
    """

    def __init__(self, granules: int, order: Order, scope: Literal["GL", "SH"], check: bool) -> None:
        self.order = order
        self.is_global = scope == "GL"
        self.check = check
        self.writer = np.zeros(granules, np.int32)
        self.write_time = np.zeros(granules, np.int32)
        self.reader = np.zeros(granules, np.int32)
        self.read_time = np.zeros(granules, np.int32)
        # For GL: some reader of an earlier block, which no barrier of this one can order.
        self.foreign_reader = np.zeros(granules if self.is_global else 0, np.int32)
        self.foreign_time = np.zeros(granules if self.is_global else 0, np.int32)
        # For GL: whether the last write was an atomic addition; all of these.
        self.added = np.zeros(granules if self.is_global else 0, bool)
        self.adds: list[_Read] = []
        # How many asynchronous writes will reach each granule, and how many asynchronous reads have not ended, once
        # any has been started.
        self.flying: Array | None = None
        self.reading: Array | None = None
        # Whether the last write came through the asynchronous proxy.
        self.by_agent = np.zeros(granules if order.proxies else 0, bool)
        self.marked = np.zeros(granules if order.proxies else 0, bool)
        self.reads: list[_Read] = []
        self.reads_since = 0

    def identify(self, who: Array) -> Array:
        """Number threads over the whole grid for GL."""
        if not self.is_global or self.order.group == 0:
            return who
        return np.where(who > 0, who + self.order.group * self.order.threads, who).astype(np.int32)

    def written(self, granules: Array) -> Array:
        """Say which granules were written: by any block for GL, by this block for SH."""
        return self.write_time[granules] > (0 if self.is_global else self.order.start)

    def read(self, granules: Array, who: Array) -> None:
        """Record reads.

        Args:
            granules: the granules.
            who: numbers of the block's threads plus one, or MANY where several read one granule (never with barriers of
                fewer threads than a block).

        Raises:
            Race: if a write is not ordered before them.
        """
        if not self.check:
            return
        order = self.order
        who = self.identify(who)
        self._against_writer(granules, who, "write-read")
        self._against_adds(granules, who, "write-read")
        if order.partial:
            self._keep(granules, who)
        old, time = self.reader[granules], self.read_time[granules]
        if self.is_global:
            foreign = (time > 0) & (time <= order.start)
            if some(foreign):
                self.foreign_reader[granules[foreign]] = old[foreign]
                self.foreign_time[granules[foreign]] = time[foreign]
        # A reader that is ordered before this one may be forgotten: an access after this one is after both.
        new = np.where(self._concurrent(who, old, time), MANY, who).astype(np.int32)
        self.reader[granules] = new
        self.read_time[granules] = order.now
        clash = self.reader[granules] != new
        if some(clash):
            self.reader[granules[clash]] = MANY

    def write(self, granules: Array, who: Array) -> None:
        """Record writes.

        Raises:
            Race: if an earlier write or read is not ordered before them, or two threads write one granule at once.
        """
        order = self.order
        if not self.check:
            self.write_time[granules] = order.now
            return
        who = self.identify(who)
        self._against_writer(granules, who, "write-write")
        self._against_adds(granules, who, "write-write")
        self._against_readers(granules, who)
        if self.is_global:
            self.added[granules] = False
        self._forget(granules)
        self.writer[granules] = who
        self.write_time[granules] = order.now
        if order.proxies:
            self.by_agent[granules] = False
        clash = self.writer[granules] != who
        if some(clash):
            at = int(np.flatnonzero(clash)[0])
            raise Race("write-write", int(granules[at]), int(who[at]), int(self.writer[granules[at]]), order.now)

    def add(self, granules: Array, who: Array) -> None:
        """Record atomic additions, which need no order among each other, but with other accesses.

        Raises:
            Race: if an earlier write or read is not ordered before them.
        """
        if self.check:
            who = self.identify(who)
            self._against_writer(granules, who, "write-write")
            self._against_readers(granules, who)
            self.writer[granules] = who
            self.added[granules] = True
            if self.order.proxies:
                self.by_agent[granules] = False
            self.adds.append(_Read(granules, who, self.order.now))
        self.write_time[granules] = self.order.now

    def _against_adds(self, granules: Array, who: Array, kind: str) -> None:
        """Find an atomic addition that is not ordered before a plain access."""
        if not self.adds or not some(self.added[granules]):
            return
        low, high = granules.min(), granules.max()
        by_granule = np.argsort(granules, kind="stable")
        for add in self.adds:
            known = self.order.start < add.time <= self.order.base
            if known or add.granules.max() < low or add.granules.min() > high:
                continue
            which, at = _met(granules[by_granule], add.granules)
            mine, place = by_granule[at], add.granules[which]
            time = np.full(len(which), add.time, np.int32)
            if add.time > self.order.start:
                bad = self._concurrent(who[mine], add.who[which], time)
            else:
                bad = self.order.foreign(time)
            bad &= self.added[place]
            if some(bad):
                self._raise(kind, place, who[mine], add.who[which], time, bad)

    def start_read(self, granules: Array, row: Array, who: int) -> None:
        """Check an asynchronous read whose issuers have the vector clock `row`; `who` is their agent.

        Raises:
            Race: if a write is not ordered before it, or is generic and not fenced.
        """
        if self.check:
            self._start(granules, row, who, "write-read", self.writer[granules], self.write_time[granules])

    def start_write(self, granules: Array, row: Array, who: int, adds: bool = False, fenced: bool = True) -> None:
        """Check an asynchronous write whose issuers have the vector clock `row`; two additions do not conflict.

        Writes of the generic proxy are not `fenced`: they need no fence between earlier generic accesses and them.

        Raises:
            Race: if an earlier access is not ordered before it, or is generic and not fenced.
        """
        if not self.check:
            return
        exempt = self.added[granules] if adds else None
        self._start(
            granules, row, who, "write-write", self.writer[granules], self.write_time[granules], exempt,
            None if fenced else False,
        )  # fmt: skip
        if self.is_global:
            foreign = self.order.foreign(self.read_time[granules]) | self.order.foreign(self.foreign_time[granules])
            if some(foreign):
                self._raise(
                    "read-write", granules, self.identify(np.full(len(granules), who, np.int32)),
                    self.reader[granules], self.read_time[granules], foreign,
                )  # fmt: skip
        kept = self._kept()
        low, high = _span(granules) if kept else (0, 0)
        met = [read for read in kept if read.meets(low, high)]
        if not met:
            return
        self.marked[granules] = True
        try:
            for read in met:
                hit = self.marked[read.granules]
                if some(hit):
                    time = np.full(int(hit.sum()), read.time, np.int32)
                    self._start(
                        read.granules[hit], row, who, "read-write", read.who[hit], time, generic=fenced and read.generic
                    )
                    read.drop(hit)
        finally:
            self.marked[granules] = False
        self.reads = [read for read in self.reads if len(read.granules)]

    def finish_read(self, granules: Array, who: int) -> None:
        """Record the end of an asynchronous read, for the agent or thread that waited for it."""
        if not self.check:
            return
        everyone = self.identify(np.full(len(granules), who, np.int32))
        self._keep(granules, everyone, generic=False)
        old, time = self.reader[granules], self.read_time[granules]
        alone = (old == everyone) | (time <= self.order.base)
        self.reader[granules] = np.where(alone, everyone, MANY)
        self.read_time[granules] = self.order.now

    def finish_write(self, granules: Array, who: int, adds: bool = False) -> None:
        """Record that an asynchronous write landed."""
        self.write_time[granules] = self.order.now
        if self.check:
            self.writer[granules] = self.identify(np.array([who], np.int32))[0]
            self.by_agent[granules] = True
            if self.is_global:
                self.added[granules] = adds
            if adds:
                self.adds.append(_Read(granules, self.writer[granules], self.order.now))

    def mark(self, granules: Array, write: bool, by: int) -> None:
        """Count one more (or less) asynchronous access in flight."""
        if self.flying is None or self.reading is None:
            self.flying, self.reading = (np.zeros(len(self.writer), np.int16) for _ in range(2))
        (self.flying if write else self.reading)[granules] += by

    def _start(
        self,
        granules: Array,
        row: Array,
        who: int,
        kind: str,
        other: Array,
        time: Array,
        exempt: Array | None = None,
        generic: bool | None = None,
    ) -> None:
        order = self.order
        shift = order.group * order.threads if self.is_global else 0
        inside = np.where(other > 0, other - shift, other) if shift else other
        late = order.unordered(row, inside, time)
        if self.is_global:
            late |= order.foreign(time)
        if exempt is not None:
            late &= ~exempt
        mine = self.identify(np.array([who], np.int32))
        if some(late):
            at = int(np.flatnonzero(late)[0])
            raise Race(kind, int(granules[at]), int(mine[0]), int(other[at]), int(time[at]))
        if generic is False:
            return
        hidden = order.unfenced(row, inside, time)
        if generic is None:
            hidden &= ~self.by_agent[granules]
        if some(hidden):
            at = int(np.flatnonzero(hidden)[0])
            raise Race(kind, int(granules[at]), int(mine[0]), int(other[at]), int(time[at]), proxy=True)

    def _concurrent(self, who: Array, other: Array, time: Array) -> Array:
        shift = self.order.group * self.order.threads if self.is_global else 0
        if shift and self.order.known is not None:
            return self.order.concurrent(who - shift, np.where(other > 0, other - shift, other), time)
        return self.order.concurrent(who, other, time)

    def _against_writer(self, granules: Array, who: Array, kind: str) -> None:
        time = self.write_time[granules]
        other = self.writer[granules]
        bad = self._concurrent(who, other, time)
        if self.is_global:
            bad |= self.order.foreign(time)
            bad &= ~self.added[granules]
        if some(bad):
            self._raise(kind, granules, who, other, time, bad)

    def _against_readers(self, granules: Array, who: Array) -> None:
        order = self.order
        time, other = self.read_time[granules], self.reader[granules]
        bad = self._concurrent(who, other, time)
        if order.partial and some(bad):
            several = bad & (other == MANY)
            if some(several):
                self._search(granules[several], who[several])
                bad &= ~several
        if self.is_global:
            bad |= order.foreign(time)
            foreign = order.foreign(self.foreign_time[granules])
            if some(foreign):
                self._raise(
                    "read-write", granules, who, self.foreign_reader[granules], self.foreign_time[granules], foreign
                )
        if some(bad):
            self._raise("read-write", granules, who, other, time, bad)

    def _kept(self) -> list[_Read]:
        """Return the reads that later writes are checked against; they are kept after barriers, which fence nothing."""
        since = self.order.start if self.order.proxies else self.order.base
        if self.reads_since != since:
            self.reads.clear()
            self.reads_since = since
        return self.reads

    def _keep(self, granules: Array, who: Array, generic: bool = True) -> None:
        self._kept().append(_Read(granules, who, self.order.now, generic))

    def _forget(self, granules: Array) -> None:
        """Drop the reads that are ordered before a write; later accesses are checked against the write."""
        if not self.order.proxies or not self._kept():
            return
        low, high = _span(granules)
        met = [read for read in self.reads if read.meets(low, high)]
        if not met:
            return
        self.marked[granules] = True
        for read in met:
            hit = self.marked[read.granules]
            if some(hit):
                read.drop(hit)
        self.marked[granules] = False
        self.reads = [read for read in self.reads if len(read.granules)]

    def _search(self, granules: Array, who: Array) -> None:
        """Compare writers with every read since the last block barrier."""
        if not self._kept():
            return
        by_granule = np.argsort(granules, kind="stable")
        places, writers = granules[by_granule], who[by_granule]
        for read in self.reads:
            which, at = _met(places, read.granules)
            if not len(which):
                continue
            mine, theirs = writers[at], read.who[which]
            time = np.full(len(which), read.time, np.int32)
            bad = self._concurrent(mine, theirs, time)
            if some(bad):
                self._raise("read-write", read.granules[which], mine, theirs, time, bad)

    def _raise(self, kind: str, granules: Array, who: Array, other: Array, time: Array, bad: Array) -> None:
        at = int(np.flatnonzero(bad)[0])
        raise Race(kind, int(granules[at]), int(who[at]), int(other[at]), int(time[at]))


def _span(granules: Array) -> tuple[int, int]:
    """Return the first and the last granule; where there is none, a span that meets no other."""
    if not len(granules):
        return 1 << 62, -1
    return int(granules.min()), int(granules.max())


def _met(places: Array, others: Array) -> tuple[Array, Array]:
    """Pair equal granules; return indices into `others` and into the sorted `places`."""
    first = np.searchsorted(places, others, side="left")
    count = np.searchsorted(places, others, side="right") - first
    which = np.repeat(np.arange(len(count)), count)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return which, np.repeat(first, count) + offset
