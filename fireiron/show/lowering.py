"""The lowered kernel of a schedule, for pictures."""

from __future__ import annotations

from typing import Protocol

from fireiron.kernel.ir.statements import Kernel
from fireiron.show.scheduled import Scheduled, origin_of, path_of, trail_of


class Lowers(Scheduled, Protocol):
    """A schedule that can be lowered when it is finished."""

    def lowered(self, arch: str | int | None = None) -> Kernel:
        """Lower the schedule to kernel IR."""
        ...


def lowered_of(schedule: Lowers) -> Kernel | None:
    """Return the kernel of a finished schedule; None for an unfinished one and for a nested Move."""
    last = trail_of(schedule)[-1] if trail_of(schedule) else origin_of(schedule)
    return schedule.lowered() if last.closed and not path_of(schedule) else None
