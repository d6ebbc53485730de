"""Static traffic: sectors of GL and bank conflicts of SH for each access of a kernel, from its index expressions alone.

Counts have the meaning of the simulator's counters, for an average block; they are exact where the grid and the loops
are small enough to enumerate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Literal

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, as_expr, evaluate
from fireiron.algebra.layout import Layout
from fireiron.base.link import Link
from fireiron.kernel.analysis.sampling import MOST_LANES, Sample, Site, reads_and_writes, sample, sites, typical_sizes
from fireiron.kernel.analysis.traffic import BANKS, SECTOR, WORD, Array, Traffic, sectors, wavefronts
from fireiron.kernel.ir.statements import Call, Compute, Kernel, Micro, View

MOST_NBYTES = 16
MOST_STEPS = 64  # most elements that are evaluated of a view with symbolic strides
FEW_PIECES = 16  # fewest accesses of one view that are evaluated


@attrs.frozen
class AccessRow:
    """Count the accesses of one buffer by one instruction of one spec, for an average block.

    Args:
        title: title of the enclosing region.
        place: the region's key (`Region.place`), the same for copies of the region.
        path: the region's place in the decomposition tree.
        what: the name of the instruction, `compute`, or the name of a microkernel.
        buffer: name of the buffer.
        memory: GL or SH.
        direction: read or write.
        lane_nbytes: bytes that one lane touches at once.
        executions: how often the statement runs.
        nbytes: bytes that threads access.
        requests: warp-wide requests.
        units: number of 32-byte sectors (GL) or of wavefronts (SH).
        ideal: the smallest number of units that could serve the requests.
        link: the chain link that makes the access.
    """

    title: str
    path: str
    what: str
    buffer: str
    memory: Literal["GL", "SH"]
    direction: Literal["read", "write"]
    lane_nbytes: int
    executions: float
    nbytes: float
    requests: float
    units: float
    ideal: float
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    place: tuple[str, str, str] = ("", "", "")

    @property
    def per_request(self) -> float:
        """Return the number of sectors or wavefronts of an average request."""
        return self.units / self.requests if self.requests else 0.0

    @property
    def degree(self) -> float:
        """Return the ratio of units to the ideal: the conflict degree of SH, the overfetch of GL."""
        return self.units / self.ideal if self.ideal else 1.0

    @property
    def conflicts(self) -> float:
        """Return the bank-conflict degree: 1 for none, and for GL."""
        return self.degree if self.memory == "SH" else 1.0

    @property
    def sectors(self) -> float:
        """Return the number of sectors of an average request; 0 for SH."""
        return self.per_request if self.memory == "GL" else 0.0


def accesses(
    kernel: Kernel, sizes: Mapping[str, int] | None = None, keep: Callable[[Site], bool] | None = None
) -> tuple[AccessRow, ...]:
    """Analyse every access to GL and SH, in program order: one row for each instruction of a region and buffer.

    Args:
        kernel: the kernel to analyse.
        sizes: values of the symbols; a symbol without one has its typical value.
        keep: whether a site is analysed; None for all sites.
    """
    values = typical_sizes(kernel, sizes)
    rows: dict[tuple[str, ...], AccessRow] = {}
    for site in sites(kernel.body):
        if keep is not None and not keep(site):
            continue
        for view, direction in reads_and_writes(site.statement):
            if view.buffer.memory.registers:
                continue
            row = _row(site, view, direction, kernel, values)
            if row is None:
                continue
            key = (*row.place, row.what, row.buffer, row.direction)
            rows[key] = _sum(rows[key], row) if key in rows else row
    return tuple(rows.values())


def _row(site: Site, view: View, direction: str, kernel: Kernel, sizes: Mapping[str, int]) -> AccessRow | None:
    conditions = conditions_of(site, direction)
    known = sample(site, kernel, sizes, (view.offset, *conditions))
    if not known.lanes[0]:  # a loop around it has no trips, for example over the partners of a single unit
        return None
    mask = known.mask(*conditions)
    whole = _whole(site, view, sizes)
    if whole is None:
        width, pieces, scale = _pieces(view, sizes, max(FEW_PIECES, MOST_LANES // (known.lanes[0] * known.lanes[1])))
        nbytes, requests, units, ideal = (x * scale for x in _count(view, known, mask, width, pieces))
    else:
        width, executions = whole[0], _executions(known, mask, whole[1])
        nbytes, requests = width * executions, executions
        units = ideal = nbytes / (SECTOR if view.buffer.memory.name == "GL" else BANKS * WORD)
    return AccessRow(
        site.title, site.path, what(site), view.buffer.name, "GL" if view.buffer.memory.name == "GL" else "SH",
        "read" if direction == "read" else "write", width, float(known.weights.sum()), nbytes, requests, units, ideal,
        site.link, site.place,
    )  # fmt: skip


def _whole(site: Site, view: View, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the bytes of a tile that one instruction accesses as a whole, and the threads that execute it together.

    Bytes that other blocks of the cluster send to this block are counted too.
    """
    call = site.statement
    if not isinstance(call, Call):
        return None
    operand = next(o for o, v in zip(call.atom.operands, call.views, strict=True) if v is view)
    if call.map is None and not operand.span:
        return None
    count = int(evaluate(as_expr(view.layout.size), sizes))  # pyright: ignore[reportArgumentType]
    copies = 1 if view.buffer.memory.name == "GL" else call.sent
    return count * view.buffer.dtype.nbytes * copies, call.atom.unit.size or 1


def _executions(known: Sample, mask: Array | None, unit: int) -> float:
    """Return how often the units of a block execute a statement, given the number of threads of a unit."""
    lanes = np.full(known.lanes[0], known.threads) if mask is None else mask.sum(axis=1)
    return float((lanes * known.weights).sum()) / unit


def what(site: Site) -> str:
    """Name the instruction of a site."""
    match site.statement:
        case Call(atom=atom):
            return atom.name
        case Micro(name=name):
            return name
        case Compute():
            return "compute"
        case _:
            return "barrier"


def conditions_of(site: Site, direction: str) -> tuple[Expr, ...]:
    """List the conditions under which a site touches memory in one direction."""
    statement = site.statement
    found: list[Expr | None] = [*site.guards]
    if isinstance(statement, Call | Compute | Micro):
        found.append(statement.write)
    if isinstance(statement, Call) and direction == "read" and statement.atom.kind == "Move":
        found.append(statement.read)
    return tuple(condition for condition in found if condition is not None)


def _steps(layout: Layout, sizes: Mapping[str, int]) -> Array:
    count = int(evaluate(as_expr(layout.size), sizes))  # pyright: ignore[reportArgumentType]
    if layout.is_static:
        return np.broadcast_to(np.asarray(layout(np.arange(count)), np.int64), (count,))
    return np.array([evaluate(as_expr(layout(i)), sizes) for i in range(min(count, MOST_STEPS))], np.int64)


def _pieces(view: View, sizes: Mapping[str, int], most: int) -> tuple[int, Array, float]:
    """Cut a view into hardware accesses: bytes of an access, first elements, and how many accesses each stands for."""
    item = view.buffer.dtype.nbytes
    steps = _steps(view.layout, sizes)
    count = int(evaluate(as_expr(view.layout.size), sizes))  # pyright: ignore[reportArgumentType]
    width, starts = item, steps
    if len(steps) > 1 and bool((steps == np.arange(len(steps))).all()):
        together = gcd(len(steps), max(1, MOST_NBYTES // item))
        starts, width = steps[::together], together * item
    wanted = len(starts) * count / len(steps)
    if len(starts) > most:
        starts = starts[(np.arange(most) * len(starts)) // most]
    return width, starts, wanted / len(starts)


def _count(
    view: View, known: Sample, mask: Array | None, width: int, pieces: Array
) -> tuple[float, float, float, float]:
    first, item = known.of(view.offset), view.buffer.dtype.nbytes
    serve = sectors if view.buffer.memory.name == "GL" else wavefronts
    total = np.zeros(4)
    for weight in np.unique(known.weights[known.weights > 0]):
        rows = known.weights == weight
        part = first[rows]
        address = ((part[None] + pieces[:, None, None]) * item + view.buffer.offset).reshape(-1, known.threads)
        active = None if mask is None else np.tile(mask[rows], (len(pieces), 1))
        found: Traffic = serve(address, active, width)
        total += np.array([found.nbytes, found.requests, found.units, found.ideal]) * weight
    nbytes, requests, units, ideal = (float(x) for x in total)
    return nbytes, requests, units, ideal


def _sum(a: AccessRow, b: AccessRow) -> AccessRow:
    return attrs.evolve(
        a,
        lane_nbytes=max(a.lane_nbytes, b.lane_nbytes),
        executions=a.executions + b.executions,
        nbytes=a.nbytes + b.nbytes,
        requests=a.requests + b.requests,
        units=a.units + b.units,
        ideal=a.ideal + b.ideal,
    )
