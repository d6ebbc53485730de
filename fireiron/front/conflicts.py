"""Advice against bank conflicts: tries swizzles, pads and orders of a buffer's load, and names the best."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from fireiron.algebra.swizzle import Swizzle
from fireiron.base.errors import Finding, FireironError
from fireiron.base.records import evolve
from fireiron.check import links as rules
from fireiron.estimate.findings import CONFLICT
from fireiron.estimate.resources import origins
from fireiron.kernel.analysis.access import accesses
from fireiron.kernel.ir.statements import Kernel
from fireiron.language.decompositions import Decomposition, Load
from fireiron.language.levels import SH
from fireiron.language.residual import Residual, apply
from fireiron.language.tensor import ColMajor, RowMajor
from fireiron.show.scheduled import origin_of, trail_of

if TYPE_CHECKING:
    from fireiron.front.verbs import Schedule

VECTOR_NBYTES, WORD_NBYTES = 16, 4
WORTH = 0.8  # a refinement is advised if it leaves at most this fraction of the wavefronts


def advised(schedule: Schedule, found: tuple[Finding, ...], arch: str | int | None) -> tuple[Finding, ...]:
    """Add to the fixes of bank conflicts a refinement that was tried and removes them.

    Args:
        schedule: the finished schedule.
        found: findings of `facts`.
        arch: the target.

    Example:
        >>> from fireiron import matmul
        >>> from fireiron.schedules import simt
        >>> listing = simt.listing2(matmul(256, 256, 64))
        >>> [finding.fix for finding in listing.check("sm_90") if finding.code == "bank-conflicts"]
        ['load A to SH with .storage_layout(ColMajor).pad(4): tried, and no bank conflict of a_sh is left']
    """
    if not schedule.residual.closed or not any(finding.code == "bank-conflicts" for finding in found):
        return found
    kernel = schedule.lowered(arch)
    made = origins(kernel)
    tried: dict[str, str | None] = {}
    changed: list[Finding] = []
    for finding in found:
        buffer = _buffer(finding, kernel) if finding.code == "bank-conflicts" else None
        link = made[buffer].link if buffer in made else None
        places = [i for i, each in enumerate(schedule.links) if link is not None and each.link is link]
        if buffer is None or len(places) != 1:
            changed.append(finding)
            continue
        if buffer not in tried:
            tried[buffer] = _clean(schedule, places[0], buffer, kernel, arch)
        fix = tried[buffer]
        changed.append(finding if fix is None else attrs.evolve(finding, fix=fix))
    return tuple(changed)


def _buffer(finding: Finding, kernel: Kernel) -> str | None:
    """Name the buffer of shared memory that a finding is about."""
    words = finding.message.split()
    return next((b.name for b in kernel.buffers if b.memory == SH and b.name in words), None)


def _clean(schedule: Schedule, place: int, buffer: str, kernel: Kernel, arch: str | int | None) -> str | None:
    """Write the refinement of a load that removes its buffer's bank conflicts; None where no refinement does."""
    load = schedule.links[place]
    if not isinstance(load, Load) or load.memory != SH:
        return None
    rows = [row for row in accesses(kernel) if row.buffer == buffer]
    spent = sum(row.units for row in rows)
    best: tuple[float, str] | None = None
    for words, changes in _candidates(load, next(b.dtype.nbytes for b in kernel.buffers if b.name == buffer)):
        refined = attrs.evolve(load, **changes)
        try:
            rules.swizzle(trail_of(schedule)[place - 1] if place else origin_of(schedule), refined)
            other = _replayed(schedule, place, refined)
            now = [row for row in accesses(other.lowered(arch)) if row.buffer == buffer]
        except FireironError:
            continue
        left = sum(row.units for row in now)
        clean = all(row.degree <= CONFLICT for row in now)
        told = f"no bank conflict of {buffer} is left" if clean else f"its wavefronts fall to {left / spent:.0%}"
        fix = f"load {load.role} to {load.memory} with {words}: tried, and {told}"
        if clean and left < spent:
            return fix
        if left < WORTH * spent and (best is None or left < best[0]):
            best = left, fix
    return None if best is None else best[1]


def _candidates(load: Load, element: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield refinements of a load to try: swizzles first, which take no memory, then pads, then other orders."""
    swizzles: list[tuple[str, dict[str, object]]] = [
        (f".swizzle(Swizzle({bits}, {base}, {shift}))", {"swizzle": Swizzle(bits, base, shift), "pad": 0})
        for base in dict.fromkeys(max(n // element, 1).bit_length() - 1 for n in (VECTOR_NBYTES, WORD_NBYTES))
        for shift in (3, 4)
        for bits in (3, 2, 1)
    ]
    pads: list[tuple[str, dict[str, object]]] = [
        (f".pad({nbytes // element})", {"pad": nbytes // element, "swizzle": None})
        for nbytes in (VECTOR_NBYTES, WORD_NBYTES, 2 * WORD_NBYTES)
        if nbytes >= element
    ]
    yield from (*swizzles, *pads)
    if load.storage is None:
        for order in (ColMajor, RowMajor):
            yield f".storage_layout({order})", {"storage": order}
            for words, changes in pads:
                yield f".storage_layout({order}){words}", {**changes, "storage": order}


def _replayed(schedule: Schedule, place: int, load: Decomposition) -> Schedule:
    """Return the schedule with one link replaced."""
    links = (*schedule.links[:place], load, *schedule.links[place + 1 :])
    trail: list[Residual] = []
    for link in links:
        trail.append(apply(link, trail[-1] if trail else origin_of(schedule)))
    return evolve(schedule, links=links, _trail=tuple(trail))
