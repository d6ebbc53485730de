"""A model of the clocks that a convolution takes on Hopper by the tiles of `conv.wgmma`, which ranks them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import gcd, inf, prod
from operator import itemgetter

import attrs

from fireiron import ProgramChain, machine, preset
from fireiron.schedules._pixels import RUN, Window, box_of, by_runs, strided

MACHINE = machine("sm_90a")
SHARED = 226 * 1024  # bytes of a block on Hopper, less those of barriers
SPAN = 128  # bytes of a row of a chunk
MULTIPLY_ADDS = 4096  # bytes of operands' products a clock: 2048 multiply-adds of 16 bits
ROWS = 64  # of an instruction
# Fitted to 88 timings of 29 layers on an H200, which it meets within 5.2 % (root mean square): layers of ResNet-50, of
# AKG, and drawn ones, by boxes and by runs of pixels, 8,300 clocks of a launch beside.
HANDED = 173.0  # bytes a clock that shared memory takes in and hands to instructions
STORE = 20.5  # bytes of results a clock
LATENCY, EMPTYING = 2350.0, 1.0  # clocks from asking for a chunk to having it; chunks that are not yet asked for
DRAM, AGAIN = 3950.0, 8070.0  # bytes a clock of all SMs: of images and filters once, and of what is sent again
LINE = 128  # bytes that the L2 cache sends at least
SECTOR = 32  # bytes of a line that are sent together
ROW, OFF = 0.8, 2.75  # clocks of a row of a chunk, and more where pixels begin within a sector: by 104 more timings
PAIRED = 1.07  # of the clocks that wide tiles take in pairs: the blocks wait for each other
STRIDED = 1.7  # of its bytes that a load costs which takes every n-th pixel
SHARPNESS = 3  # of the maximum of products and bytes: each delays the other where they are close
MEETING, SUMS = 600.0, 33.0  # clocks of counting in at a tile; bytes of other blocks' sums a clock
RING = 4  # chunks that hide the latency of loads under products
PAIRS = 64  # channels of tiles that always come in pairs where there are several
WARPGROUP, MOST_HELD = 128, {2: 128, 3: 96}  # threads, and sums that each holds at most, by the warpgroups
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
        runs: whether a tile's pixels are a run of all results', across rows and images, else a box.
        span: bytes of a chunk's rows, at most 128: as many as the channels fill well where 0.
    """

    pixels: int = 128
    channels: int = 128
    groups: int = 2
    cluster: int = 1
    ways: int = 1
    persistent: bool = True
    runs: bool = False
    span: int = 0

    def panel(self, span: int, stored: int) -> int:
        """Choose how many columns are stored at once: all, or so few that shared memory also holds a ring of chunks."""
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

    The time of a chunk is the largest of four: its products; its traffic in shared memory, operands read and boxes
    written; its share of the latency; the rows that bulk copies load. All chunks' time is held against that of the
    bytes that are loaded: of arrays once from memory, of what tiles and taps load again from the L2 cache, in whole
    lines of 128 bytes.

    Args:
        tiles: for a program whose pixels are as they say: boxes, or runs.
        spec: the program.
        w: its product.
    """
    extents = spec.residual.extents

    def size(d: str) -> int:
        return n if isinstance(n := extents[d], int) else 4096

    span, box = tiles.span or span_of(spec, w, tiles.ways), box_of(spec, w.pixels, tiles.pixels, tiles.groups)
    rows, columns = tiles.pixels, tiles.channels
    stages = tiles.stages(span, w.stored)
    each = -(-size(w.depth) * w.nbytes // span)  # chunks of a tap
    chunks = prod(size(d) for d in w.taps) * each
    held = rows * columns // tiles.groups // WARPGROUP  # sums of a thread
    if tiles.cluster > 1 and tiles.groups == 3 and held == MOST_HELD[3]:
        return inf  # NVRTC 13.0 serialises such products
    if stages < 3 or held > MOST_HELD[tiles.groups] or rows % (ROWS * tiles.groups):
        return inf
    cut = {**box, w.column: columns, **dict.fromkeys(w.batch, 1)}
    items = prod(-(-size(d) // n) for d, n in cut.items()) * tiles.ways
    products = rows * columns * span / MULTIPLY_ADDS
    handed = (rows // ROWS * (ROWS + columns) + rows + columns) * span / HANDED
    shared = tiles.cluster > 1 and share_pixels(extents[w.column], columns, tiles.cluster)
    loaded = rows / (tiles.cluster if shared else 1) * (STRIDED if strided(spec, w) else 1.0)
    filters = columns / (1 if shared else tiles.cluster)
    copied = (loaded + min(filters, size(w.column))) * (ROW + OFF * within_sectors(spec, w))
    chunk = max(products, handed, LATENCY / (stages - EMPTYING), copied)
    waves, trips = -(-items // (MACHINE.sms // tiles.cluster * tiles.cluster)), -(-chunks // tiles.ways)
    once = sum(_nbytes(spec, role) for role in (w.images, w.filters))
    sent = items * trips * (loaded + filters) * lines(size(w.depth) * w.nbytes, span) * LINE / each
    arriving = once / DRAM + max(0.0, sent - once) / AGAIN
    total = ((waves * trips * chunk) ** SHARPNESS + arriving**SHARPNESS) ** (1 / SHARPNESS)
    total += waves * rows * columns * w.stored / STORE
    if not tiles.persistent:  # the next block's first chunks wait for this one's end
        total += (waves - 1) * LATENCY
    if tiles.ways > 1:
        if waves > 1 or chunks < 2 * tiles.ways:
            return inf
        total += MEETING + tiles.ways * rows * columns * 4 / SUMS
    return total * (PAIRED if tiles.cluster > 1 and columns > PAIRS else 1.0)


def share_pixels(filters: object, channels: int, cluster: int = 2) -> bool:
    """Say whether blocks of a cluster have the same pixels and other filters; else they have the same filters."""
    return isinstance(filters, int) and -(-filters // channels) % cluster == 0


def within_sectors(spec: ProgramChain, w: Window) -> bool:
    """Say whether some pixels begin within a sector, which bulk copies load slowly."""
    depth = spec.residual.extents[w.depth]
    return isinstance(depth, int) and depth * w.nbytes % SECTOR > 0


@cache
def lines(nbytes: int, span: int) -> float:
    """Count the lines of the L2 cache that the chunks of one pixel touch, on average over the pixels.

    Args:
        nbytes: of a pixel; the next one follows at once.
        span: bytes of a chunk, less in the last.

    Example:
        >>> lines(256, 128), lines(224, 128)  # the second pixel begins in the middle of a line
        (2.0, 3.25)
    """
    starts = range(0, LINE, gcd(nbytes, LINE))
    pieces = [(first + at, min(span, nbytes - at)) for first in starts for at in range(0, nbytes, span)]
    return sum((first + size - 1) // LINE - first // LINE + 1 for first, size in pieces) / len(starts)


def _nbytes(spec: ProgramChain, role: str) -> int:
    """Count the bytes of an array."""
    held = spec.residual.operand(role)
    extents = () if held is None else held.tensor.shape
    return prod(n if isinstance(n, int) else 4096 for n in extents) * (1 if held is None else held.dtype.nbytes)


def candidates(spec: ProgramChain, w: Window, runs: bool = False) -> Iterator[Tiles]:
    """List the tiles that a convolution may have.

    Args:
        spec: the program.
        w: its product.
        runs: whether the tiles' pixels are runs.
    """
    filters, depth = spec.residual.extents[w.column], spec.residual.extents[w.depth]
    off = within_sectors(spec, w)  # then a pair halves what takes longest
    for channels in CHANNELS:
        if isinstance(filters, int) and channels >= 2 * filters and channels > 64:
            continue
        for pixels in PIXELS:
            groups = 3 if pixels == 192 else 2
            for ways in WAYS:
                whole = not isinstance(depth, int) or depth % ways == 0
                if ways > 1 and (not whole or (isinstance(depth, int) and depth // ways * w.nbytes % SPAN)):
                    continue
                pairs = channels == PAIRS and share_pixels(filters, channels)
                for cluster in (1,) if ways > 1 else (2,) if pairs else (1, 2) if off and channels > PAIRS else (1,):
                    yield Tiles(pixels, channels, groups, cluster, ways, ways == 1, runs)
                    if ways == 1 and cluster == 1:
                        yield Tiles(pixels, channels, groups, cluster, ways, False, runs)


def ranked(spec: ProgramChain, w: Window) -> list[Tiles]:
    """List the tiles of a convolution, boxes and runs, the one that should be fastest first."""
    timed = [(clocks(tiles, spec, w), tiles) for tiles in candidates(spec, w)]
    flat = by_runs(spec, w)
    if flat is not None:
        one = attrs.evolve(w, pixels=(RUN,))
        # Where sides divide a tile, each run of pixels is a box.
        apart = {n for n in PIXELS if None in flat.tile(**{RUN: n}).residual.extents.values()}
        found = (tiles for tiles in candidates(flat, one, runs=True) if tiles.pixels in apart)
        timed += [(clocks(tiles, flat, one), tiles) for tiles in found]
    return [tiles for count, tiles in sorted(timed, key=itemgetter(0)) if count < inf]
