"""Divide narrow rows among lanes of a warp: a lane has a row, or several lanes share one."""

from __future__ import annotations

from math import ceil, log2

from fireiron.schedules._rows import BYTES_OF_A_LANE, LANES, SMS, Row

LEAST_TOGETHER = 64  # bytes that neighbouring lanes read at once: two sectors
STEPS_OF_LANES = 2  # columns that take as long as one step by which lanes combine a row's folds
OF_MORE_BYTES = 0.5  # cost of each further BYTES_OF_A_LANE
MOST_OF_FEW_LANES = 96  # bytes of a lane, where fewer lanes than a warp's share a row
BUSY_THREADS = 512  # of an SM: with fewer, none waits for registers
SORTED_NBYTES = 256  # of a row that a lane sorts
SORTING_THREADS = 128  # of an SM


def lanes_of(row: Row) -> int:
    """Choose the number of lanes that share a row.

    Of all numbers with which neighbouring lanes read whole parts of lines, the one with the lowest cost is chosen: the
    columns of all lanes, idle ones included, with the steps by which lanes combine their folds; and what a lane has
    beyond some bytes, since fewer warps then fit on an SM. The numbers follow from 686 kernels of seven programs of 64
    to 1000 columns, timed on an H200: shares of a copy's speed, in the geometric mean, rose from 0.96 to 0.99 for
    softmax, from 0.93 to 0.98 for layer norm, and from 0.71 to 0.85 for cross entropy. Few rows have the most lanes of
    which none is idle.
    """
    vectors = ceil(row.width / row.lane)
    if row.several:
        return _fewest_lanes(row, vectors)
    most, whole = max(row.inputs.values()), sum(row.inputs.values())

    def fits(lanes: int) -> bool:
        each, together = ceil(vectors / lanes) * row.lane * whole, lanes * row.lane * most
        alone = lanes > 1 or (vectors == 1 and not row.running)
        return alone and each <= MOST_OF_FEW_LANES and together >= min(LEAST_TOGETHER, row.width * most)

    def cost(lanes: int) -> float:
        columns = ceil(vectors / lanes) * row.lane
        steps = 1 + STEPS_OF_LANES * log2(lanes) / columns
        return columns * lanes / row.width * steps + OF_MORE_BYTES * max(0, columns * whole / BYTES_OF_A_LANE - 1)

    found = [LANES, *(n for n in (16, 8, 4, 2, 1) if fits(n))]
    # Of few rows, each is there sooner with more lanes. Lanes of running folds wait for each other, and were not timed.
    if row.running or 0 < row.count * LANES < SMS * BUSY_THREADS:
        return min(found, key=lambda n: ceil(vectors / n) * n)
    return min(found, key=lambda n: round(cost(n), 6))


def _fewest_lanes(row: Row, vectors: int) -> int:
    """Choose the lanes that share a row whose columns each lane sorts.

    They are as few as fill the SMs: a step over lanes combines two states, as a lane does for each `several` columns.
    """
    nbytes = row.lane * max(row.inputs.values())
    fits = [n for n in (2, 4, 8, 16, 32) if ceil(vectors / n) * nbytes <= SORTED_NBYTES]
    fits += [1] if vectors == 1 else []
    enough = [n for n in fits if not row.count or n * row.count >= SMS * SORTING_THREADS]
    return min(enough, default=min(LANES, 1 << (vectors - 1).bit_length()))
