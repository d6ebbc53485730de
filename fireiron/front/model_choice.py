"""The cost model's choice of a schedule for a product: the candidates that it judges, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.base.errors import UsageError
from fireiron.front.chain import MatMulChain

if TYPE_CHECKING:
    from fireiron.tune.candidates import Candidate, Checked, Preset
    from fireiron.tune.space import Point, Space

SURE = 0.97  # a candidate replaces a default, which was measured once, if its modelled time is below this fraction
FEW_POINTS = 24  # points to try of a preset whose default is not legal
MOST_SHORT = 12  # most points of a shortlist to build, where some are not legal


@attrs.frozen(eq=False)
class Question:
    """Hold a product, a target, and the answers about candidates so far, so that none is computed twice.

    Args:
        spec: the product.
        target: the architecture.
        passed: texts of candidates that spill, or that crash the installed compiler.
        text: the problem and the target as a text, by which choices are stored on disk.
        spaces: by preset, its candidates for the product.
        checked: by candidate, its schedule, errors and time.
        refused: by preset, why it has no legal candidate.
    """

    spec: MatMulChain
    target: str
    passed: Set[str] = frozenset()
    text: str = ""
    spaces: dict[Preset, Space] = attrs.field(factory=lambda: dict[Any, Any]())
    checked: dict[Candidate, Checked] = attrs.field(factory=lambda: dict[Any, Any]())
    refused: dict[Preset, str] = attrs.field(factory=lambda: dict[Any, str]())

    def space(self, preset: Preset) -> Space | None:
        """Return a preset's candidates for the product: all, or the first of its own ranking; None without any."""
        from fireiron.tune.space import space_of

        if preset not in self.spaces and preset not in self.refused:
            declared = space_of(preset.function)
            assert declared is not None
            try:
                self.spaces[preset] = declared.of(self.spec, FEW_POINTS)
            except UsageError as error:
                self.refused[preset] = error.message
        return self.spaces.get(preset)

    def shortlist(self, preset: Preset) -> tuple[Point, ...] | None:
        """List the points that a quick model of tiles finds fastest; any two differ in at least two keywords.

        To the quick model, points that differ in one keyword are often equal. The result is None where the preset gives
        no tiles at all, and () where it gives none for this product.
        """
        from fireiron.algebra.arch import arch
        from fireiron.estimate.tiling import quick_us
        from fireiron.tune.space import space_of

        declared, space = space_of(preset.function), self.space(preset)
        if declared is None or declared.tiling is None or space is None:
            return None
        matmul, bits, target, tiling = self.spec.matmul, self.spec.left.dtype.bits, arch(self.target), declared.tiling
        made = ((tiling(self.spec, p.keywords), p) for p in space.points())
        times = ((quick_us(tiles, matmul, bits, target), p) for tiles, p in made if tiles is not None)
        chosen: list[Point] = []
        for us, found in sorted(times, key=lambda each: each[0]):
            if us == inf or len(chosen) == MOST_SHORT:
                break
            if all(len(set(found.values) ^ set(other.values)) >= 4 for other in chosen):
                chosen.append(found)
        return tuple(chosen)

    def suits(self, preset: Preset) -> bool:
        """Say whether the preset is for the product: its function of tiles, if any, gives the default's."""
        from fireiron.tune.space import space_of

        declared = space_of(preset.function)
        return declared is None or declared.tiling is None or declared.tiling(self.spec, {}) is not None

    def order(self, preset: Preset) -> tuple[Point, ...]:
        """Return the shortlist of a preset that only the quick model ranks, () for other presets."""
        return self.shortlist(preset) or () if judged(preset) == 1 else ()

    def check(self, candidate: Candidate) -> Checked:
        """Build, lower and check a candidate; its time is modelled when it is read."""
        from fireiron.tune.candidates import check

        if candidate not in self.checked:
            self.checked[candidate] = check(candidate, self.spec, self.target)
        return self.checked[candidate]


def judged(preset: Preset) -> int:
    """Return the number of points, first in the quick model's order, that the cost model judges."""
    from fireiron.tune.space import space_of

    declared = space_of(preset.function)
    return 0 if declared is None else declared.judged


def by_architecture(target: str, presets: Iterable[Preset]) -> list[list[Preset]]:
    """Group the presets that a target can run by their architecture, the newest first."""
    from fireiron.algebra.arch import arch as find_arch
    from fireiron.tune.space import space_of

    groups: dict[int, list[Preset]] = {}
    for preset in presets:
        declared = space_of(preset.function)
        since = find_arch(declared.since).number if declared is not None and declared.since else 0
        if since <= find_arch(target).number:
            groups.setdefault(since, []).append(preset)
    return [groups[since] for since in sorted(groups, reverse=True)]


def first_choice(asked: Question, group: Sequence[Preset], looks: int) -> tuple[Checked | None, int]:
    """Find the best candidate of some presets by the cost model.

    There are three kinds of presets. A preset that ranks its points itself is represented by its first legal point. For
    a preset that gives the tiles of its points, the cost model judges the default and the few points that a quick model
    finds fastest; a preset that is declared with the quick model's order is represented by the first of these. A preset
    that gives no tiles for its default is left out for the product. For other presets the cost model starts at the
    best of their defaults, and changes one keyword at a time.

    The search is limited by a number of candidates, not by time: the choice does not depend on how busy the machine is.

    Args:
        asked: the product, the target and the answers so far.
        group: the presets.
        looks: the largest number of candidates to judge, once a legal one is found.

    Returns:
        The best candidate, None where none is legal; and the number of points among which the model chose, 0 for the
        first of a preset's own ranking.
    """
    from fireiron.tune.candidates import Candidate
    from fireiron.tune.space import default_point, point

    seen: dict[Candidate, Checked] = {}
    orders = {preset: asked.order(preset) for preset in group}
    spaces = {
        preset: space
        for preset in group
        if asked.suits(preset)
        and (space := asked.space(preset)) is not None
        and (orders[preset] or judged(preset) != 1)
    }
    settled = {preset for preset, space in spaces.items() if space.ranked}

    def look(preset: Preset, values: Mapping[str, Any]) -> bool:
        candidate = Candidate(preset, point(values))
        if asked.passed and str(candidate) in asked.passed:
            asked.refused.setdefault(preset, f"{candidate} spills registers with the installed compiler")
            return False
        if candidate not in seen and (len(seen) < looks or not leader()):
            seen[candidate] = found = asked.check(candidate)
            if found.failure is not None:
                asked.refused.setdefault(preset, str(found.failure))
        return candidate in seen and seen[candidate].failure is None

    def leader() -> Checked | None:
        legal = [each for each in seen.values() if each.failure is None]
        return legal[0] if len(legal) == 1 else min(legal, key=lambda each: each.modelled_us, default=None)

    def better(best: Checked | None) -> Checked | None:
        """Return the fastest candidate where it is faster than `best` by enough, else None."""
        found = leader()
        if best is None or found is None or found is best:
            return found if best is None else best
        return found if found.modelled_us < SURE * best.modelled_us else best

    for preset, space in spaces.items():
        order = space.points(FEW_POINTS) if space.ranked else orders[preset]
        if any(look(preset, each.keywords) for each in order):
            settled.add(preset)
        elif not space.ranked and judged(preset) > 1:
            look(preset, default_point(preset.function, space).keywords)
    best = leader()
    if not _multiplied_by_warps(asked):  # then no point of a preset for tensor cores has an instruction
        hopeless = {j.candidate.preset for j in seen.values() if j.failure is not None and j.failure.code == "no-atom"}
        spaces = {preset: space for preset, space in spaces.items() if preset not in hopeless}
    for preset in spaces if looks else ():
        legal, short = 0, None if preset in settled else asked.shortlist(preset)
        for each in short or ():
            legal += legal < judged(preset) and look(preset, each.keywords)
        settled |= {preset} if legal else set()
    best = better(best)
    for preset, space in spaces.items() if best is None else ():
        for other in space.points(FEW_POINTS):
            look(preset, other.keywords)
    before, best = None, best or leader()
    while best is not None and best != before and best.candidate.preset not in settled:
        before = best
        for name, values in spaces[best.candidate.preset].axes:
            for value in values:
                look(best.candidate.preset, {**best.candidate.point.keywords, name: value})
            best = better(best) or best
    own = best is not None and (spaces[best.candidate.preset].ranked or judged(best.candidate.preset) == 1)
    return best, 0 if own else sum(j.failure is None for j in seen.values())


def _multiplied_by_warps(asked: Question) -> bool:
    """Say whether the target has an instruction of a warp or a warpgroup that multiplies the product's element type."""
    from fireiron.algebra.arch import arch
    from fireiron.atoms.table import TABLE
    from fireiron.language.levels import Thread

    dtype, number = asked.spec.left.dtype, arch(asked.target).number
    rows = (row for row in TABLE if row.kind == "MatMul" and row.unit != Thread and row.arch <= number)
    return any(operand.role == "A" and operand.dtype == dtype for row in rows for operand in row.operands)
