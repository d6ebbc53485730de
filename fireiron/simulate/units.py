"""The threads of a block in each unit of a level."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fireiron.language.levels import Level
from fireiron.simulate.order import Array


@lru_cache(1 << 6)
def whole_units(level: Level, threads: int) -> Array | None:
    """List the threads of each unit (units, threads); None where a unit lacks threads.

    Example:
        >>> from fireiron.language.levels import Warp
        >>> whole_units(Warp, 64).shape, whole_units(Warp, 65)
        ((2, 32), None)
    """
    units = unit_threads(level, threads)
    if any(len(unit) != (level.size or threads) for unit in units):
        return None
    found = np.array(units)
    found.flags.writeable = False
    return found


def unit_threads(level: Level, threads: int) -> list[Array]:
    """List the threads of each unit of a level; the last unit may have fewer threads.

    Example:
        >>> from fireiron.language.levels import QuadPair, Warp
        >>> [len(u) for u in unit_threads(Warp, 80)]
        [32, 32, 16]
        >>> unit_threads(QuadPair, 32)[1].tolist()
        [4, 5, 6, 7, 20, 21, 22, 23]
    """
    if level.size is None:
        return [np.arange(threads)]
    if level.threads is None or level.parent is None or level.threads.cosize == level.size:
        return [np.arange(first, min(first + level.size, threads)) for first in range(0, threads, level.size)]
    inside = np.array([level.threads(i) for i in range(level.threads.size)])
    found: list[Array] = []
    for parent in unit_threads(level.parent, threads):
        free = np.ones(len(parent), bool)
        for first in range(len(parent)):
            # Units interleave: the next one starts at the first thread that no unit has yet.
            if free[first]:
                mine = first + inside
                mine = mine[mine < len(parent)]
                free[mine] = False
                found.append(parent[mine])
    return found
