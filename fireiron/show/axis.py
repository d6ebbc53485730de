"""A time axis of a drawing, with breaks for stretches of time in which nothing drawn begins or ends."""

from __future__ import annotations

import math
from itertools import pairwise

import attrs

from fireiron.show.schedule_time import Timeline
from fireiron.show.svg import Drawing, width_of

BREAK = 24.0  # width of a break
LONGEST = 0.05  # of the drawn time: longer stretches of left-out iterations are broken
APART = 84.0  # between ticks, at least
TICK = 9.0  # size of their numbers


@attrs.frozen
class Axis:
    """Map time to positions.

    Args:
        left, width: position and width of the drawn time, in pixels.
        total: time of the last event's end.
        breaks: (start, end) of each stretch of time that is not drawn to scale, in order.
    """

    left: float
    width: float
    total: float
    breaks: tuple[tuple[float, float], ...] = ()

    @property
    def scale(self) -> float:
        """Return the pixels per clock or step, outside breaks."""
        hidden = sum(end - start for start, end in self.breaks)
        return (self.width - BREAK * len(self.breaks)) / max(self.total - hidden, 1.0)

    def x(self, time: float) -> float:
        """Return the position of a moment; inside a break, time is compressed evenly."""
        shown, at = time, self.left
        for start, end in self.breaks:
            part = min(max((time - start) / (end - start), 0.0), 1.0)
            shown -= part * (end - start)
            at += part * BREAK
        return at + shown * self.scale

    def ticks(self) -> list[float]:
        """List the times to label on the axis: multiples of 1, 2 or 5 times a power of ten."""
        least = APART / self.scale
        power = 10.0 ** math.floor(math.log10(max(least, 1.0)))
        step = next(power * n for n in (1, 2, 5, 10) if power * n >= least)
        edges = [0.0, *(moment for each in self.breaks for moment in each), self.total]
        ends = zip(edges[::2], edges[1::2], strict=True)
        found = [
            step * n for start, end in ends for n in range(math.ceil(start / step), math.floor(end / step) + 1)
        ]  # fmt: skip
        # Beyond a break a tick may be missing: a stretch that is shorter than a step begins with one.
        for _, end in self.breaks:
            following = [t for t in found if t >= end]
            if not following or self.x(following[0]) - self.x(end) > APART:
                found.append(end)
        return sorted(found)

    def draw(self, drawing: Drawing, y: float, unit: str, bottom: float) -> None:
        """Draw the axis at a height, its unit at the left, and breaks down to the bottom."""
        drawing.line(self.left, y, self.left + self.width, y, "edge")
        drawing.text(self.left - 8, y + 4, unit, "faint", 10, "end")
        free = self.left - 4.0
        for time in self.ticks():
            at, said = self.x(time), f"{time:,.0f}"
            wide = width_of(said, TICK)
            start = max(self.left, min(at - wide / 2, self.left + self.width - wide))
            drawing.line(at, y, at, y + 4, "edge")
            if start > free:
                drawing.text(start, y - 4, said, "faint", TICK)
                free = start + wide + 4
        for start, end in self.breaks:
            left, right = self.x(start), self.x(end)
            drawing.rect(left + 2, y - 2, right - left - 4, bottom - y + 2, "ground")
            for x in (left + 2, right - 2):
                drawing.line(x, y - 2, x, bottom, "orange", dashed=True)


def axis_of(found: Timeline, left: float, width: float) -> Axis:
    """Choose the breaks: the stretches of left-out iterations in which no role begins or ends anything."""
    edges = {0.0, found.total}
    for box in found.boxes:
        edges |= {box.start, box.end}
    edges |= {mark.at for mark in found.barriers}
    edges |= {moment for gap in found.gaps for moment in (gap.at, gap.until)}
    quiet = [
        (start, end)
        for start, end in pairwise(sorted(edges))
        if any(gap.at <= start and end <= gap.until for gap in found.gaps)
    ]
    drawn = found.total - sum(end - start for start, end in quiet)
    breaks: list[tuple[float, float]] = []
    for start, end in quiet:
        if end - start <= LONGEST * drawn:
            continue
        if breaks and start - breaks[-1][1] <= LONGEST * drawn:
            # The first turn of a ring behind a gap finds slots free that the iterations before it would have filled.
            breaks[-1] = (breaks[-1][0], end)
        else:
            breaks.append((start, end))
    return Axis(left, width, found.total, tuple(breaks))
