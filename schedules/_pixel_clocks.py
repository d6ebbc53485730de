"""A model of the clocks that a convolution takes on Hopper by the tiles of `conv.wgmma`, which ranks them."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

import attrs

from fireiron import ProgramChain, machine, preset
from fireiron.schedules._pixels import Window, box_of

MACHINE = machine("sm_90a")
SHARED = 226 * 1024  # bytes of a block on Hopper, less those of barriers
SPAN = 128  # bytes of a row of a chunk
MULTIPLY_ADDS = 4096  # bytes of operands' products a clock: 2048 multiply-adds of 16 bits
ROWS = 64  # of an instruction
# Fitted to 33 timings of 14 layers of ResNet-50 and AKG on an H200, which it meets within 6 % (root mean square).
HANDED = 134.0  # bytes a clock that shared memory takes in and hands to instructions
CHUNK = 24.0  # clocks of a chunk beside its products
OUTSIDE = 4.0  # clocks of a row of a box that lies beyond the images' ends; set by hand
WIDE = 1.18  # of its time that a chunk takes where a warpgroup has several instructions in a step, or 256 columns
STORE = 17.3  # bytes of results a clock
LATENCY, EMPTYING = 2390.0, 1.16  # clocks from asking for a chunk to having it; chunks that are not yet asked for
MEETING, SUMS = 1600.0, 21.9  # clocks of counting in at a tile; bytes of other blocks' sums a clock
BESIDE = 0.9  # of its time that a chunk takes whose images a cluster shares; set by hand
THREE = 1.06  # of its time that a chunk of three warpgroups takes, as products' do
RING = 4  # chunks that hide the latency of loads under products
WARPGROUP, MOST_HELD = 128, 128  # threads, and sums that each of them holds at most
PIXELS, CHANNELS, WAYS = (128, 192, 256), (64, 128, 192, 256), (1, 2, 3, 4)


@preset
@attrs.frozen
class Tiles:
    """Hold the degrees of freedom of `conv.wgmma`.

    Args:
        pixels: of a block's tile.
        channels: of a block's tile, filters.
        groups: warpgroups that compute.
        cluster: blocks that share their loads.
        ways: blocks that share a tile, each with a part of the folded channels.
        persistent: whether blocks loop over tiles.
    """

    pixels: int = 128
    channels: int = 128
    groups: int = 2
    cluster: int = 1
    ways: int = 1
    persistent: bool = True

    def panel(self, span: int, stored: int) -> int:
        """Choose the columns that are stored at once: all of them, or as few as let a ring of chunks stand beside."""
        rest = SHARED - RING * span * (self.pixels + self.channels)
        wide = [n for n in (self.channels, 64, 32) if self.channels % n == 0]
        return next((n for n in wide if self.staging(n, stored) <= rest), wide[0])

    def staging(self, columns: int, stored: int) -> int:
        """Count the bytes through which so many columns of results go."""
        return stored * self.pixels * (columns + pad_of(stored) * (not swizzled(columns, self.channels, stored)))

    def stages(self, span: int, stored: int) -> int:
        """Count the chunks that fit into shared memory, at most 8."""
        staging = self.staging(self.panel(span, stored), stored)
        return min(8, (SHARED - staging) // (span * (self.pixels + self.channels)))


def swizzled(columns: int, channels: int, stored: int) -> bool:
    """Say whether rows of results in shared memory are swizzled, as those of narrow panels are; others have pads."""
    return columns < channels and stored == 2


def pad_of(stored: int) -> int:
    """Choose the elements between rows of results in shared memory, so that lanes write to different banks."""
    return max(8, 16 // stored)


def span_of(spec: ProgramChain, w: Window, ways: int = 1) -> int:
    """Choose the bytes of a chunk's rows, of a depth that so many blocks share."""
    whole = spec.residual.extents[w.depth]
    return next((n for n in (32, 64) if isinstance(whole, int) and w.nbytes * whole <= n * ways), SPAN)


def clocks(tiles: Tiles, spec: ProgramChain, w: Window) -> float:
    """Estimate the clocks of a convolution; infinity where the tiles do not fit.

    The time of a chunk is the largest of three: its products; its traffic in shared memory, operands read and boxes
    written; its share of the latency. Rows of boxes outside the images take longer.
    """
    extents = spec.residual.extents

    def size(d: str) -> int:
        return n if isinstance(n := extents[d], int) else 4096

    span, box = span_of(spec, w, tiles.ways), box_of(spec, w.pixels, tiles.pixels, tiles.groups)
    rows, columns = tiles.pixels, tiles.channels
    stages = tiles.stages(span, w.stored)
    chunks = prod(size(d) for d in w.taps) * -(-size(w.depth) * w.nbytes // span)
    held = rows * columns // tiles.groups // WARPGROUP  # sums of a thread
    if stages < 3 or held > MOST_HELD or rows % (ROWS * tiles.groups):
        return inf
    cut = {**box, w.column: columns, **dict.fromkeys(w.batch, 1)}
    items = prod(-(-size(d) // n) for d, n in cut.items()) * tiles.ways
    filled = prod(size(d) / (-(-size(d) // n) * n) for d, n in box.items())
    products = rows * columns * span / MULTIPLY_ADDS
    handed = (rows // ROWS * (ROWS + columns) + rows + columns) * span / HANDED
    chunk = max(products, handed, LATENCY / (stages - EMPTYING))
    wide = rows // tiles.groups > ROWS or columns > 2 * ROWS
    chunk *= (WIDE if wide else 1.0) * (BESIDE if tiles.cluster > 1 else 1.0)
    chunk *= THREE if tiles.groups == 3 else 1.0
    chunk += CHUNK + OUTSIDE * rows * (1 - filled)
    waves = -(-items // (MACHINE.sms // tiles.cluster * tiles.cluster))
    total = waves * (-(-chunks // tiles.ways) * chunk + rows * columns * w.stored / STORE)
    if not tiles.persistent:  # the next block's first chunks wait for this one's end
        total += (waves - 1) * LATENCY
    if tiles.ways > 1:
        if waves > 1 or chunks < 2 * tiles.ways:
            return inf
        total += MEETING + tiles.ways * rows * columns * 4 / SUMS
    return total


def candidates(spec: ProgramChain, w: Window) -> Iterator[Tiles]:
    """List the tiles that a convolution may have."""
    filters, depth = spec.residual.extents[w.column], spec.residual.extents[w.depth]
    for channels in CHANNELS:
        if isinstance(filters, int) and channels >= 2 * filters and channels > 64:
            continue
        for pixels in PIXELS:
            groups = 3 if pixels == 192 else 2
            for ways in WAYS:
                whole = not isinstance(depth, int) or depth % ways == 0
                if ways > 1 and (not whole or (isinstance(depth, int) and depth // ways * w.nbytes % SPAN)):
                    continue
                several = channels == 64 and isinstance(filters, int) and -(-filters // 64) % 2 == 0
                cluster = 2 if several and ways == 1 else 1
                yield Tiles(pixels, channels, groups, cluster, ways, ways == 1)
                if ways == 1 and cluster == 1:
                    yield Tiles(pixels, channels, groups, cluster, ways, False)


def ranked(spec: ProgramChain, w: Window) -> list[Tiles]:
    """List the tiles of a convolution, the one that should be fastest first."""
    timed = [(clocks(tiles, spec, w), i, tiles) for i, tiles in enumerate(candidates(spec, w))]
    return [tiles for us, _, tiles in sorted(timed) if us < inf]
