"""A model of `attention.wgmma`'s time on Hopper, which chooses the warpgroups of a block and the keys of a chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod

import numpy as np

from fireiron import ProgramChain, machine
from fireiron.schedules._heads import GROUP_ROWS, heads
from fireiron.schedules._scores import columns

SMS = machine("sm_90a").sms
# Microseconds, fitted to 772 timings on an H200 with an error of 6 % (root mean square): bf16 and f16, 32 to 128
# columns, 200 to 4096 queries and keys, with speculation, without a mask and with a causal one.
TILE, TILE_COLUMN = 0.8, 0.008  # of a tile, and for each column of values
CHUNK = 0.06  # of a chunk
KEY, KEY_COLUMN = 0.0062, 0.00003  # of a key of a chunk, and for each column of keys and values, half of their sum
MASKED, MASKED_COLUMN, MASKED_CHUNK = 0.09, 0.0064, 0.024  # added under masks
PARALLEL = {1: 0.65, 2: 1.0, 3: 1.27}  # factors of a key's time, by the number of warpgroups that compute
LAST = 0.5  # of a tile: how long blocks that draw tiles wait for the last one
POINTS = 4  # queries of a tile, and keys of a chunk, for which a mask is evaluated
MOST_KEYS = 8192  # beyond, whole chunks are most of a row


def microseconds(spec: ProgramChain, groups: int, keys: int) -> float:
    """Estimate the time of a kernel.

    Args:
        spec: the program, whose extents are numbers.
        groups: number of warpgroups that compute, with 64 queries each.
        keys: number of keys of a chunk.
    """
    depth, width = columns(spec)
    rows, extents = groups * GROUP_ROWS, spec.residual.extents
    tiles = _chunks(spec, rows, keys)
    mask = is_masked(spec)
    start = TILE + TILE_COLUMN * width + (MASKED + MASKED_COLUMN * width if mask else 0.0)
    chunk = CHUNK + (MASKED_CHUNK if mask else 0.0) + keys * PARALLEL[groups] * (KEY + KEY_COLUMN * (depth + width) / 2)
    count = prod(n for name in heads(spec) if isinstance(n := extents[name], int)) * len(tiles) / SMS
    waves = count + LAST if mask else ceil(count)
    return waves * (start + chunk * sum(tiles) / len(tiles))


def is_masked(spec: ProgramChain) -> bool:
    """Say whether a mask leaves keys out."""
    return any(step.where is not None for step in spec.computed.steps)


def _chunks(spec: ProgramChain, rows: int, keys: int) -> Sequence[int]:
    """Count the chunks of keys that each tile of queries visits: all, where a mask is not known from indices alone."""
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
