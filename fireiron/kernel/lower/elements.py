"""Writing down where the elements of each tile lie: from a storage's strides and swizzle, or a tensor's ownership."""

from __future__ import annotations

from collections.abc import Iterable

from fireiron.algebra.expr import Expr, Var, and_, as_expr, lt, substitute
from fireiron.kernel.analysis.ownership import Ownership
from fireiron.kernel.ir.elements import PLACE, REGISTER, Elements
from fireiron.kernel.lower.window import Storage


def elements(storages: Iterable[Storage], threads: int) -> tuple[Elements, ...]:
    """Describe the tiles of shared memory and registers whose extents are known, and whose elements are whole bytes.

    Args:
        storages: the kernel's.
        threads: of the block, or of the role that computes.
    """
    found: list[Elements] = []
    for storage in storages:
        shape = tuple(extent for extent in storage.shape if isinstance(extent, int))
        if storage.tensor is not None or storage.dtype.packed or not shape or len(shape) < len(storage.shape):
            continue
        if not storage.memory.registers:
            found.append(Elements(storage.name, shape, storage.unit, _offset(storage, shape)))
        elif storage.ownership is not None:
            found.append(_registers(storage, shape, storage.ownership, threads))
    return tuple(found)


def _offset(storage: Storage, shape: tuple[int, ...]) -> Expr:
    """Give the place of an element in one slot."""
    places = tuple(as_expr(Var(PLACE.format(i), extent)) for i, extent in enumerate(shape))
    offset = storage.address(places)
    return offset if storage.swizzle is None else storage.swizzle(offset)


def _registers(storage: Storage, shape: tuple[int, ...], ownership: Ownership, threads: int) -> Elements:
    """Write coordinates with the register's number in place of the loops that visit the registers."""
    if ownership.opaque:
        return Elements(storage.name, shape, storage.unit, threads=threads)
    access = ownership.access
    register = Var(REGISTER, max(ownership.size, 1))
    known: dict[Expr, Expr] = {}
    weight = access.count
    for loop, extent in reversed(list(zip(access.loops, access.extents, strict=True))):
        known[loop.var] = register // weight % extent
        weight *= extent
    element, local = register % access.count, list[Expr]()
    for layout in access.elements:
        local.append(element % layout.size)
        element = element // layout.size
    coordinates = tuple(
        substitute(first, known) + as_expr(steps(at))
        for first, steps, at in zip(access.coordinates, access.elements, local, strict=True)
    )
    limits = (lt(substitute(x.offset, known) + as_expr(x.steps(local[x.axis])), x.limit) for x in access.limits)
    guards = (substitute(guard, known) for guard in access.guards)
    inside = (lt(at, extent) for at, extent in zip(coordinates, shape, strict=True))
    return Elements(
        storage.name, shape, storage.unit, coordinates=coordinates, there=and_(*inside, *limits, *guards),
        threads=ownership.threads,
    )  # fmt: skip
