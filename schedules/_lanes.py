"""Distribute the threads of a block along channels, sides and images, for folds over windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from fireiron import ProgramChain, walks

WARP, MOST_ALONG = 32, 32  # lanes of a warp; most vectors of channels side by side
RAGGED = 1.15  # factor of a block's instructions if its last units along a dim are partial, because of predicates
LINE = 8  # vectors of 16 bytes that fill a line


def dealt(
    spec: ProgramChain, step: str, images: str, units: Mapping[str, int | None], thread: Mapping[str, int], column: str,
    threads: int,
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
    """
    found = walks(spec.computed, step, images) or {}
    sides = [d for d in reversed(units) if d != column]

    def cost(counts: Mapping[str, int]) -> tuple[float, int]:
        idle = prod(-(-n // counts[d]) * counts[d] / n for d, n in units.items() if n is not None)
        lanes = prod(counts.values())
        idle *= -(-lanes // WARP) * WARP / lanes
        idle *= RAGGED ** sum(n is not None and n % counts[d] > 0 for d, n in units.items())
        read = written = 1
        for d, walk in found.items():
            size = counts.get(d, 1) * thread.get(d, 1)
            read, written = read * ((size - 1) * walk.step + abs(walk.reach) + 1), written * size
        return round(idle * (1 + read / written), 6), -lanes

    return min(_counts(units, [column, *sides], column, threads), key=cost)


def _counts(units: Mapping[str, int | None], dims: Sequence[str], column: str, threads: int) -> list[dict[str, int]]:
    """List possible numbers of threads along each dim; along channels they fill whole lines, or all channels."""
    d, *rest = dims
    n = units[d]
    most = min(threads, threads if n is None else n)
    if d == column:
        most = min(most, MOST_ALONG)
        sizes = [k for k in range(1, most + 1) if k >= min(LINE, most)]
    else:
        # Of more threads that need as many blocks, the fewest do.
        sizes = sorted({-(-n // -(-n // k)) if n is not None else k for k in range(1, most + 1)})
    if not rest:
        return [{d: max(sizes)}]
    return [{d: k, **more} for k in sizes for more in _counts(units, rest, column, threads // k)]
