"""Findings: everything static that is wrong with a kernel on an architecture, slow about it, or worth a note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fireiron.algebra.arch import Arch
from fireiron.algebra.expr import as_int
from fireiron.atoms.table import wide_products
from fireiron.base.errors import Finding
from fireiron.estimate import resources
from fireiron.estimate.registers import least_registers
from fireiron.kernel.analysis.access import AccessRow
from fireiron.kernel.analysis.sampling import sites
from fireiron.kernel.analysis.traffic import SECTOR
from fireiron.kernel.ir.statements import Call, Kernel, Pointer
from fireiron.language.levels import Warp

CONFLICT = 1.05  # a degree below is a partial tile's ragged edge
OVERFETCH = 1.25
WIDEST = 16
MAP_UNIT = 16  # bytes by which tensor maps count strides


def findings(
    kernel: Kernel, arch: Arch, rows: tuple[AccessRow, ...], sizes: Mapping[str, int] | None = None
) -> tuple[Finding, ...]:
    """Check a kernel against an architecture.

    Args:
        kernel: what would run.
        arch: where.
        rows: what `accesses` found.
        sizes: values of the symbols, where they are known.

    Returns:
        Errors (`shared-memory`, `registers`, `too-many-threads`, `grid`, `arch`), then warnings (`bank-conflicts`,
        `uncoalesced`, `idle-threads`, `low-occupancy`, `spills-likely`), then notes (`slower-path`,
        `partial-tiles`, `cluster-fit`, `waves`).
    """
    least = least_registers(kernel)
    found = [
        *resources.shared_memory(kernel, arch),
        *resources.limits(kernel, arch, sizes),
        *resources.registers(kernel, arch, least),
        *traffic(kernel, rows),
        *resources.idle(kernel, sizes),
        *resources.low_occupancy(kernel, arch, least),
        *slower_path(kernel, arch),
        *resources.notes(kernel, arch, least, sizes),
    ]
    return ranked(found)


def slower_path(kernel: Kernel, arch: Arch) -> Iterator[Finding]:
    """Note products of warps where warpgroups would multiply the same types at twice the rate, and what stops them."""
    rows = [row for row in wide_products() if not row.missing_on(arch.number)]
    faster = {tuple(o.dtype for o in row.operands): row.family for row in rows}
    if not faster:
        return
    for site in sites(kernel.body):
        call = site.statement
        if not isinstance(call, Call) or call.atom.kind != "MatMul" or call.atom.unit != Warp:
            continue
        family = faster.get(tuple(operand.dtype for operand in call.atom.operands))
        if family is None:
            continue
        why = "".join(
            f"; lines of {p.buffer.name} lie {pitch} B apart, and tensor maps take multiples of {MAP_UNIT}"
            for p in kernel.parameters
            if isinstance(p, Pointer) and (pitch := _pitch(p)) is not None and pitch % MAP_UNIT
        )
        yield Finding(
            "slower-path",
            f"{call.atom.name} multiplies at about half the rate of {family} on {arch}{why}",
            "note",
            fix="use hopper.gemm on lines that start at multiples of 16 bytes; of elements that are not 16-bit, store "
            "A and B with K contiguous (layout TN)",
            link=site.link,
            path=site.path,
        )
        return


def ranked(found: list[Finding]) -> tuple[Finding, ...]:
    """Sort findings: errors, warnings, notes."""
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda f: order.index(f.severity)))


def traffic(kernel: Kernel, rows: tuple[AccessRow, ...]) -> Iterator[Finding]:
    """Find bank conflicts and sectors fetched in vain."""
    pointers = {p.buffer.name: p for p in kernel.parameters if isinstance(p, Pointer)}
    for row in rows:
        if row.memory == "SH" and row.degree > CONFLICT:
            yield _conflict(row)
        elif row.memory == "GL" and row.degree > OVERFETCH:
            yield _uncoalesced(row, pointers.get(row.buffer))


def _conflict(row: AccessRow) -> Finding:
    verb = "reads" if row.direction == "read" else "writes"
    return Finding(
        "bank-conflicts",
        f"{row.what} {verb} {row.buffer} by {row.per_request:.3g} wavefronts a request, not "
        f"{row.per_request / row.degree:.3g}: bank conflicts of degree {row.degree:.3g} in {row.title}",
        "warning",
        fix=f"load {row.buffer} with .pad(n) or .swizzle(...), or in the other order by .storage_layout(...)",
        link=row.link,
        path=row.path,
    )


def _uncoalesced(row: AccessRow, pointer: Pointer | None) -> Finding:
    verb = "reads" if row.direction == "read" else "writes"
    message = (
        f"{row.what} {verb} {row.buffer} by {row.per_request:.3g} sectors a request, not "
        f"{row.per_request / row.degree:.3g}: {row.degree:.2g} times the bytes that are used, in {row.title}"
    )
    pitch = _pitch(pointer)
    if pitch is not None and pitch % SECTOR:
        message += f"; lines of {row.buffer} are {pitch} B apart, so that they start inside sectors"
    fix = "let neighbouring threads take neighbouring elements: vector() in the tensor's own order"
    if row.direction == "write":
        fix = "store by through_shared(), so that neighbouring threads store neighbouring elements"
    elif row.lane_nbytes < WIDEST:
        fix += ", staged() where the buffer's order differs"
    return Finding("uncoalesced", message, "warning", fix=fix, link=row.link, path=row.path)


def _pitch(pointer: Pointer | None) -> int | None:
    """Give the bytes between two lines of a tensor, None where they are not known."""
    if pointer is None or len(pointer.strides) < 2:
        return None
    stride = as_int(pointer.strides[-2])
    return None if stride is None else stride * pointer.buffer.dtype.nbytes
