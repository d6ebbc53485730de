"""Findings: errors, warnings and notes about a kernel on an architecture, found without running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fireiron.algebra.arch import Arch
from fireiron.algebra.expr import as_int
from fireiron.atoms.table import warp_products, wide_products
from fireiron.base.errors import Finding
from fireiron.estimate import resources
from fireiron.estimate.registers import least_registers
from fireiron.kernel.analysis.access import AccessRow
from fireiron.kernel.analysis.sampling import sites, symbols, typical_sizes
from fireiron.kernel.analysis.traffic import SECTOR
from fireiron.kernel.ir.statements import Call, Kernel, Pointer
from fireiron.language.atom import Atom
from fireiron.language.levels import Thread, Warp

CONFLICT = 1.05  # smaller degrees come from the edges of partial tiles
OVERFETCH = 1.25
WIDEST = 16
MAP_UNIT = 16  # unit in bytes of a tensor map's strides


def findings(
    kernel: Kernel, arch: Arch, rows: tuple[AccessRow, ...], sizes: Mapping[str, int] | None = None
) -> tuple[Finding, ...]:
    """Check a kernel against an architecture.

    Args:
        kernel: the kernel.
        arch: the architecture.
        rows: the result of `accesses`.
        sizes: values of the symbols, if they are known.

    Returns:
        Errors (`shared-memory`, `registers`, `too-many-threads`, `grid`, `arch`), then warnings (`bank-conflicts`,
        `uncoalesced`, `idle-threads`, `low-occupancy`, `spills-likely`), then notes (`slower-path`,
        `partial-tiles`, `cluster-fit`, `waves`, `assumed-size`).
    """
    least = least_registers(kernel)
    found = [
        *_of_limits(kernel, arch, least, sizes),
        *traffic(kernel, rows),
        *resources.idle(kernel, sizes),
        *resources.low_occupancy(kernel, arch, least),
        *slower_path(kernel, arch),
        *resources.notes(kernel, arch, least, sizes),
        *assumed(kernel, sizes),
    ]
    return ranked(found)


def errors(kernel: Kernel, arch: Arch) -> tuple[Finding, ...]:
    """List the errors among the findings; accesses, of which only warnings are made, are not measured for them."""
    return tuple(f for f in _of_limits(kernel, arch, least_registers(kernel)) if f.severity == "error")


def _of_limits(kernel: Kernel, arch: Arch, least: int, sizes: Mapping[str, int] | None = None) -> Iterator[Finding]:
    """Compare a kernel with the architecture's limits: all errors, and some warnings."""
    yield from resources.shared_memory(kernel, arch)
    yield from resources.limits(kernel, arch, sizes)
    yield from resources.registers(kernel, arch, least)


def assumed(kernel: Kernel, sizes: Mapping[str, int] | None) -> Iterator[Finding]:
    """Note the sizes that estimates, checks and presets assume."""
    left = [s for s in symbols(kernel) if s.typical is None and s.name not in (sizes or {})]
    if left:
        values = typical_sizes(kernel, sizes)
        these = ", ".join(f"{s.name} = {values[s.name]}" for s in left)
        planned = ", ".join(f"{s.name} = {s.planned}" for s in left)
        yield Finding(
            "assumed-size",
            f"checks and estimates assume {these}, and presets choose tiles for {planned}",
            "note",
            fix=f"make it by symbol({left[0].name!r}, typical=...), with a size that calls have",
            path=resources.top(kernel).path,
        )


def slower_path(kernel: Kernel, arch: Arch) -> Iterator[Finding]:
    """Note a product for which the architecture has faster instructions, and why the schedule cannot use them."""
    for site in sites(kernel.body):
        call = site.statement
        if isinstance(call, Call) and call.atom.kind == "MatMul":
            found = _emulated(call.atom, arch) or _wider(call.atom, kernel, arch) or _tensor_cores(call.atom, arch)
            if found is not None:
                message, fix = found
                yield Finding("slower-path", message, "note", fix=fix, link=site.link, path=site.path)
                return


def _emulated(atom: Atom, arch: Arch) -> tuple[str, str] | None:
    """Find an instruction that the architecture emulates by others."""
    if atom.clocks_on(arch.number) <= atom.clocks:
        return None
    times = atom.clocks_on(arch.number) / atom.clocks
    return (
        f"{arch} emulates {atom.name} by other instructions, about {times:.2g} times slower",
        "use an element type that its tensor cores multiply, such as i8",
    )


def _wider(atom: Atom, kernel: Kernel, arch: Arch) -> tuple[str, str] | None:
    """Find a warp's product of types for which warpgroup instructions are twice as fast."""
    rows = [row for row in wide_products() if not row.missing_on(arch.number)]
    faster = {tuple(o.dtype for o in row.operands): row.family for row in rows}
    family = faster.get(tuple(operand.dtype for operand in atom.operands))
    if family is None or atom.unit != Warp:
        return None
    why = "".join(
        f"; lines of {p.buffer.name} lie {pitch} B apart, and tensor maps take multiples of {MAP_UNIT}"
        for p in kernel.parameters
        if isinstance(p, Pointer) and (pitch := _pitch(p)) is not None and pitch % MAP_UNIT
    )
    return (
        f"{atom.name} multiplies at about half the rate of {family} on {arch}{why}",
        "use hopper.gemm on lines that start at multiples of 16 bytes; 8-bit elements with a prolog also want K "
        "contiguous (layout TN), and so do those of programs (attention.wgmma: values whose keys have stride 1)",
    )


def _tensor_cores(atom: Atom, arch: Arch) -> tuple[str, str] | None:
    """Find a thread's product of types that tensor cores multiply too, in the same type or a shorter one."""
    if atom.unit != Thread:
        return None
    kind = atom.operands[0].dtype
    rows = [row for row in (*wide_products(), *warp_products()) if not row.missing_on(arch.number)]
    taken = [row.operands[0].dtype for row in rows]
    same = [each for each in taken if kind and each and each.numpy_name == kind.numpy_name]
    if not same:
        return None
    if kind in same:
        return (
            f"{atom.name} multiplies on CUDA cores, and {arch} has tensor cores for {kind}",
            "use ampere.gemm, or hopper.gemm",
        )
    return (
        f"{atom.name} multiplies on CUDA cores; tensor cores of {arch} take the same arrays as {same[0]}, rounded to "
        f"{same[0].mantissa} bits of mantissa",
        f'where that is precise enough, write matmul(..., "{same[0]}")',
    )


def ranked(found: list[Finding]) -> tuple[Finding, ...]:
    """Sort findings: errors, warnings, notes."""
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda f: order.index(f.severity)))


def traffic(kernel: Kernel, rows: tuple[AccessRow, ...]) -> Iterator[Finding]:
    """Find bank conflicts, and sectors of which few bytes are used."""
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
        f"{row.what} {verb} {row.buffer} with bank conflicts: each request takes {row.per_request:.3g} wavefronts; "
        f"{row.per_request / row.degree:.3g} would be enough, in {row.title}",
        "warning",
        fix=f"load {row.buffer} with .pad(n) or .swizzle(...), or in the other order by .storage_layout(...)",
        link=row.link,
        path=row.path,
    )


def _uncoalesced(row: AccessRow, pointer: Pointer | None) -> Finding:
    verb = "reads" if row.direction == "read" else "writes"
    message = (
        f"{row.what} {verb} {row.buffer} uncoalesced: each request touches {row.per_request:.3g} sectors; "
        f"{row.per_request / row.degree:.3g} would be enough, in {row.title}"
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
