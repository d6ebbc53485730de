"""The place of each element of each tile, from a storage's strides and swizzle, or from a tensor's ownership."""

from __future__ import annotations

from collections.abc import Iterable

from fireiron.kernel.analysis.ownership import Access
from fireiron.kernel.ir.elements import Elements, Held
from fireiron.kernel.lower.window import Storage


def elements(storages: Iterable[Storage], threads: int) -> tuple[Elements, ...]:
    """Describe the tiles of shared memory and registers whose extents are known, and whose elements are whole bytes.

    Args:
        storages: the kernel's storages.
        threads: number of threads of the block, or of the role that computes.
    """
    found: list[Elements] = []
    for storage in storages:
        shape = tuple(extent for extent in storage.shape if isinstance(extent, int))
        if storage.tensor is not None or storage.dtype.packed or not shape or len(shape) < len(storage.shape):
            continue
        of = storage.name, shape, storage.unit
        held = storage.ownership
        if not storage.memory.registers:
            found.append(Elements(*of, strides=storage.strides, swizzle=storage.swizzle))
        elif held is not None and held.opaque:
            found.append(Elements(*of, threads=threads))
        elif held is not None:
            found.append(Elements(*of, held=_held(held.access, held.size), threads=held.threads))
    return tuple(found)


def _held(access: Access, size: int) -> Held:
    loops = tuple((loop.var, extent) for loop, extent in zip(access.loops, access.extents, strict=True))
    limits = tuple((x.axis, x.offset, x.steps, x.limit) for x in access.limits)
    return Held(access.coordinates, access.elements, loops, limits, access.guards, size)
