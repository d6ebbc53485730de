"""The decomposition tree as a picture: specs from top to bottom, an arrow for each link, Moves beside their loads."""

from __future__ import annotations

import textwrap

import attrs

from fireiron.kernel.ir.statements import Kernel
from fireiron.language.decompositions import Done, EachStep, Epilog, Load, Split
from fireiron.language.levels import Memory
from fireiron.language.residual import Residual
from fireiron.show import tree as lines
from fireiron.show.lowering import Lowers, lowered_of
from fireiron.show.picture import Picture
from fireiron.show.scheduled import origin_of
from fireiron.show.steps import Nested, Step, layers, left, nested, steps, stores
from fireiron.show.svg import Drawing, width_of

BOX_H = 24.0
LINK_H = 30.0  # from a box to the next
SIDE = 410.0  # where the Moves stand, further right where a box is wider
GAP = 30.0
INDENT = 24.0  # of a Move inside another
PAD = 8.0
LANE = 8.0  # between two lines that lead from links to what stands beside them
LANES = 6
ACROSS = 50  # characters of a link, left of the Moves

_MEMORIES = {"GL": "h3", "SH": "h11", "RF": "h21", "FR": "h25"}


def decomposition(schedule: Lowers) -> Picture:
    """Draw a schedule, finished or not, as specs and the links between them.

    A box is a spec: its sizes, a chip for the memory of each operand, and the level that executes it. The arrow below a
    box is the link that decomposes the spec. To the right of a load is the Move that fills its buffer, to the right of
    an epilog the Moves that store its results, and to the right of `each` the chains of layers or steps; a line
    connects each to its link.
    """
    kernel = lowered_of(schedule)
    chain = steps(schedule)
    widest = max(_wide(spec) for spec in (origin_of(schedule), *(step.after for step in chain)))
    lanes = sum(len(beside(step, kernel)) for step in chain)
    drawing = Drawing(f"decomposition of {origin_of(schedule)}")
    page = _Page(drawing, kernel, max(SIDE, widest + GAP) + LANE * min(lanes, LANES))
    y = 5.0
    for said in () if kernel is None else (lines.summary(kernel), lines.parted(kernel)):
        if said:
            page.drawing.text(0, y + 6, said, "faint", 11)
            y += 15
    y = page.box(0, y, origin_of(schedule))
    y = page.chain(y, chain)
    rest = left(schedule)
    if not rest.closed:
        page.drawing.text(12, y + 16, f"… left to do: {rest}", "note")
    return Picture(
        f"decomposition of {origin_of(schedule)}", page.drawing, lines.text(schedule, kernel=kernel).rstrip()
    )


@attrs.frozen
class Beside:
    """Hold a chain that is drawn beside a link.

    Args:
        chain: a spec with the steps that execute it.
        said: text below the spec: the buffer that it fills, or its name.
        move: whether the chain is a Move, whose instructions can be found.
    """

    chain: Nested
    said: str
    move: bool


def beside(step: Step, kernel: Kernel | None) -> list[Beside]:
    """List the chains beside a link: its Move, the stores of its results, the chains of its layers or steps."""
    found: list[Beside] = []
    inner = layers(step)
    for layer in inner if isinstance(step.link, EachStep) else inner[:1]:
        name = layer.path.rpartition(" > ")[2]
        found.append(Beside(layer, f"step {name}" if isinstance(step.link, EachStep) else "the first layer", False))
    found += [Beside(store, f"store {name}", True) for name, store in stores(step)]
    moved = nested(step)
    if moved is not None:
        held = isinstance(step.link, Load | Epilog)
        found.append(Beside(moved, lines.held(step, kernel) if held else "store of the last layer", True))
    return found


@attrs.define
class _Page:
    """Place boxes from top to bottom."""

    drawing: Drawing
    kernel: Kernel | None
    beside: float  # where the Moves stand

    def chain(self, y: float, chain: tuple[Step, ...]) -> float:
        """Draw the main chain below `y`, with Moves to its right; return the lower edge of the last box."""
        side, lane = 0.0, 0
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
            if isinstance(step.link, Split) and step.link.level is not None:
                side = max(side, y + 4)
                self.drawing.text(self.beside, side + 14, lines.reduction(step, step.link, self.kernel), "memory", 11)
                side += 26
            for i, each in enumerate(beside(step, self.kernel)):
                # A later line bends further left: it crosses none that still leads down to an earlier Move.
                lane = 0 if side <= y + 4 else lane + 1
                side = max(side, y + 4)
                bend, start = self.beside - 18 - LANE * (lane % LANES), label - 4 + 3 * i
                self.drawing.path([(30 + width_of(folded[0]), start), (bend, start), (bend, side + 12)], "edge")
                self.drawing.path([(bend, side + 12), (self.beside - 2, side + 12)], "edge")
                tip = self.beside - 2
                self.drawing.path([(tip - 5, side + 8.5), (tip, side + 12), (tip - 5, side + 15.5)], "edge")
                side = self.move(self.beside, side, step, each) + 12
            self.drawing.arrow(14, y, lower)
            y = self.box(0, lower, step.after)
        return y

    def move(self, x: float, y: float, step: Step, found: Beside) -> float:
        """Draw a chain beside a link: its spec, and a line for each link; return the lower edge."""
        inner = found.chain
        y = self.box(x, y, inner.origin)
        self.drawing.text(x + 14, y + 13, found.said, "memory", 11)
        y += 15
        for link in inner.steps:
            done = isinstance(link.link, Done)
            said = lines.closing(link, self.kernel, (inner, step) if found.move else None)
            for i, line in enumerate(textwrap.wrap(said, ACROSS)):
                self.drawing.text(x + 14 + 8 * bool(i), y + 13, line, "atom" if done else "link", 11)
                y += 15
            for deeper in beside(link, self.kernel):
                y = self.move(x + INDENT, y + 4, link, deeper) + 4
        return y

    def box(self, x: float, y: float, spec: Residual) -> float:
        """Draw a spec's box, and return its lower edge."""
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
    """Return the width of a spec's box."""
    chips = [_chip_wide(o.role, o.memory) + 4 for o in spec.operands]
    return PAD + width_of(spec.short) + 12 + sum(chips) + 8 + width_of(str(spec.level), 11) + PAD


def _chip_wide(role: str, memory: Memory) -> float:
    return width_of(_chip(role, memory), 10) + 10


def _chip(role: str, memory: Memory) -> str:
    """Write an operand and its memory; one with computed subscripts as the program writes the read."""
    name, _, subscripts = role.partition(" ")
    return f"{name}[{subscripts}] {memory}" if "," in subscripts else f"{role} {memory}"
