"""Dependent launches of a plan: a kernel begins while the kernel before it ends, and waits for its results."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.arch import arch as target
from fireiron.base.errors import FireironError
from fireiron.base.records import evolve
from fireiron.front.fallback import relinked
from fireiron.front.verbs import Schedule
from fireiron.graph.kept_schedule import KeptSchedule
from fireiron.graph.plan import Launch
from fireiron.language.decompositions import Tile


def begun_early(launches: Sequence[Launch], arch: str) -> tuple[Launch, ...]:
    """Make each launch dependent whose predecessor is a kernel; launches after a library's operations do not change.

    Args:
        launches: the launches, in order.
        arch: the target; before sm_90, launches do not change.
    """
    if not target(arch).has("dependent launches"):
        return tuple(launches)
    known: dict[Schedule | KeptSchedule, Schedule | KeptSchedule] = {}
    made: list[Launch] = []
    behind = False
    for launch in launches:
        if launch.kernel is not None and behind:
            source = launch.kernel.source
            if source not in known:
                kept = source.early if isinstance(source, KeptSchedule) else None
                known[source] = dependent(launch.kernel.schedule) if kept is None else kept
            launch = evolve(launch, kernel=evolve(launch.kernel, source=known[source]))
        behind = behind if launch.once else launch.kernel is not None
        made.append(launch)
    return tuple(made)


def dependent(schedule: Schedule) -> Schedule:
    """Return the schedule with a dependent launch, or the schedule itself where it cannot have one."""
    for place, link in enumerate(schedule.links):
        if isinstance(link, Tile) and link.level is not None:
            links = (*schedule.links[:place], evolve(link, dependent=True), *schedule.links[place + 1 :])
            early = relinked(schedule, links, dependent)
            try:
                early.lowered()
            except FireironError:
                return schedule
            return early
    return schedule
