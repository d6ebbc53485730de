"""Limits that a chain can break before it is finished: threads of a block, shared memory of an architecture."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.arch import ARCHS, MAX_CLUSTER, MAX_THREADS, Arch, Feature
from fireiron.algebra.arch import arch as find_arch
from fireiron.base.errors import DecompositionError
from fireiron.base.text import nbytes as human
from fireiron.language.decompositions import ByCluster, Decomposition, Load, Specialised, Split, Tile, Widest
from fireiron.language.levels import SH, Block, Cluster
from fireiron.language.residual import Residual
from fireiron.language.specs import Spec

DEPENDENT = "launches that begin while the one before ends"
WITHOUT_CLUSTER = "drop reduce=by_cluster(): the sums then meet in a workspace"


def features_fit(link: Decomposition, arch: str) -> None:
    """Raise an error for links that need a feature which an architecture does not have.

    Raises:
        DecompositionError: `arch`.
    """
    target = find_arch(arch).target
    fix = ""
    needed: list[tuple[Feature, str]] = []
    match link:
        case Tile(level=level):
            if level is not None and level.name == Cluster.name:
                needed.append(("clusters", "clusters of blocks"))
            if link.dependent:
                needed.append(("dependent launches", DEPENDENT))
        case Split(reduce=ByCluster()):
            needed.append(("clusters", "clusters of blocks"))
            fix = WITHOUT_CLUSTER
            if link.ways is not None and link.ways > MAX_CLUSTER and target.has("clusters"):
                needed[:] = [("wide clusters", f"clusters of {link.ways} blocks")]
                fix = ""
        case Split(specialised=Specialised(registers=registers)):
            needed.append(("counting barriers", "roles that load by bulk copies"))
            if registers:
                needed.append(("register budgets", "register budgets of roles"))
        case _:
            return
    for feature, what in needed:
        if not target.has(feature):
            raise DecompositionError(
                "arch", f"{what} need {first_with(feature, target)}, not {arch}", fix=fix or without(feature)
            )


def first_with(feature: Feature, arch: Arch) -> str:
    """Return the name of the target with a feature: of the same number where there is one, else the first."""
    found = [row for row in ARCHS if row.has(feature)]
    return next((row.name for row in found if row.number == arch.number), found[0].name)


def without(feature: Feature) -> str:
    """Return the fix of an error for a feature that a target does not have."""
    return {
        "clusters": "drop the tile to Cluster: tile to Block first",
        "wide clusters": f"use clusters of at most {MAX_CLUSTER} blocks",
        "dependent launches": "drop dependent()",
        "register budgets": "drop registers=, or compile for that target: its suffix a is what adds them",
    }.get(feature, "drop specialize(), and load by cp_async() in a pipeline")


def threads_fit(link: Tile, before: Residual, after: Residual) -> None:
    """Raise an error for tiles that need more threads than a block may have.

    Raises:
        DecompositionError: `too-many-threads`.
    """
    level = link.level
    if level is None or level.size is None or before.level.name != Block.name or isinstance(link.sizes, Widest):
        return
    units = 1
    for dim, _ in link.sizes:
        whole, tile = before.extents[dim], after.extents[dim]
        if not isinstance(whole, int) or not isinstance(tile, int):
            return
        units *= -(-whole // tile)
    units = units if link.units is None else min(units, link.units)
    if units * level.size > MAX_THREADS:
        raise DecompositionError(
            "too-many-threads",
            f"{units} tiles for a {level} each are {units * level.size} threads a block, above {MAX_THREADS}",
            fix=f"use larger tiles, or cap the units by to({level}, units={MAX_THREADS // level.size})",
        )


def shared_fits(spec: Spec, links: Sequence[Decomposition], before: Sequence[Residual], arch: str) -> None:
    """Raise an error for loads whose buffers do not fit into shared memory together.

    The loops of several products use the same memory in turn, so each loop is compared with the limit separately.

    Args:
        spec: the schedule's spec.
        links: the links so far.
        before: the residual spec before each link.
        arch: the architecture.

    Raises:
        DecompositionError: `shared-memory`.
    """
    if not spec.phases:
        return _buffers_fit(links, before, arch)
    pairs = list(zip(links, before, strict=True))
    for phase in spec.phases:
        names = {t.name for a, b, _ in phase for t in (a, b)}
        kept = [(x, r) for x, r in pairs if not isinstance(x, Load) or _loaded(x, r) in names]
        _buffers_fit([x for x, _ in kept], [r for _, r in kept], arch)


def _loaded(link: Load, before: Residual) -> str:
    operand = before.operand(link.role)
    assert operand is not None
    return operand.tensor.name


def _buffers_fit(links: Sequence[Decomposition], specs: Sequence[Residual], arch: str) -> None:
    """Raise an error for loads whose buffers do not fit into shared memory together.

    Pads and overlays are checked later, for the whole schedule.

    Args:
        links: the links so far.
        specs: the residual spec before each link.
        arch: the architecture.

    Raises:
        DecompositionError: `shared-memory`.
    """
    limit = find_arch(arch).shared_per_block
    slots, total = 1, 0
    buffers: list[tuple[str, int, int]] = []
    deep, ringed = 1, 0
    for link, before in zip(links, specs, strict=True):
        if isinstance(link, Split):
            slots = link.stages
        elif not isinstance(link, Load):
            slots = 1
        elif link.memory == SH and not link.reuse:
            operand = before.operand(link.role)
            if operand is None:  # a step's result, which the whole schedule's check counts
                continue
            count = slots
            for dim in operand.dims:
                extent = before.extents[dim]
                count *= extent if isinstance(extent, int) else 1
            size = (link.dtype or operand.dtype).nbytes_of(count)
            total += size
            deep, ringed = (slots, ringed + size) if slots > 1 else (deep, ringed)
            buffers.append((link.role, size, slots))
    if total > limit:
        fits = (limit - total + ringed) * deep // max(1, ringed)
        if deep > 1 and all(n == deep for _, _, n in buffers):
            words = f"{deep} slots of " + " and ".join(f"{role} {human(size // n)}" for role, size, n in buffers)
        else:
            words = "the buffers of " + " and ".join(f"{role} {human(size)}" for role, size, _ in buffers)
        raise DecompositionError(
            "shared-memory",
            f"{words} need {human(total)} of shared memory, and a block of {arch} has {human(limit)}",
            fix=f"use pipeline({fits}), smaller tiles or shorter chunks"
            if deep > 1 and fits > 1
            else "use smaller tiles, shorter chunks or fewer stages",
        )
