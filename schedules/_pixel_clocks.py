"""A model of a convolution's time on Hopper, in clocks, which ranks the tiles of `conv.wgmma`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import gcd, inf, prod

import attrs

from fireiron import ProgramChain, machine, preset
from fireiron.schedules._pixels import (
    RUN,
    WARPGROUP,
    Window,
    box_of,
    bulk_takes,
    by_runs,
    copied_span,
    least_side,
    strided,
)

MACHINE = machine("sm_90a")
SHARED = 226 * 1024  # bytes of a block on Hopper, less those of barriers
SPAN = 128  # bytes of a row of a chunk
MULTIPLY_ADDS = 4096  # bytes of operands that are multiplied in a clock: 2048 multiply-adds of 16 bits
ROWS = 64  # rows of an instruction
# Fitted to 88 timings of 29 layers on an H200 (ResNet-50, AKG, and drawn layers; boxes and runs of pixels). The model's
# error is 5.2 % (root mean square), with 8,300 clocks for a launch.
HANDED = 173.0  # bytes in a clock that shared memory stores, and that instructions read from it
STORE = 20.5  # bytes of results stored in a clock
LATENCY, EMPTYING = 2350.0, 1.0  # clocks from the start of a chunk's load to its end; slots whose load has not started
DRAM, AGAIN = 3950.0, 8070.0  # bytes in a clock for all SMs: from memory, and of repeated loads from the L2 cache
# The latency and the bytes of repeated loads for tiles of one warpgroup, whose chunks are small. Fitted to 7 timings of
# 3 layers, with an error of 9 % (root mean square).
ALONE, AGAIN_ALONE = 1500.0, 10000.0
LINE = 128  # bytes of a line, the least that the L2 cache sends
SECTOR = 32  # bytes of a sector, a part of a line
ROW, OFF = 0.8, 2.75  # clocks of a row of a chunk, and added ones if pixels begin inside a sector: by 104 more timings
PAIRED = 1.07  # factor of the clocks of wide tiles in clusters of two, whose blocks wait for each other
STRIDED = 1.7  # factor of the bytes of a load that takes every n-th pixel
SHARPNESS = 3  # exponent of the smooth maximum of the times of products and of bytes, which delay each other
MEETING, SUMS = 600.0, 33.0  # clocks to increment a tile's counter; bytes of other blocks' sums read in a clock
RING = 4  # chunks that hide the latency of loads under products
PAIRS = 64  # tiles of at most this number of channels are always paired where there are several
MOST_HELD = {1: 128, 2: 128, 3: 96}  # most sums of a thread, by the number of warpgroups
# A thread of three warpgroups has 160 registers; with a residual and a bias, 96 sums took 168.
MOST_WITH_RESIDUAL = 80
# Where threads copy: clocks of a chunk, and of one of its elements, as for products that threads transpose (`_clocks`;
# not fitted to convolutions); most sums of a thread, with four warpgroups.
COPYING, COPIED, MOST_BESIDE = 320.0, 0.09, 64
PIXELS, CHANNELS, WAYS = (64, 128, 192, 256), (64, 128, 192, 256), (1, 2, 3, 4)


@preset
@attrs.frozen
class Tiles:
    """Hold the degrees of freedom of `conv.wgmma`.

    Args:
        pixels: number of pixels of a block's tile.
        channels: number of filters of a block's tile, which are channels of the result.
        groups: number of warpgroups that compute.
        cluster: number of blocks of a cluster, which share loads.
        ways: number of blocks that share a tile, each with a part of the folded channels.
        persistent: whether blocks loop over tiles.
        runs: whether a tile is a run of pixels across rows and images, instead of a box.
        span: bytes of a chunk's rows, at most 128; 0 for the number that channels fill best.
    """

    pixels: int = 128
    channels: int = 128
    groups: int = 2
    cluster: int = 1
    ways: int = 1
    persistent: bool = True
    runs: bool = False
    span: int = 0

    def panel(self, span: int, stored: int, kept: int = 0) -> int:
        """Choose the number of columns to store at once: all, or fewer to leave shared memory for a ring of chunks.

        Args:
            span: bytes of a chunk's rows.
            stored: bytes of an element of the result.
            kept: bytes of shared memory for other tiles.
        """
        rest = SHARED - kept - RING * span * (self.pixels + self.channels)
        wide = [n for n in (self.channels, 64, 32) if self.channels % n == 0]
        return next((n for n in wide if self.staging(n, stored) <= rest), wide[-1] if kept else wide[0])

    def staging(self, columns: int, stored: int) -> int:
        """Return the bytes of shared memory through which `columns` columns of results are stored."""
        return (
            stored * self.pixels * (columns + pad_of(stored, columns) * (not swizzled(columns, self.channels, stored)))
        )

    def stages(self, span: int, stored: int, kept: int = 0) -> int:
        """Return the number of chunks that fit into shared memory beside other bytes, at most 8."""
        staging = self.staging(self.panel(span, stored, kept), stored)
        return min(8, (SHARED - kept - staging) // (span * (self.pixels + self.channels)))


def swizzled(columns: int, channels: int, stored: int) -> bool:
    """Say whether rows of results in shared memory are swizzled, as in narrow panels; other rows have pads."""
    return columns < channels and stored == 2


def pad_of(stored: int, columns: int) -> int:
    """Return the pad, in elements, between rows of results in shared memory, so that lanes write to different banks.

    Rows are then an odd number of pads apart.

    Args:
        stored: bytes of an element.
        columns: elements of a row.

    Example:
        >>> pad_of(2, 128), pad_of(2, 72)
        (8, 0)
    """
    pad = max(8, 16 // stored)
    return pad * (columns // pad % 2 == 0)


def span_of(spec: ProgramChain, w: Window, ways: int = 1) -> int:
    """Choose the bytes of a chunk's rows, where `ways` blocks share the folded channels."""
    whole = spec.residual.extents[w.depth]
    return next((n for n in (32, 64) if isinstance(whole, int) and w.nbytes * whole <= n * ways), SPAN)


def clocks(tiles: Tiles, spec: ProgramChain, w: Window) -> float:
    """Estimate the time of a convolution, in clocks; infinity where the tiles do not fit.

    The time of a chunk is the largest of four times: products; traffic in shared memory (operands read, boxes written);
    the latency of loads divided by the chunks in flight; and bulk copies, by rows. The total is at least the time of
    the loaded bytes: each array once from memory, and repeated loads by tiles and taps from the L2 cache, in whole
    lines of 128 bytes.

    Args:
        tiles: the tiles; if they are runs, `spec` is the program with fused pixels (`by_runs`).
        spec: the program.
        w: the program's product.
    """
    extents = spec.residual.extents

    def size(d: str) -> int:
        return n if isinstance(n := extents[d], int) else 4096

    span, box = (
        tiles.span or min(span_of(spec, w, tiles.ways), copied_span(spec, w, tiles.pixels, tiles.channels)),
        box_of(spec, w.pixels, tiles.pixels, tiles.groups, least_side(spec, w)),
    )
    rows, columns = tiles.pixels, tiles.channels
    stages = tiles.stages(span, w.stored)
    each = -(-size(w.depth) * w.nbytes // span)  # chunks of a tap
    chunks = prod(size(d) for d in w.taps) * each
    held = rows * columns // tiles.groups // WARPGROUP  # sums of a thread
    if tiles.cluster > 1 and tiles.groups == 3 and held == MOST_HELD[3]:
        return inf  # NVRTC 13.0 serialises such products
    if tiles.groups == 3 and held > MOST_WITH_RESIDUAL and _beside(spec, w):
        return inf
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
    by_threads = [n for role, n in ((w.images, rows), (w.filters, columns)) if not bulk_takes(spec, role)]
    if by_threads:
        if tiles.cluster > 1 or tiles.groups != 2 or held > MOST_BESIDE:
            return inf
        copied = COPYING + sum(by_threads) * span / w.nbytes * COPIED
    latency, again = (ALONE, AGAIN_ALONE) if tiles.groups == 1 else (LATENCY, AGAIN)
    chunk = max(products, handed, latency / (stages - EMPTYING), copied)
    waves, trips = -(-items // (MACHINE.sms // tiles.cluster * tiles.cluster)), -(-chunks // tiles.ways)
    once = sum(_nbytes(spec, role) for role in (w.images, w.filters))
    sent = items * trips * (loaded + filters) * lines(size(w.depth) * w.nbytes, span) * LINE / each
    arriving = once / DRAM + max(0.0, sent - once) / again
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
    """Say whether the blocks of a cluster share pixels and have different filters; otherwise they share filters."""
    return isinstance(filters, int) and -(-filters // channels) % cluster == 0


def within_sectors(spec: ProgramChain, w: Window) -> bool:
    """Say whether some pixels do not start at a multiple of 32 bytes (a sector), which bulk copies load slowly."""
    depth = spec.residual.extents[w.depth]
    return isinstance(depth, int) and depth * w.nbytes % SECTOR > 0


@cache
def lines(nbytes: int, span: int) -> float:
    """Return the number of lines of the L2 cache that the chunks of a pixel touch, on average.

    Args:
        nbytes: bytes of a pixel; pixels have no gaps between them.
        span: bytes of a chunk; the last one may have fewer.

    Example:
        >>> lines(256, 128), lines(224, 128)  # the second pixel begins in the middle of a line
        (2.0, 3.25)
    """
    starts = range(0, LINE, gcd(nbytes, LINE))
    pieces = [(first + at, min(span, nbytes - at)) for first in starts for at in range(0, nbytes, span)]
    return sum((first + size - 1) // LINE - first // LINE + 1 for first, size in pieces) / len(starts)


def _nbytes(spec: ProgramChain, role: str) -> int:
    """Return the bytes of an array."""
    held = spec.residual.operand(role)
    extents = () if held is None else held.tensor.shape
    return prod(n if isinstance(n, int) else 4096 for n in extents) * (1 if held is None else held.dtype.nbytes)


def candidates(spec: ProgramChain, w: Window, runs: bool = False) -> Iterator[Tiles]:
    """Yield the possible tiles of a convolution.

    Args:
        spec: the program.
        w: the program's product.
        runs: whether tiles are runs of pixels.
    """
    filters, depth = spec.residual.extents[w.column], spec.residual.extents[w.depth]
    off = within_sectors(spec, w)  # if so, a cluster of two halves the longest time
    for channels in CHANNELS:
        if isinstance(filters, int) and channels >= 2 * filters and channels > 64:
            continue
        for pixels in PIXELS:
            groups = {64: 1, 192: 3}.get(pixels, 2)
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
    """List the tiles of a convolution, boxes and runs, by modelled time, the fastest first."""
    timed = [(clocks(tiles, spec, w), tiles) for tiles in candidates(spec, w)]
    copied = not all(bulk_takes(spec, role) for role in (w.images, w.filters))
    flat = None if copied else by_runs(spec, w)
    if flat is not None:
        one = attrs.evolve(w, pixels=(RUN,))
        # Where sides divide a tile, each run of pixels is a box.
        apart = {n for n in PIXELS if None in flat.tile(**{RUN: n}).residual.extents.values()}
        found = (tiles for tiles in candidates(flat, one, runs=True) if tiles.pixels in apart)
        timed += [(clocks(tiles, flat, one), tiles) for tiles in found]
    folded = [spec.residual.extents[d] for d in (*w.taps, w.depth)]
    few = prod(n if isinstance(n, int) else 4096 for n in folded) * w.nbytes <= 2 * SPAN and not _beside(spec, w)
    # Where results are most of the bytes, and nothing of their pixels is read: of equal tiles that with most channels.
    # On an H200 1x1 of 64 channels and 256 filters took 20.0 us by 128x256, 22.0 by 256x128.
    ordered = sorted(timed, key=lambda one: (one[0], -one[1].channels if few else 0))
    return [tiles for count, tiles in ordered if count < inf]


def _beside(spec: ProgramChain, w: Window) -> bool:
    """Say whether an array with the results' pixels, such as a residual, is read after the products."""
    given, pixels = {t.name for t in spec.computed.inputs}, {*w.pixels}
    read = [ref for step in spec.computed.steps if step.fold is None for ref in step.reads]
    return any(ref.name in given and pixels & {d.name for d in ref.dims} for ref in read)
