"""Cost of a warp's request in the memory system: 32-byte sectors of GL, wavefronts of SH.

Source: CUDA programming guide, "Global memory" (32-byte transactions) and "Shared memory" (32 banks of 4 bytes).
Accesses of 8 and 16 bytes are served a half-warp and a quarter-warp at a time.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

WARP = 32
SECTOR = 32
BANKS = 32
WORD = 4
_NOWHERE = np.int64(1) << 60


@attrs.define
class Traffic:
    """Count one direction of one memory.

    Args:
        nbytes: bytes that threads access.
        requests: warp-wide requests.
        units: sectors for GL, wavefronts for SH.
        ideal: the smallest possible number of units: the sectors that hold the distinct bytes, or one wavefront for
            each group of lanes that is served together.
    """

    nbytes: int = 0
    requests: int = 0
    units: int = 0
    ideal: int = 0

    def add(self, other: Traffic) -> None:
        """Add another count to this one."""
        self.nbytes += other.nbytes
        self.requests += other.requests
        self.units += other.units
        self.ideal += other.ideal

    @property
    def per_request(self) -> float:
        """Return the number of sectors or wavefronts of an average request."""
        return self.units / self.requests if self.requests else 0.0

    @property
    def degree(self) -> float:
        """Return the ratio of units to the ideal: the conflict degree of SH, the overfetch of GL."""
        return self.units / self.ideal if self.ideal else 1.0


def warps(address: Array, mask: Array | None) -> Array:
    """Arrange byte addresses of lanes (requests, threads) as rows of 32; inactive lanes get the address `_NOWHERE`."""
    if mask is not None:
        address = np.where(mask, address, _NOWHERE)
    ragged = -address.shape[1] % WARP
    if ragged:
        address = np.pad(address, ((0, 0), (0, ragged)), constant_values=_NOWHERE)
    return address.reshape(-1, WARP)


def sectors(address: Array, mask: Array | None, width: int) -> Traffic:
    """Count the sectors of GL accesses of `width` bytes, aligned to their width.

    Args:
        address: first bytes (requests, threads).
        mask: active lanes, or None for all.
        width: bytes of one lane's access, at most a sector.
    """
    rows = np.sort(warps(address, mask), axis=1)
    active = rows != _NOWHERE
    first = active[:, :1]
    places = np.concatenate([first, (np.diff(rows, axis=1) != 0) & active[:, 1:]], axis=1).sum(axis=1)
    touched = np.concatenate([first, (np.diff(rows // SECTOR, axis=1) != 0) & active[:, 1:]], axis=1).sum()
    return Traffic(
        nbytes=int(active.sum()) * width,
        requests=int(first.sum()),
        units=int(touched),
        ideal=int((-(-places * width // SECTOR)).sum()),
    )


def wavefronts(address: Array, mask: Array | None, width: int) -> Traffic:
    """Count the wavefronts of SH accesses of `width` bytes: the largest number of distinct words in one bank.

    Args:
        address: first bytes (requests, threads).
        mask: active lanes, or None for all.
        width: bytes of one lane's access: 1, 2, 4, 8 or 16.

    Example:
        >>> lanes = np.arange(32)[None]
        >>> wavefronts(lanes * 128, None, 4).degree, wavefronts(lanes * 132, None, 4).degree
        (32.0, 1.0)
    """
    rows = warps(address, mask)
    requests = int((rows != _NOWHERE).any(axis=1).sum())
    nbytes = int((rows != _NOWHERE).sum()) * width
    words = max(width // WORD, 1)
    groups = rows.reshape(-1, WARP // words)
    groups = groups[(groups != _NOWHERE).any(axis=1)]
    if not len(groups):
        return Traffic()
    word = np.sort((groups[:, :, None] // WORD + np.arange(words)).reshape(len(groups), -1), axis=1)
    distinct = np.ones(word.shape, bool)
    distinct[:, 1:] = np.diff(word, axis=1) != 0
    distinct &= word < _NOWHERE // WORD
    place = np.arange(len(groups))[:, None] * BANKS + word % BANKS
    load = np.bincount(place[distinct], minlength=len(groups) * BANKS).reshape(-1, BANKS)
    return Traffic(nbytes, requests, int(load.max(axis=1).sum()), len(groups))
