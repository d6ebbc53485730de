"""Findings about a block's resources: shared memory, registers, threads, and idle parts of an SM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs
import numpy as np

from fireiron.algebra.arch import MAX_CLUSTER, Arch, Feature
from fireiron.algebra.expr import Expr, evaluate, free
from fireiron.algebra.occupancy import Occupancy, occupancy
from fireiron.base.errors import Finding
from fireiron.base.link import Link
from fireiron.base.text import count as counted
from fireiron.base.text import nbytes
from fireiron.check.limits import DEPENDENT, WITHOUT_CLUSTER, first_with, without
from fireiron.estimate.registers import ADDRESSING, least_registers, register_cap, registers_of, roles_of
from fireiron.kernel.analysis.sampling import Site, reads_and_writes, sample, sites, symbols, typical_sizes
from fireiron.kernel.ir.statements import (
    BLOCK,
    THREAD,
    Await,
    Buffer,
    Call,
    Compute,
    FindGroup,
    Kernel,
    Region,
    Role,
    walk,
)
from fireiron.language.levels import GL

FEW_WARPS = 8  # two warps for each scheduler: with fewer, every stall shows
FULL = 0.9  # fraction of the machine's block slots in a last wave from which on no note is made
MOST_BLOCKS = 2**31 - 1  # limit of a grid's first dimension


@attrs.frozen
class Origin:
    """Hold the origin of a buffer.

    Args:
        link: the link that made it.
        path: the link's place in the tree.
        title: title of the region that fills the buffer.
    """

    link: Link | None = None
    path: str = ""
    title: str = ""


def origins(kernel: Kernel, role: Role | None = None) -> dict[str, Origin]:
    """Map each SH and RF buffer, of one role or of all, to the link whose Move or Init fills it first."""
    found: dict[str, Origin] = {}
    for site in sites(kernel.body):
        if role is not None and (site.role is None or site.role.name != role.name):
            continue
        for view, direction in reads_and_writes(site.statement):
            if direction == "write":
                found.setdefault(view.buffer.name, Origin(site.link, site.path, site.title))
    return found


def top(kernel: Kernel) -> Origin:
    """Return the link of the grid's tile, which determines blocks and clusters."""
    region = next((s for s in walk(kernel.body) if isinstance(s, Region)), None)
    return Origin() if region is None else Origin(region.link, region.path, region.title)


def shared_memory(kernel: Kernel, arch: Arch) -> Iterator[Finding]:
    """Find a block that needs more shared memory than the architecture has, at the load that exceeds the limit."""
    limit = arch.shared_per_block
    if kernel.shared_nbytes <= limit:
        return
    made = origins(kernel)
    buffers = sorted((b for b in kernel.buffers if b.memory.name == "SH"), key=lambda b: -b.nbytes)
    passing = [b for b in kernel.buffers if b.memory.name == "SH" and b.offset + b.nbytes > limit]
    origin = made.get(passing[0].name, Origin()) if passing else Origin()
    listed = ", ".join(f"{b.name} {nbytes(b.nbytes)}{_ring(b)}" for b in buffers)
    yield Finding(
        "shared-memory",
        f"a block takes {nbytes(kernel.shared_nbytes)} of shared memory, {arch} gives {nbytes(limit)}: {listed}",
        "error",
        fix=_less_shared(buffers, kernel.shared_nbytes - limit),
        link=origin.link,
        path=origin.path,
    )


def _ring(buffer: Buffer) -> str:
    return f" ({buffer.slots} slots)" if buffer.slots > 1 else ""


def _less_shared(buffers: Iterable[Buffer], excess: int) -> str:
    rings = [b for b in buffers if b.slots > 1]
    each = sum(b.nbytes // b.slots for b in rings)
    stages = max((b.slots for b in rings), default=1)
    if rings and stages - -(-excess // each) >= 1:
        return f"pipeline({stages - -(-excess // each)}) fits; or use smaller tiles"
    return "use smaller tiles or a smaller split, or reuse_buffer() where a buffer is dead"


def registers(kernel: Kernel, arch: Arch, least: int, held: Mapping[str, int] | None = None) -> Iterator[Finding]:
    """Find register tensors that no thread can hold, or that leave too few other registers; roles have own limits.

    Args:
        kernel: the kernel.
        arch: the architecture.
        least: number of registers that tensors need at once.
        held: registers of each tensor, by name; None for the kernel's own.
    """
    cap = register_cap(arch, kernel.threads, kernel.minimum_blocks)
    parts = roles_of(kernel)
    if not parts:
        why = f"{arch} gives at most {cap} to each of {kernel.threads} threads"
        yield from _registers(kernel, least, cap, why, held)
    for role in parts:
        why = f"its role {role.name} has {role.registers}"
        if not role.registers:
            why = f"{arch} gives at most {cap} to each of {kernel.threads} threads"
        yield from _registers(kernel, least_registers(kernel, held, role), role.registers or cap, why, held, role)


def _registers(
    kernel: Kernel, least: int, cap: int, why: str, held: Mapping[str, int] | None, role: Role | None = None
) -> Iterator[Finding]:
    if least + ADDRESSING <= cap:
        return
    made = origins(kernel, role)
    held = {b.name: registers_of(b) for b in kernel.buffers if b.memory.registers} if held is None else held
    names = sorted((name for name in held if role is None or name in made), key=lambda name: -held[name])
    listed = ", ".join(f"{name} {held[name]}" for name in names[:4])
    origin = made.get(names[0], Origin()) if names else Origin()
    fits = least <= cap
    yield Finding(
        "spills-likely" if fits else "registers",
        f"a thread's tensors take {least} registers at once, {why}: {listed or 'none'}"
        + (f"; addresses need about {ADDRESSING} more" if fits else ""),
        "warning" if fits else "error",
        fix="give each thread a smaller tile, or the block more threads"
        if role is None or not role.registers
        else "give each thread a smaller tile, or its role more registers",
        link=origin.link,
        path=origin.path,
    )


def limits(kernel: Kernel, arch: Arch, sizes: Mapping[str, int] | None) -> Iterator[Finding]:
    """Find blocks and grids beyond the architecture's limits, and atoms that it does not have."""
    everything = sites(kernel.body)
    link, path = top(kernel).link, top(kernel).path
    if kernel.threads > arch.threads_per_block:
        yield Finding(
            "too-many-threads",
            f"a block has {kernel.threads} threads, {arch} allows {arch.threads_per_block}",
            fix="use larger tiles a thread, or cap them by to(level, units=n)",
            link=link,
            path=path,
        )
    grid = grid_of(kernel, sizes)
    if grid is not None and grid > MOST_BLOCKS:
        yield Finding(
            "grid",
            f"the grid has {grid} blocks, above {MOST_BLOCKS}",
            fix="use larger tiles a block",
            link=link,
            path=path,
        )
    yield from features(kernel, arch, everything)


def features(kernel: Kernel, arch: Arch, everything: tuple[Site, ...]) -> Iterator[Finding]:
    """Find features that the architecture does not have: clusters, roles with register counts, atoms."""
    sent = {
        s.statement.signal[0].name
        for s in everything
        if isinstance(s.statement, Call) and s.statement.atom.peer and s.statement.signal is not None
    }
    waits = [s for s in walk(kernel.body) if isinstance(s, Await) and not s.wide]
    ring = next((s for s in waits if s.barrier.name not in sent), None)
    wanted: list[tuple[Feature, str, Link | None, str]] = []
    if kernel.cluster > 1:
        sums = next((s for s in everything if isinstance(s.statement, Call) and s.statement.atom.peer), None)
        link, fix = (top(kernel).link, "") if sums is None else (sums.link, WITHOUT_CLUSTER)
        wanted.append(("clusters", "clusters of blocks", link, fix))
        if kernel.cluster > MAX_CLUSTER:
            wanted.append(("wide clusters", f"clusters of {kernel.cluster} blocks", link, ""))
    if kernel.dependent:
        wanted.append(("dependent launches", DEPENDENT, top(kernel).link, ""))
    if ring is not None:
        wanted.append(("counting barriers", "roles that load by bulk copies", ring.link, ""))
        if any(role.registers for role in roles_of(kernel)):
            wanted.append(("register budgets", "register budgets of roles", ring.link, ""))
    for feature, what, link, fix in wanted:
        if not arch.target.has(feature):
            message = f"{what} need {first_with(feature, arch)}, not {arch}"
            yield Finding("arch", message, fix=fix or without(feature), link=link, path=top(kernel).path)
    calls = {s.statement.atom: s for s in everything if isinstance(s.statement, Call)}
    for atom, site in calls.items():
        if missing := atom.missing_on(arch.number):
            yield Finding(
                "arch",
                f"{atom.name} {missing}",
                fix="lower the schedule for this architecture",
                link=site.link,
                path=site.path,
            )


def grid_of(kernel: Kernel, sizes: Mapping[str, int] | None) -> int | None:
    """Return the number of blocks; None where sizes are missing."""
    if any(s.name not in (sizes or {}) for s in symbols(kernel)):
        return None
    return int(evaluate(kernel.grid, dict(sizes or {})))  # pyright: ignore[reportArgumentType]


def idle(kernel: Kernel, sizes: Mapping[str, int] | None) -> Iterator[Finding]:
    """Find threads without a tile."""
    values = typical_sizes(kernel, sizes)
    seen: set[tuple[str, str, str]] = set()
    for site in sites(kernel.body):
        if not site.guards or not isinstance(site.statement, Call) or site.place in seen:
            continue
        if site.statement.map is not None:
            continue  # one thread starts a bulk copy: the others need no part of it
        known = sample(site, kernel, values, site.guards)
        busy, here = known.mask(*site.guards), known.mask()
        # Units that take turns may have no tile in the sampled trips.
        present = np.ones(known.threads, bool) if here is None else here.any(axis=0)
        count = 0 if busy is None else int((present & ~busy.any(axis=0)).sum())
        if count:
            seen.add(site.place)
            yield Finding(
                "idle-threads",
                f"{count} of {known.threads} threads have no tile of {site.title or site.statement.atom.name}",
                "warning" if site.statement.atom.kind == "MatMul" else "note",
                fix="choose a tile whose count is a multiple of the threads, or narrower vectors",
                link=site.link,
                path=site.path,
            )


def low_occupancy(kernel: Kernel, arch: Arch, least: int) -> Iterator[Finding]:
    """Find an SM that holds too few warps to hide their latencies."""
    if roles_of(kernel):
        return  # roles hide latencies by running ahead, not by the number of warps
    found = resident(kernel, arch, least)
    if 0 < found.warps < FEW_WARPS:
        yield Finding(
            "low-occupancy",
            f"an SM of {arch} holds {found.warps} warps ({counted(found.blocks, 'block')} of {kernel.threads} "
            f"threads), {found.fraction:.0%} of what it could: {found.limit} leaves no room for one more block",
            "warning",
            fix=f"use less {found.limit}, or more warps in a block",
        )


def resident(kernel: Kernel, arch: Arch, least: int) -> Occupancy:
    """Return the likely occupancy: with registers for tensors and addresses, limited as launch bounds limit them."""
    likely = min(least + ADDRESSING, register_cap(arch, kernel.threads, kernel.minimum_blocks))
    return occupancy(arch, kernel.threads, likely, kernel.shared_nbytes)


def notes(kernel: Kernel, arch: Arch, least: int, sizes: Mapping[str, int] | None) -> Iterator[Finding]:
    """Note predicated Moves, and a last wave that leaves SMs idle."""
    seen: set[tuple[str, str, str]] = set()
    # Blocks beyond the last group's tiles have no part of it at all.
    passing = {s.groups.found for s in walk(kernel.body) if isinstance(s, FindGroup)}
    for site in sites(kernel.body):
        if _predicated(site, passing) and site.place not in seen:
            seen.add(site.place)
            yield Finding(
                "partial-tiles",
                f"{site.title or 'an access'} is predicated: its tiles do not divide the sizes, or sizes are not known",
                "note",
                fix="use sizes that the tiles divide, or symbol(name, multiple_of=n), to drop the predicates",
                link=site.link,
                path=site.path,
            )
    grid, found = grid_of(kernel, sizes), resident(kernel, arch, least)
    sms = arch.gpu.sms_of_clusters(kernel.cluster)
    if sms < arch.gpu.sms and found.blocks:
        yield Finding(
            "cluster-fit",
            f"clusters of {kernel.cluster} blocks fill at most {sms} of {arch.gpu.sms} SMs of the {arch.gpu.name}: "
            f"{sms // kernel.cluster} clusters, and {arch.gpu.sms - sms} SMs stay idle",
            "note",
            fix="use clusters of 2 blocks, which fill them all",
            link=top(kernel).link,
            path=top(kernel).path,
        )
    slots = found.blocks * sms
    if grid is None or not slots:
        return
    if grid < sms:
        idle_sms = arch.gpu.sms - grid
        yield Finding(
            "waves",
            f"{grid} blocks leave {idle_sms} of {arch.gpu.sms} SMs of the {arch.gpu.name} idle",
            "note",
            fix="use smaller tiles a block, or split K over blocks",
        )
        return
    waves = -(-grid // slots)
    share = grid / (waves * slots)
    if waves > 1 and share < FULL:
        what = f"{grid} blocks are {waves} waves of {slots}"
        last = counted((grid - 1) % slots + 1, "block")
        if kernel.persistent:
            what = f"{slots} persistent blocks take {grid} tiles in {waves} rounds"
            last = counted((grid - 1) % slots + 1, "tile")
        yield Finding(
            "waves",
            f"{what} ({arch.gpu.name}: {sms} SMs, {found.blocks} each), "
            f"the last one {last}: {share:.0%} of the machine is used",
            "note",
            fix="choose tiles whose count comes close to a multiple, from below",
        )


def _cuts(condition: Expr, site: Site, reaches_gl: bool) -> bool:
    """Say whether a condition exists because tiles do not divide a size.

    Such a condition reads the block's index, or a size, or both a loop's variable and a thread's place along a tensor
    in GL. A condition that reads only loop variables ends a pipeline's loads; one of threads and loops that does not
    concern GL describes ownership.
    """
    values = {let.var.name: let.value for let in site.lets}
    loops = {loop.var.name for loop in site.loops}
    found: set[str] = set()
    rest = [leaf.name for leaf in free(condition)]
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            rest += [leaf.name for leaf in free(values[name])] if name in values else []
    if found - loops - {THREAD, *values}:  # the block's place, or a size
        return True
    return reaches_gl and THREAD in found and bool(found & loops)


def _predicated(site: Site, passing: set[Expr]) -> bool:
    statement = site.statement
    if not isinstance(statement, Call | Compute):
        return False
    own = (statement.read, statement.write) if isinstance(statement, Call) else (statement.write,)
    reaches_gl = any(view.buffer.memory == GL for view, _ in reads_and_writes(statement))
    if any(condition is not None and _cuts(condition, site, reaches_gl) for condition in own):
        return True
    outside = {BLOCK, *(let.var.name for let in site.lets if any(x.name == BLOCK for x in free(let.value)))}
    return any(leaf.name in outside for guard in site.guards if guard not in passing for leaf in free(guard))
