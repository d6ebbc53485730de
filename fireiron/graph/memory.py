"""The memory plan: results with disjoint lifetimes share bytes of one block of memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

import attrs

ALIGNMENT = 256  # bytes: enough for bulk copies, vectors, tensor maps and cache lines


@attrs.frozen
class Interval:
    """Hold the lifetime of a result.

    Args:
        nbytes: bytes of the result.
        first: number of the launch that writes the result.
        last: number of the last launch that reads the result.
    """

    nbytes: int
    first: int
    last: int


@attrs.frozen
class Memory:
    """Hold the offsets of results in one block of memory, with its size and sizes to compare with.

    Args:
        offsets: by result, bytes from the start of the block.
        nbytes: bytes of the block.
        apart: bytes that the results would need without sharing.
        eager: most bytes alive at once if operators ran one by one, and each result were freed after its last reader.
            Outputs of a call are not counted in `nbytes`, `apart` and `eager`.
        spent: most bytes of inputs, results and outputs alive at once in `Plan.spend`.
    """

    offsets: Mapping[int, int]
    nbytes: int
    apart: int
    eager: int = 0
    spent: int = 0


def most_alive(intervals: Iterable[Interval]) -> int:
    """Return the most bytes that are alive at once.

    Example:
        >>> most_alive([Interval(1000, 0, 1), Interval(500, 1, 2), Interval(900, 2, 3)])
        1500
    """
    given = [x for x in intervals if x.first <= x.last]
    changes = sorted([(x.first, 1, x.nbytes) for x in given] + [(x.last + 1, 0, -x.nbytes) for x in given])
    return max(accumulate(nbytes for _, _, nbytes in changes), default=0)


def plan_memory(intervals: Mapping[int, Interval]) -> Memory:
    """Place results in one block: largest first, each at the lowest offset that is free during its lifetime.

    Example:
        >>> made = plan_memory({0: Interval(1000, 0, 1), 1: Interval(500, 1, 2), 2: Interval(900, 2, 3)})
        >>> made.offsets[2], made.offsets[1], made.nbytes, made.apart
        (0, 1024, 1536, 2560)
    """
    placed: list[tuple[int, int, Interval]] = []
    offsets: dict[int, int] = {}
    for key, one in sorted(intervals.items(), key=lambda item: (-item[1].nbytes, item[0])):
        size = -(-one.nbytes // ALIGNMENT) * ALIGNMENT
        together = sorted((at, end) for at, end, other in placed if other.first <= one.last and one.first <= other.last)
        place = 0
        for at, end in together:
            if place + size <= at:
                break
            place = max(place, end)
        offsets[key] = place
        placed.append((place, place + size, one))
    apart = sum(-(-one.nbytes // ALIGNMENT) * ALIGNMENT for one in intervals.values())
    return Memory(offsets, max((end for _, end, _ in placed), default=0), apart)
