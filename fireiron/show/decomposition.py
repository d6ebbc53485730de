"""The decomposition tree as a picture: specs below each other, each arrow a link, Moves beside the loads they fill."""

from __future__ import annotations

import textwrap

import attrs

from fireiron.kernel.ir.statements import Kernel
from fireiron.language.decompositions import Done, Split
from fireiron.language.levels import Memory
from fireiron.language.residual import Residual
from fireiron.show import tree as lines
from fireiron.show.lowering import Lowers, lowered_of
from fireiron.show.picture import Picture
from fireiron.show.steps import Nested, Step, left, nested, steps
from fireiron.show.svg import Drawing, width_of

BOX_H = 24.0
LINK_H = 30.0  # from a box to the next
SIDE = 410.0  # where the Moves stand, further right where a box is wider
GAP = 30.0
INDENT = 24.0  # of a Move inside another
PAD = 8.0
ACROSS = 50  # characters of a link, left of the Moves

_MEMORIES = {"GL": "h3", "SH": "h11", "RF": "h21", "FR": "h25"}


def decomposition(schedule: Lowers) -> Picture:
    """Draw a schedule, finished or not, as specs and the links between them.

    A box is a spec: what is left to do, where its operands lie (a chip each), and who does it. The arrow out of it is
    the link that decomposes it. Right of a load stands the Move that fills its buffer.
    """
    kernel = lowered_of(schedule)
    chain = steps(schedule)
    widest = max(_wide(spec) for spec in (schedule.origin, *(step.after for step in chain)))
    page = _Page(Drawing(f"decomposition of {schedule.origin}"), kernel, max(SIDE, widest + GAP))
    y = 5.0
    for said in () if kernel is None else (lines.summary(kernel), lines.parted(kernel)):
        if said:
            page.drawing.text(0, y + 6, said, "faint", 11)
            y += 15
    y = page.box(0, y, schedule.origin)
    y = page.chain(y, chain)
    rest = left(schedule)
    if not rest.closed:
        page.drawing.text(12, y + 16, f"… left to do: {rest}", "note")
    return Picture(f"decomposition of {schedule.origin}", page.drawing, lines.text(schedule, kernel=kernel).rstrip())


@attrs.define
class _Page:
    """Place boxes from top to bottom."""

    drawing: Drawing
    kernel: Kernel | None
    beside: float  # where the Moves stand

    def chain(self, y: float, chain: tuple[Step, ...]) -> float:
        """Draw the main chain below a box whose lower edge is at `y`, Moves to its right; give the last lower edge."""
        side = 0.0
        for step in chain:
            folded = textwrap.wrap(lines.closing(step, self.kernel, None), ACROSS)
            label = y + 19
            for i, said in enumerate(folded):
                self.drawing.text(26, label + 15 * i, said, "atom" if isinstance(step.link, Done) else "link")
            if isinstance(step.link, Done):
                self.drawing.line(14, y, 14, label - 9, "edge")
                self.drawing.dot(14, label - 4, 4.5, "math", "edge")
                y = label + 6
                continue
            lower = y + LINK_H + 15 * (len(folded) - 1)
            inner = nested(step)
            if isinstance(step.link, Split) and step.link.level is not None:
                side = max(side, y + 4)
                self.drawing.text(self.beside, side + 14, lines.reduction(step, step.link, self.kernel), "memory", 11)
                side += 26
            if inner is not None:
                side = max(side, y + 4)
                bend = self.beside - 18
                self.drawing.path([(30 + width_of(folded[0]), label - 4), (bend, label - 4), (bend, side + 12)], "hair")
                self.drawing.line(bend, side + 12, self.beside - 4, side + 12, "hair")
                side = self.move(self.beside, side, step, inner) + 12
            self.drawing.arrow(14, y, lower)
            y = self.box(0, lower, step.after)
        return y

    def move(self, x: float, y: float, step: Step, inner: Nested) -> float:
        """Draw the Move of a load or of a store as its spec and a line a link; give the lower edge."""
        y = self.box(x, y, inner.origin)
        self.drawing.text(x + 14, y + 13, lines.held(step, self.kernel), "memory", 11)
        y += 15
        for link in inner.steps:
            done = isinstance(link.link, Done)
            self.drawing.text(
                x + 14, y + 13, lines.closing(link, self.kernel, (inner, step)), "atom" if done else "link", 11
            )
            y += 15
            deeper = nested(link)
            if deeper is not None:
                y = self.move(x + INDENT, y + 4, link, deeper) + 4
        return y

    def box(self, x: float, y: float, spec: Residual) -> float:
        """Draw a spec, and give its lower edge."""
        name = spec.short
        chips = [(o.role, o.memory) for o in spec.operands]
        level = str(spec.level)
        chip_w = [_chip_wide(role, memory) for role, memory in chips]
        self.drawing.rect(x, y, _wide(spec), BOX_H, "spec", "edge", 4)
        self.drawing.text(x + PAD, y + 16, name, bold=True)
        at = x + PAD + width_of(name) + 12
        for (role, memory), w in zip(chips, chip_w, strict=True):
            self.drawing.rect(at, y + 5, w, BOX_H - 10, _MEMORIES.get(memory.name, "panel"), "hair", 3)
            self.drawing.text(at + w / 2, y + 15.5, _chip(role, memory), size=10, anchor="middle")
            at += w + 4
        self.drawing.text(at + 8, y + 16, level, "faint", 11)
        return y + BOX_H


def _wide(spec: Residual) -> float:
    """Give the width of a spec's box."""
    chips = [_chip_wide(o.role, o.memory) + 4 for o in spec.operands]
    return PAD + width_of(spec.short) + 12 + sum(chips) + 8 + width_of(str(spec.level), 11) + PAD


def _chip_wide(role: str, memory: Memory) -> float:
    return width_of(_chip(role, memory), 10) + 10


def _chip(role: str, memory: Memory) -> str:
    return f"{role} {memory}"
