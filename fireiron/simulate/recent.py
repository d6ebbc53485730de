"""Results of pure functions that are kept for a while: the oldest go when they take too much memory."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Keep values by key, up to a total weight; threads may share it.

    Example:
        >>> recent = Recent[str](10)
        >>> for key in "abc":
        ...     recent.keep(key, key.upper(), 4)
        >>> recent.get("a"), recent.get("c")
        (None, 'C')
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.weight = 0
        self._kept: dict[Hashable, tuple[V, int]] = {}
        self._lock = Lock()

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key; None where it was never kept, or went."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def keep(self, key: Hashable, value: V, weight: int) -> None:
        """Keep a value; the oldest values go until the rest weigh no more than `most`."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = value, weight
            self.weight += weight
            while self.weight > self.most:
                self.weight -= self._kept.pop(next(iter(self._kept)))[1]
