"""Distribute the threads of a block along channels, sides and images, for folds over windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from fireiron import ProgramChain, walks

WARP, MOST_ALONG = 32, 32  # lanes of a warp; most vectors of channels side by side
RAGGED = 1.15  # factor of a block's instructions if its last units along a dim are partial, because of predicates
VECTOR, LINE, SECTOR = 16, 8, 32  # bytes of a vector; such vectors that fill a line; bytes of a part of a line


def dealt(
    spec: ProgramChain, step: str, images: str, units: Mapping[str, int | None], thread: Mapping[str, int], column: str,
    threads: int, nbytes: int,
) -> dict[str, int]:  # fmt: skip
    """Choose the number of threads along each dim, so that few are idle and few pixels are read by several blocks.

    Args:
        spec: the program.
        step: the fold.
        images: the array that the fold reads by windows.
        units: by dim, the number of units (vectors of channels, runs of pixels, rows, images); a thread takes one. None
            if unknown.
        thread: by dim, the elements of a unit.
        column: the dim of channels.
        threads: most threads of a block.
        nbytes: bytes of an element of the images.
    """
    vector, whole = thread[column] * nbytes, units[column]
    found = walks(spec.computed, step, images) or {}
    sides = [d for d in reversed(units) if d != column]

    def cost(counts: Mapping[str, int]) -> tuple[float, int]:
        idle = prod(-(-n // counts[d]) * counts[d] / n for d, n in units.items() if n is not None)
        lanes = prod(counts.values())
        idle *= -(-lanes // WARP) * WARP / lanes
        idle *= RAGGED ** sum(n is not None and n % counts[d] > 0 for d, n in units.items())
        read = written = 1
        along = counts[column] * vector
        if vector < VECTOR and counts[column] != whole:  # a line of a tile may begin inside a sector
            idle *= (along + SECTOR - gcd(along, SECTOR)) / along
        for d, walk in found.items():
            size = counts.get(d, 1) * thread.get(d, 1)
            read, written = read * ((size - 1) * walk.step + abs(walk.reach) + 1), written * size
        return round(idle * (1 + read / written), 6), -lanes

    return min(_counts(units, [column, *sides], column, threads, max(1, VECTOR // vector)), key=cost)


def _counts(
    units: Mapping[str, int | None], dims: Sequence[str], column: str, threads: int, narrower: int
) -> list[dict[str, int]]:
    """List possible numbers of threads along each dim; along channels they fill whole lines, or all channels.

    Args:
        units, column, threads: as in `dealt`.
        dims: the dims that are left.
        narrower: number of a thread's vectors in 16 bytes.
    """
    d, *rest = dims
    n = units[d]
    most = min(threads, threads if n is None else n)
    if d == column:
        most = min(most, MOST_ALONG * narrower)
        sizes = [k for k in range(1, most + 1) if k >= min(LINE * narrower, most)]
    else:
        # Of more threads that need as many blocks, the fewest do.
        sizes = sorted({-(-n // -(-n // k)) if n is not None else k for k in range(1, most + 1)})
    if not rest:
        return [{d: max(sizes)}]
    return [{d: k, **more} for k in sizes for more in _counts(units, rest, column, threads // k, narrower)]
