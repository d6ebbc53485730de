"""What pictures ask of a schedule: its links, and the kernel that it lowers to."""

from __future__ import annotations

from typing import Protocol

from fireiron.kernel.ir.statements import Kernel
from fireiron.show.scheduled import Scheduled, origin_of, path_of, trail_of


class Lowers(Scheduled, Protocol):
    """Hold a schedule that can be lowered once it is finished."""

    def lowered(self, arch: str | int | None = None) -> Kernel:
        """Lower the schedule to kernel IR."""
        ...


def lowered_of(schedule: Lowers) -> Kernel | None:
    """Give the kernel of a finished schedule, None of an unfinished one or of a Move inside another chain."""
    last = trail_of(schedule)[-1] if trail_of(schedule) else origin_of(schedule)
    return schedule.lowered() if last.closed and not path_of(schedule) else None
