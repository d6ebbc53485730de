"""Draw two schedules side by side: each link with its partner, the changes, and their effect on the kernel."""

from __future__ import annotations

import textwrap

from fireiron.kernel.analysis.access import accesses
from fireiron.language.decompositions import Decomposition, Epilog, Load
from fireiron.show.align import align
from fireiron.show.diff import Diff, diff
from fireiron.show.lowering import Lowers, lowered_of
from fireiron.show.picture import Picture, wrapped
from fireiron.show.scheduled import origin_of
from fireiron.show.svg import Drawing, width_of
from fireiron.show.words import words

COLUMN = 350.0
MIDDLE = 26.0
ROW_H = 20.0
LINE = 14.0  # from a line of a link to the next
SIZE = 11.0
TEXT = 50  # characters of a cell


def compare(first: Lowers, second: Lowers, names: tuple[str, str] = ("before", "after")) -> Picture:
    """Draw two schedules side by side, link by link, and below them the differences of their kernels.

    Removed links are red, added links green, changed links amber. The Move of a load is shown, indented, if it changed.

    Args:
        first, second: the schedules.
        names: names of the schedules in the picture.
    """
    kernels = lowered_of(first), lowered_of(second)
    if kernels[0] is not None and kernels[1] is not None:
        both = (kernels[0], kernels[1])
        found = diff(first, second, kernels=both, rows=(accesses(both[0]), accesses(both[1])))
    else:
        found = diff(first, second)
    drawing = Drawing(f"{names[0]} and {names[1]}")
    for name, spec, x in ((names[0], first, 0.0), (names[1], second, COLUMN + MIDDLE)):
        drawing.text(x, 12, name, bold=True)
        drawing.text(x, 28, str(origin_of(spec)), "faint", SIZE)
    y = _links(drawing, 38.0, first.links, second.links, 0)
    y += 10
    for part in ("spec", "kernel"):
        said = [d for d in found.differences if d.part == part]
        if said:
            drawing.text(0, y + 16, f"the {part}", bold=True, size=SIZE)
            y += 22
        for difference in said:
            drawing.text(12, y + 12, str(difference), "ink", SIZE)
            y += 16
    return Picture(drawing.title, drawing, _words(found, names))


def _links(drawing: Drawing, y: float, a: tuple[Decomposition, ...], b: tuple[Decomposition, ...], depth: int) -> float:
    for old, new in align(a, b):
        fill = "panel" if old == new else "removed" if new is None else "added" if old is None else "changed"
        said = ["" if link is None else words(link) for link in (old, new)]
        folds = max(len(textwrap.wrap(text, TEXT - 3 * depth, subsequent_indent="  ")) for text in said)
        high = ROW_H + LINE * (folds - 1)
        if old is not None and new is not None and old != new and said[0] == said[1]:
            fill = "panel"  # what changed is inside, and follows
        mark = {"panel": "", "removed": "−", "added": "+", "changed": "→"}[fill]
        drawing.text(COLUMN + MIDDLE / 2, y + 14, mark, "note", 12, "middle", bold=True)
        for text, x in zip(said, (0.0, COLUMN + MIDDLE), strict=True):
            indent = 18.0 * depth
            if text:
                drawing.rect(x + indent, y, COLUMN - indent, high - 2, fill, radius=3)
            for i, line in enumerate(textwrap.wrap(text, TEXT - 3 * depth, subsequent_indent="  ")):
                drawing.text(x + indent + 6, y + 13 + LINE * i, line, "ink" if fill != "panel" else "faint", SIZE)
        y += high
        inner = _inner(old), _inner(new)
        if old is not None and new is not None and inner[0] != inner[1]:
            y = _links(drawing, y, *inner, depth + 1)
    drawing.width = max(drawing.width, 2 * COLUMN + MIDDLE + width_of(" "))
    return y


def _inner(link: Decomposition | None) -> tuple[Decomposition, ...]:
    match link:
        case Load():
            return link.move
        case Epilog():
            return link.store
        case _:
            return ()


def _words(found: Diff, names: tuple[str, str]) -> str:
    return wrapped(f"from {names[0]} to {names[1]}:", found.text())
