"""Strips of results of a fold over windows: the results of one thread, which share the elements that they read.

A thread reads the windows of all its results, with their halo, and its channels' filters once into registers. More
results in a thread share more of these reads and conversions; they also take more registers, and leave fewer threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

import attrs

from fireiron import ProgramChain, machine, walks
from fireiron.schedules._window_folds import Fold, row_of_windows

MACHINE = machine("sm_90a")
VECTOR = 8  # bytes of a thread's vector of channels; 16 were slower
MOST_CHANNELS = 8
ROWS, PIXELS = (1, 2, 4, 7), (1, 2, 4, 7)
# Registers of a thread: of its windows, and of windows, filters and sums. NVRTC 13.0 then spills none.
MOST_OF_WINDOWS, MOST_HELD = 96, 200
TAKEN = 0.85  # part of the registers of windows, filters and sums that kernels take, since not all are held at once
LEAST_TAKEN, PER_SM = 64, 65536  # fewest registers of a thread; registers of an SM
INSTRUCTIONS, PER_PIXEL, ZEROED = 70, 2.25, 8  # of a thread; of a pixel's load; bytes that an instruction sets to 0
PARTITIONS, WARP = 4, 32
ISSUED = 0.8  # instructions issued in a clock by a partition that is busy
LATENCY = 3500  # clocks of a thread's loads and stores, and of the start of a block
DRAM = 0.9  # part of the peak bandwidth of memory that such kernels reach
SPREAD = 0.02  # time of bytes that each further pixel of a row adds: neighbouring threads read pixels further apart
SHARPNESS = 3  # exponent of the smooth maximum of the times of instructions and of bytes
# Of strips that hold as many registers, within this factor of time, the one with fewer converted elements comes first:
# with 5 x 5 taps 2 x 4 results take 128 to 140 registers, and 4 x 2 results, with as many instructions, 156 to 168.
NEAR = 1.01
UNKNOWN = 64  # extent of a side whose size is not known


@attrs.frozen
class Strip:
    """Hold the results of one thread.

    Args:
        rows: number of rows of results, along the side before the last.
        pixels: number of results of a row.
        channels: number of channels of a result.
    """

    rows: int
    pixels: int
    channels: int


@attrs.frozen
class Windows:
    """Hold the facts of a fold over windows that a strip's time depends on.

    Args:
        fold: the fold.
        results: by dim, the number of results; None where not known.
        steps: by side, the elements from one window to the next, and from a window's first tap to its last.
        taps: number of elements of a window.
        stored: bytes of an element of the results.
    """

    fold: Fold
    results: Mapping[str, int | None]
    steps: Mapping[str, tuple[int, int]]
    taps: int
    stored: int

    def box(self, strip: Strip) -> int:
        """Count the pixels that the windows of a strip cover."""
        sizes = dict(zip(reversed(self.fold.sides), (strip.pixels, strip.rows), strict=False))
        return prod((n - 1) * self.steps[d][0] + self.steps[d][1] + 1 for d, n in sizes.items())

    def registers(self, strip: Strip) -> tuple[int, int]:
        """Count the registers of a strip's windows, and of windows, filters and sums together."""
        words = self.box(strip) * strip.channels * self.fold.nbytes // 4
        filters = self.taps * strip.channels * self.fold.nbytes // 4
        return words, words + filters + strip.pixels * strip.channels * strip.rows

    def converted(self, strip: Strip) -> int:
        """Count the elements that a thread holds converted at a time: those of a row of taps of all its results."""
        step, reach = self.steps[self.fold.sides[-1]]
        return strip.rows * ((strip.pixels - 1) * step + reach + 1) * strip.channels

    def clocks(self, strip: Strip, threads: int) -> float:
        """Model the clocks of a kernel.

        Args:
            strip: the results of a thread.
            threads: number of threads of a block.
        """
        box, size = self.box(strip), strip.rows * strip.pixels
        vector = strip.channels * self.fold.nbytes
        converted = (box + self.taps) * strip.channels if self.fold.nbytes < 4 else 0
        loads = box * (PER_PIXEL + vector / ZEROED) + self.taps * strip.channels * self.fold.nbytes / vector
        stores = size * (1 + strip.channels / 2 * (self.stored < 4))
        instructions = self.taps * size * strip.channels + converted + loads + stores + INSTRUCTIONS
        parts = (strip.pixels, strip.rows)[: len(self.fold.sides)]
        cut = dict(zip(reversed(self.fold.sides), parts, strict=False)) | {self.fold.column: strip.channels}
        units = prod(-(-(n or UNKNOWN) // cut.get(d, 1)) for d, n in self.results.items())
        blocks = -(-units // threads)
        fit = max(1, int(PER_SM // (max(LEAST_TAKEN, TAKEN * self.registers(strip)[1]) * threads)))
        a_block = -(-threads // WARP) * instructions / PARTITIONS / ISSUED
        # The last blocks of an SM leave it half empty.
        each = blocks / MACHINE.sms
        busy = (-(-blocks // MACHINE.sms) if each <= fit else each + fit / 2) * a_block
        results = prod(n or UNKNOWN for n in self.results.values())
        read = prod(step for step, _ in self.steps.values()) * self.fold.nbytes
        moved = results * (read + self.stored) / (DRAM * MACHINE.dram_gbps * 1e3 / MACHINE.clock_mhz)
        moved *= 1 + SPREAD * (strip.pixels - 1)
        return (busy**SHARPNESS + moved**SHARPNESS) ** (1 / SHARPNESS) + LATENCY + instructions


def windows_of(spec: ProgramChain, fold: Fold) -> Windows | None:
    """Return the facts of a fold whose windows a thread can hold; None for pooling and for folds of other forms."""
    found = walks(spec.computed, fold.step, fold.images)
    held, sizes = spec.residual.operand(fold.images), [fold.sizes.get(d) for d in fold.over]
    step = next(s for s in spec.computed.steps if s.name == fold.step)
    if not fold.is_product or found is None or held is None or not 1 <= len(fold.sides) <= 2 or None in sizes:
        return None
    if held.tensor.strides[-1] != 1 or {*found} != {*fold.sides} or any(walk.step < 1 for walk in found.values()):
        return None
    results = {d.name: fold.sizes.get(d.name) for d in step.kept}
    one = {d: 1 for d in results}
    if row_of_windows(spec.tile(**one), fold.images, ()) is None:
        return None
    steps = {d: (walk.step, abs(walk.reach)) for d, walk in found.items()}
    stored = max(out.dtype.nbytes for out in spec.computed.outputs)
    return Windows(fold, results, steps, prod(n or 1 for n in sizes), stored)


def apart(spec: ProgramChain, fold: Fold) -> bool:
    """Say whether neighbouring windows are more than an element apart."""
    found = walks(spec.computed, fold.step, fold.images)
    return found is not None and any(walk.step > 1 for walk in found.values())


def strips(
    spec: ProgramChain, fold: Fold, threads: int, rows: int | None, pixels: int | None, channels: int | None
) -> list[Strip]:
    """List the strips that registers hold by modelled time, the fastest first.

    Args:
        spec: the program.
        fold: its fold over windows.
        threads: number of threads of a block.
        rows, pixels, channels: given numbers; None for each that may be chosen.
    """
    windows = windows_of(spec, fold)
    if windows is None or apart(spec, fold):
        return []  # of windows that share few elements, runs were faster
    along = dict(zip(reversed(fold.sides), ((pixels, PIXELS), (rows, ROWS)), strict=False))
    counts = [(given,) if given else most for given, most in along.values()] + [(1,)] * (2 - len(fold.sides))
    channels = channels or min(MOST_CHANNELS, VECTOR // fold.nbytes)
    found: list[Strip] = []
    for width, height in product(*counts):
        strip = Strip(height, width, channels)
        box, held = windows.registers(strip)
        if box <= MOST_OF_WINDOWS and held <= MOST_HELD:
            found.append(strip)
    if not found:
        return []
    clocks = {strip: windows.clocks(strip, threads) for strip in found}
    found.sort(key=lambda strip: clocks[strip])
    alike = (x for x in found if windows.registers(x) == windows.registers(found[0]))
    first = min((x for x in alike if clocks[x] <= NEAR * clocks[found[0]]), key=windows.converted)
    return [first, *(x for x in found if x != first)]
