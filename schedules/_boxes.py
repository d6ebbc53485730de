"""Boxes of pixels of sums over all pixels for each channel: how threads divide them, by a model of the time.

A thread holds a box of the gradient and the pixels of the images that its windows read, and keeps a sum for each tap of
its channels. Larger boxes share more reads and conversions; they take more registers, and leave fewer threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import attrs

from fireiron import machine

MACHINE = machine("sm_90a")
VECTOR = 8  # most bytes of a thread's vector of channels
SIDES = (1, 2, 3, 4, 5, 6, 7, 8)  # extents of a box along a side
LANES, THREADS = (4, 8, 16, 32), (128, 256, 384, 512)
MOST_HELD = 160  # registers of sums and pixels of a thread: an SM then holds 12 warps, or nearly
# Registers of a thread: beside those held, a step of their number, the most; of an SM.
BESIDE, STEP, MOST_REGISTERS, PER_SM = 28, 8, 255, 65536
# Of a thread: instructions of a pixel's load; bytes that an instruction sets to 0; further instructions of a box.
PER_PIXEL, ZEROED, EACH = 2.25, 8, 40
PARTITIONS, WARP, ISSUED = 4, 32, 0.8  # of an SM; lanes of a warp; instructions that a busy partition issues in a clock
LATENCY, STARTED = 1000, 3000  # clocks of the loads of a box; of a kernel
DRAM, LINE = 0.9, 128  # part of the peak bandwidth of memory that such kernels reach; bytes of a line
PART = 12  # clocks in which a thread of the last block adds a vector of another block's sums
SHARPNESS = 3  # exponent of the smooth maximum of several times
PLACES, MOST_RESULTS = (1, 2, 4), 64  # windows' places of a thread along a side; registers of a thread's results
ENOUGH = 384  # threads of an SM that hide the latency of their loads
UNKNOWN_BOXES, UNKNOWN_CHANNELS = 4096, 128


@attrs.frozen
class Sums:
    """Hold the facts of a gradient of filters that its time depends on.

    Args:
        boxes: number of boxes of all images; None where not known.
        channels: number of channels; None where not known.
        taps: number of taps of a filter.
        made: pixels of the gradient in a box.
        read: pixels of the images that a box's windows read.
        nbytes: bytes of an element.
        partial: whether boxes reach beyond the gradient, so that each product is chosen.
    """

    boxes: int | None
    channels: int | None
    taps: int
    made: int
    read: int
    nbytes: int
    partial: bool


@attrs.frozen
class Division:
    """Say how threads divide the boxes and channels.

    Args:
        channels: number of channels of a thread.
        lanes: number of threads side by side along channels.
        threads: number of threads of a block.
        ways: number of blocks that share the boxes of their channels.
    """

    channels: int
    lanes: int
    threads: int
    ways: int


def divided(
    sums: Sums, channels: int | None = None, lanes: int | None = None, threads: int | None = None,
    ways: int | None = None,
) -> tuple[float, Division]:  # fmt: skip
    """Choose a division by modelled clocks.

    Args:
        sums: the facts.
        channels, lanes, threads, ways: given numbers of a division; None for each that is chosen.

    Example:
        >>> divided(Sums(6272, 144, 9, 16, 36, 2, False))[1]
        Division(channels=4, lanes=4, threads=256, ways=14)
    """
    found: list[tuple[float, int, Division]] = []
    for vector in (channels,) if channels else _vectors(sums):
        held = _threads(sums, vector)
        for along, size in product((lanes,) if lanes else LANES, (threads,) if threads else THREADS):
            if size <= held or threads:
                clocks, count = _clocks(sums, vector, along, size, max(1, held // size), ways)
                found.append((clocks, len(found), Division(vector, along, size, count)))
    return min(found)[0], min(found)[2]


def _vectors(sums: Sums) -> list[int]:
    """List the numbers of channels of a thread whose vectors divide all channels, and whose pixels registers hold."""
    size = largest_vector(sums.channels or UNKNOWN_CHANNELS, sums.nbytes)
    every = [size >> i for i in range(size.bit_length())]
    return [n for n in every if _held(sums, n) <= MOST_HELD] or [1]


def _held(sums: Sums, vector: int) -> int:
    """Count the registers of a thread's sums and pixels."""
    return sums.taps * vector + (sums.made + sums.read) * max(1, vector * sums.nbytes // 4)


def _threads(sums: Sums, vector: int) -> int:
    """Count the threads of an SM, of the registers that a thread takes."""
    each = min(MOST_REGISTERS, -(-int(_held(sums, vector) + BESIDE) // STEP) * STEP)
    return PER_SM // each // THREADS[0] * THREADS[0]


def _clocks(sums: Sums, vector: int, lanes: int, threads: int, blocks: int, ways: int | None) -> tuple[float, int]:
    """Model the clocks of a kernel, and choose the number of blocks that share the boxes.

    Args:
        sums: the facts.
        vector: number of channels of a thread.
        lanes, threads, ways: as in `Division`; ways may be None.
        blocks: number of blocks that an SM holds.
    """
    boxes, channels = sums.boxes or UNKNOWN_BOXES, sums.channels or UNKNOWN_CHANNELS
    tiles, groups, slots = -(-channels // (vector * lanes)), threads // lanes, MACHINE.sms * blocks
    count = ways or max(1, min(slots // tiles, -(-boxes // groups)))
    trips = -(-boxes // (count * groups))
    count = ways or -(-boxes // (trips * groups))  # of more blocks with as many boxes for each thread, the fewest do
    pixels, nbytes = sums.made + sums.read, vector * sums.nbytes
    # Elements that are loaded one by one are widened by a further instruction.
    converted = pixels * (vector + (vector == 1)) if sums.nbytes < 4 else 0
    products = sums.taps * sums.made * vector * (2 if sums.partial else 1)
    instructions = products + converted + pixels * (PER_PIXEL + nbytes / ZEROED) + EACH
    each = -(-tiles * count // MACHINE.sms)  # blocks of the SM that has the most
    warps = min(each, blocks) * threads / WARP
    busy = trips * each * threads / WARP * instructions / PARTITIONS / ISSUED
    asked = trips * each * threads / WARP * pixels * max(WARP / lanes, WARP * nbytes / LINE)
    alone = -(-each // blocks) * trips * (LATENCY + instructions * max(1, warps / PARTITIONS) / ISSUED)
    moved = boxes * channels * sums.nbytes * (2 * sums.made + max(0, sums.read - 2 * sums.made) / 2)
    moved /= DRAM * MACHINE.dram_gbps * 1e3 / MACHINE.clock_mhz
    added = PART * sums.taps * vector * -(-count // (threads // WARP)) if count > 1 else 0
    return sum(x**SHARPNESS for x in (busy, asked, alone, moved)) ** (1 / SHARPNESS) + added + STARTED, count


def best_box(
    sizes: Sequence[int | None], taps: Sequence[int], steps: Sequence[int], apart: Sequence[int], nbytes: int
) -> tuple[int, ...]:
    """Choose a box by modelled clocks; it has one pixel along all sides but the last two.

    Args:
        sizes: numbers of images, of pixels along each side, and of channels; None where not known.
        taps: taps of a filter along each side.
        steps, apart: strides and dilations along each side.
        nbytes: bytes of an element.

    Example:
        >>> best_box((32, 56, 56, 144), (3, 3), (1, 1), (1, 1), 2)
        (7, 7)
    """
    images, *ends, channels = sizes
    rank = len(ends)
    found: list[tuple[float, tuple[int, ...]]] = []
    inner = [[n for n in SIDES if end is None or n <= end] for end in ends[-2:]]
    for part in product(*inner):
        box = (1,) * (rank - len(part)) + part
        reads = [(n - 1) * step + (t - 1) * d + 1 for n, step, t, d in zip(box, steps, taps, apart, strict=True)]
        known = [None if end is None else -(-end // n) for end, n in zip(ends, box, strict=True)]
        counts = [n for n in (images, *known) if n is not None]
        boxes = prod(counts) if len(counts) == rank + 1 else None
        partial = any(end is None or end % n for end, n in zip(ends, box, strict=True) if n > 1)
        sums = Sums(boxes, channels, prod(taps), prod(box), prod(reads), nbytes, partial)
        if _held(sums, 1) <= MOST_HELD or prod(box) == 1:
            found.append((divided(sums)[0], box))
    return min(found)[1]


@attrs.frozen
class Places:
    """Hold the facts of a gradient of images with strides that its time depends on.

    Args:
        images: number of images.
        windows: number of windows' places along each side.
        channels: number of channels.
        reach: pixels of the gradient from the first to the last that a place reads, along each side.
        near: number of pixels between neighbouring windows.
        nbytes: bytes of an element.
    """

    images: int
    windows: tuple[int, ...]
    channels: int
    reach: tuple[int, ...]
    near: int
    nbytes: int


def best_places(x: Places, vector: int, rows: int | None, pixels: int | None) -> tuple[int, ...]:
    """Choose the numbers of windows' places of a thread along each side: the fewest instructions of the GPU.

    Args:
        x: the facts.
        vector: number of channels of a thread.
        rows, pixels: given numbers along the side before the last, and along the last; None to choose.

    Example:
        >>> best_places(Places(32, (28, 28), 144, (1, 1), 4, 2), 4, None, None)
        (2, 2)
    """
    rank = len(x.windows)
    choices = ((rows,) if rows else PLACES, (pixels,) if pixels else PLACES)
    found: list[tuple[float, tuple[int, ...]]] = []
    for part in product(*choices[-rank:]):
        along = (1,) * (rank - len(part)) + part
        results, read = prod(along) * x.near * vector, prod(n + r for n, r in zip(along, x.reach, strict=True))
        if results > MOST_RESULTS and along != (1,) * rank and not (rows and pixels):
            continue
        converted = read * vector if x.nbytes < 4 else 0
        taps = x.near * prod(r + 1 for r in x.reach)
        instructions = results * (prod(r + 1 for r in x.reach) + 0.75) + converted + read * PER_PIXEL
        instructions += taps * (vector + PER_PIXEL) + EACH
        threads = x.images * -(-x.channels // vector)
        for n, size in zip(along, x.windows, strict=True):
            threads *= -(-size // n)
        found.append((max(threads, MACHINE.sms * ENOUGH) * instructions, along))
    return min(found)[1]


def largest_vector(channels: int | None, nbytes: int) -> int:
    """Return the most channels of a thread whose vectors divide all channels."""
    size = max(1, VECTOR // nbytes)
    while (channels or 0) % size:
        size //= 2
    return size
