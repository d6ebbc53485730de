"""Divide rows among lanes, warps and blocks whose registers also keep sums of the columns over all rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2

import attrs

from fireiron.schedules._rows import (
    IN_FLIGHT_OF_SUMS,
    LANES,
    MOST_OF_PARTS,
    MOST_STAGES,
    REGISTERS,
    SMS,
    Row,
)

MOST_COLUMNS = 32  # of a lane
FIXED = 36  # registers of a thread for addresses, folds and guards
LANES_OF_ROWS = (1, 2, 4, 8, 16, 32)  # of a warp, for rows that share the warp
MOST_WARPS = 32  # of a block
TOGETHER = 4  # warps that get registers at a time
STEP = 8  # a thread's registers are a multiple of this number
SUM_NBYTES = 4
# Clocks of an SM of an H200; all but the end's are fitted to the times of 1263 kernels (`units_of`).
INSTRUCTIONS = 128  # of a warp, for each row, besides those of columns
OF_A_COLUMN = 8
LATENCY = 600  # of a row, from its first load to its last store
LATENCY_OF_A_COLUMN = 37
END_OF_A_COLUMN = 300  # of a kernel: units and blocks combine their sums
END_OF_BLOCKS = 400  # for each doubling of the blocks that combine sums
NBYTES_A_CLOCK = 17.3  # of an SM's share of the memory's rate
WRITTEN = 1.5  # bytes read and written, for each byte read
OF_TWO_BLOCKS = 0.96  # time by two blocks of an SM whose warps have rows of their own, as a share of that by one
FILLED = 0.6  # least share of lanes that have columns, where several rows share a warp


@attrs.frozen
class Units:
    """Say which threads have a row, and how many rows an SM folds at once.

    Args:
        lanes: lanes of a warp that have a row; 32 where one warp or several have it.
        warps: warps that have a row.
        units: warps, or groups of `warps` warps, of a block, each with rows of its own.
        blocks: blocks of an SM.
    """

    lanes: int
    warps: int
    units: int
    blocks: int

    @property
    def rows(self) -> int:
        """Return the number of rows that a block folds at once."""
        return self.units * (LANES // self.lanes)


def units_of(row: Row, lines: int | None, sums: int, warps: int = 0, rows: int = 0) -> Units | None:
    """Choose the units that have a row: of those whose registers and shared memory suffice, the fastest.

    The model has three times of a row: that of its instructions, which a lane with more columns shares among these;
    that of its latency, divided by the number of rows at once; and that of its bytes. It is fitted to the times of 1263
    kernels of the gradients of layer norm and RMS norm, of 25 sizes (22 drawn) of 24 to 8560 columns, on an H200.
    The timed kernels nearest to its choice take 1.014 to 1.033 times as long as the fastest, in the geometric mean.

    Args:
        row: facts of the program's rows.
        lines: number of rows; None where it is a symbol.
        sums: number of sums of each column.
        warps: number of warps that have a row, 0 to choose.
        rows: number of units of a block, or of rows where lanes share a warp; 0 to choose.

    Returns:
        None where a block's registers do not hold a row and its sums.
    """
    found = [x for x in _units(row, warps, rows) if _fits(row, x, sums)]
    return min(found, key=lambda x: (_clocks(row, x, lines), x.blocks, x.rows), default=None)


def columns_of(row: Row, units: Units) -> int:
    """Return the number of columns of a lane, in whole vectors."""
    return ceil(row.width / (units.lanes * units.warps * row.lane)) * row.lane


def _units(row: Row, warps: int, rows: int) -> Iterator[Units]:
    """List units, from those with the most rows of an SM to those with one."""
    for lanes in LANES_OF_ROWS if warps in (0, 1) else (LANES,):
        whole = Units(lanes, 1, 1, 1)
        if lanes < LANES and (row.width < FILLED * padded(row, whole) or warps or not row.copied):
            continue
        for count in [warps] if warps else range(1, (MOST_WARPS if lanes == LANES else 1) + 1):
            for blocks in (1,) if rows or count > 1 else (1, 2):
                units = ceil(rows * lanes / LANES) if rows else MOST_WARPS // count
                while units:
                    yield Units(lanes, count, units, blocks)
                    units = 0 if rows else units - 1


def _fits(row: Row, x: Units, sums: int) -> bool:
    """Say whether an SM holds the blocks: their registers and, where it folds several rows, their shared memory."""
    columns, warps = columns_of(row, x), x.units * x.warps
    threads = ceil(warps * x.blocks / TOGETHER) * TOGETHER * LANES
    if (
        columns > MOST_COLUMNS
        or warps > MOST_WARPS
        or FIXED + columns * row.registers > REGISTERS // threads // STEP * STEP
    ):
        return False
    return x.units * x.blocks == 1 or x.blocks * (2 * ring(row, x) + _exchanged(row, x, sums)) <= row.shared


def padded(row: Row, units: Units) -> int:
    """Return a row's number of columns with those that complete its lanes' vectors."""
    return columns_of(row, units) * units.lanes * units.warps


def ring(row: Row, units: Units) -> int:
    """Return the bytes of shared memory that a block needs for each stage of its rows; 0 where threads load them."""
    return units.rows * padded(row, units) * sum(row.inputs.values()) if row.copied else 0


def stages_of(row: Row, units: Units, sums: int) -> int:
    """Return the stages of a block's ring of rows: at least two, and as many as hide the memory's latency and fit."""
    each = ring(row, units)
    if not each:
        return 1
    wanted = min(MOST_STAGES, 1 + ceil(IN_FLIGHT_OF_SUMS / (units.blocks * each)))
    return max(2, min(wanted, (row.shared // units.blocks - _exchanged(row, units, sums)) // each))


def _exchanged(row: Row, x: Units, sums: int) -> int:
    """Return the bytes of shared memory through which units of a block exchange sums.

    They exchange them twice, in a block and among blocks; the second time in memory of the ring where blocks combine
    sums in two levels.
    """
    if x.units == 1:
        return 0
    times = 1 if in_two_levels(row, x.blocks * SMS, sums) else 2
    return times * (x.units + 1) * x.warps * LANES * columns_of(row, x) * SUM_NBYTES * sums


def in_two_levels(row: Row, blocks: int, sums: int) -> bool:
    """Say whether one block would read so many sums of others that groups of blocks combine theirs first."""
    return blocks * row.width * SUM_NBYTES * sums >= MOST_OF_PARTS


def _clocks(row: Row, x: Units, lines: int | None) -> float:
    """Estimate the clocks of an SM for all its rows."""
    columns, together, blocks = columns_of(row, x), x.rows * x.blocks, x.blocks * SMS
    issued = together * x.warps * x.lanes / LANES * (INSTRUCTIONS + OF_A_COLUMN * columns) / 4
    waited = LATENCY + LATENCY_OF_A_COLUMN * columns
    moved = together * row.width * WRITTEN * sum(row.inputs.values()) / NBYTES_A_CLOCK
    time = (issued**2 + waited**2 + moved**2) ** 0.5
    time *= OF_TWO_BLOCKS if x.blocks > 1 else 1.0
    if lines is None:
        return time / together
    blocks = min(blocks, ceil(lines / x.rows))
    return ceil(lines / (blocks * x.rows)) * time + END_OF_A_COLUMN * columns + END_OF_BLOCKS * log2(blocks)
