"""A model of `attention.wgmma`'s time on Hopper, which chooses the warpgroups of a block and the keys of a chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod

import attrs
import numpy as np

from fireiron import ProgramChain, machine
from fireiron.schedules._heads import GROUP_ROWS, HOPPER_SHARED, array, heads
from fireiron.schedules._scores import columns

SMS = machine("sm_90a").sms
POINTS = 4  # queries of a tile, and keys of a chunk, for which a mask is evaluated
MOST_KEYS = 4096  # beyond, whole chunks are most of a row


@attrs.frozen
class AttentionClocks:
    """Hold the constants of the model, in microseconds.

    Args:
        tile, tile_column: time of a tile, and of each column of values.
        shallow: time of a tile that is added where shared memory holds two chunks only.
        chunk: time of a chunk, whatever its keys.
        key, key_column: time of a key of a chunk, and of each column of keys and of values, for two warpgroups.
        masked, masked_column, masked_chunk: time of a tile, of its columns and of a chunk that a mask adds.
        one, three: factors of a key's time for one and three warpgroups.
        last: part of a tile's time for which blocks that draw tiles wait for the last one.
        launch: time of a launch.
        timings: what the constants were fitted to.
    """

    tile: float
    tile_column: float
    shallow: float
    chunk: float
    key: float
    key_column: float
    masked: float
    masked_column: float
    masked_chunk: float
    one: float
    three: float
    last: float
    launch: float
    timings: str

    def microseconds(self, work: Work) -> float:
        """Estimate the time of a kernel."""
        tile = self.tile + self.tile_column * work.width + (self.shallow if work.shallow else 0.0)
        chunk = self.chunk
        waves = work.rounds
        if work.masked:
            tile += self.masked + self.masked_column * work.width
            chunk += self.masked_chunk
            waves += self.last
        else:
            waves = ceil(waves)
        factor = {1: self.one, 3: self.three}.get(work.groups, 1.0)
        chunk += work.keys * factor * (self.key + self.key_column * (work.depth + work.width))
        return self.launch + waves * (tile + chunk * work.chunks)


@attrs.frozen
class Work:
    """Count the work of a kernel.

    Args:
        groups: number of warpgroups that compute, with 64 queries each.
        keys: number of keys of a chunk.
        depth, width: numbers of columns of keys and of values.
        masked: whether a mask leaves keys out.
        shallow: whether blocks loop over tiles, and shared memory holds two chunks only beside the arrays of two tiles.
        rounds: tiles of each multiprocessor.
        chunks: chunks of a tile, in the mean.
    """

    groups: int
    keys: int
    depth: int
    width: int
    masked: bool
    shallow: bool
    rounds: float
    chunks: float


FIT = AttentionClocks(
    tile=1.0,
    tile_column=0.0062,
    shallow=0.44,
    chunk=0.08,
    key=0.00584,
    key_column=0.000015,
    masked=0.086,
    masked_column=0.0054,
    masked_chunk=0.018,
    one=0.65,  # assumed: the timings have two and three warpgroups
    three=1.29,
    last=0.7,
    launch=3.4,
    timings="772 timings",
)


def microseconds(spec: ProgramChain, groups: int, keys: int) -> float:
    """Estimate the time of a kernel.

    Args:
        spec: the program, whose extents are numbers.
        groups: number of warpgroups that compute, with 64 queries each.
        keys: number of keys of a chunk.
    """
    return FIT.microseconds(work_of(spec, groups, keys))


def work_of(spec: ProgramChain, groups: int, keys: int) -> Work:
    """Count the tiles and chunks of a kernel."""
    extents, (depth, width) = spec.residual.extents, columns(spec)
    tiles = chunks_of_tiles(spec, groups * GROUP_ROWS, keys)
    count = prod(n for name in heads(spec) if isinstance(n := extents[name], int)) * len(tiles)
    nbytes = array(spec, "q").dtype.nbytes
    free = HOPPER_SHARED - groups * GROUP_ROWS * (2 * depth + width) * nbytes
    shallow = count > SMS and free < 3 * keys * (depth + width) * nbytes
    return Work(groups, keys, depth, width, is_masked(spec), shallow, count / SMS, sum(tiles) / len(tiles))


def is_masked(spec: ProgramChain) -> bool:
    """Say whether a mask leaves keys out."""
    return any(step.where is not None for step in spec.computed.steps)


def chunks_of_tiles(spec: ProgramChain, rows: int, keys: int) -> Sequence[int]:
    """Count the chunks of keys that each tile of queries visits: all, where a mask is not known from indices alone.

    Args:
        spec: the program.
        rows: number of queries of a tile.
        keys: number of keys of a chunk.
    """
    queries, whole = (n for name in "ij" if isinstance(n := spec.residual.extents[name], int))
    tiles, chunks = ceil(queries / rows), ceil(whole / keys)
    step = next((s for s in spec.computed.steps if s.where is not None), None)
    if step is None or whole > MOST_KEYS or queries > MOST_KEYS:
        return [chunks] * tiles
    i, j = (np.minimum(np.fromiter(_points(n, size), int), n - 1) for n, size in ((queries, rows), (whole, keys)))
    seen = step.holds({"i": i[:, None], "j": j[None, :]})
    if seen is None:
        return [chunks] * tiles
    each = np.broadcast_to(seen, (len(i), len(j))).reshape(tiles, POINTS, chunks, POINTS)
    return [int(n) for n in (each != 0).any(axis=(1, 3)).sum(axis=1)]


def _points(extent: int, size: int) -> Iterator[int]:
    """List some indices of each tile, its first and last one among them; the last tile's may exceed the extent."""
    for start in range(0, extent, size):
        yield from (start + n * (size - 1) // (POINTS - 1) for n in range(POINTS))
