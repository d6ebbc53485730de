"""The studio: a page of HTML with a schedule's links, CUDA, findings, pictures and the steps of a block.

The page needs no network. All text of a schedule may come from a user, and is escaped: in HTML by `escape`, in the
script's data as JSON without `<`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import attrs

from fireiron.show.picture import Picture
from fireiron.show.svg import Drawing

Range: TypeAlias = tuple[int, int]
Cells: TypeAlias = "list[list[float | None]]"


@attrs.frozen
class LinkRow:
    """Hold the row of one link.

    Args:
        said: the link, in words.
        after: the spec that remains after the link.
        about: what the link changes, becomes and moves, in words.
        lines: (first, last) line of each piece of CUDA that the link made, counted from 1.
    """

    said: str
    after: str
    about: str
    lines: tuple[Range, ...] = ()


@attrs.frozen
class Remark:
    """Hold one finding of a check.

    Args:
        severity: error, warning or note.
        code: code of the finding.
        message: text of the finding.
        fix: advice.
        row: number of the finding's link, -1 for none.
    """

    severity: str
    code: str
    message: str
    fix: str = ""
    row: int = -1


@attrs.frozen
class Tiles:
    """Hold the contents of a tile at the shown moments.

    Args:
        name: name of the buffer.
        title: extents, element type and memory.
        clipped: the part that is not shown, in words; "" if all is.
        copies: names of the shown copies (ring slots or units); one empty name for a single copy.
        owners: for registers, the thread that holds each element, by copy, row and column.
        states: the different contents: numbers by copy, row and column; None for an element that is not written.
    """

    name: str
    title: str
    clipped: str
    copies: tuple[str, ...]
    owners: list[list[list[int]]]
    states: list[list[Cells]]


@attrs.frozen
class Frame:
    """Hold the end of one step of the block.

    Args:
        said: the statement that ended the step, and the trips of its loops, in words.
        did: the statements of the step, in words.
        lines: lines of CUDA of these statements.
        state: for each tile, the number of its contents in `Tiles.states`, -1 for an empty tile.
    """

    said: str
    did: tuple[str, ...]
    lines: tuple[Range, ...]
    state: tuple[int, ...]


@attrs.frozen(eq=False, repr=False)
class Studio:
    """Hold the contents of a page.

    Args:
        title: the kernel's name, or the spec.
        subtitle: the schedule's spec and architecture.
        facts: pairs of a name and a value.
        rows: rows of the links.
        tree: the whole tree as text.
        left: the spec that remains of an unfinished schedule; "" for a finished one.
        source: the CUDA; "" for an unfinished schedule.
        remarks: findings of the check.
        pictures: pairs of a heading and a picture.
        block: number of the block whose steps are shown.
        frames: ends of the block's steps.
        tiles: the tiles' contents.
        why_not: the reason why steps are missing; "" if none are.
    """

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]
    rows: tuple[LinkRow, ...]
    tree: str
    left: str = ""
    source: str = ""
    remarks: tuple[Remark, ...] = ()
    pictures: tuple[tuple[str, Picture], ...] = ()
    block: int = 0
    frames: tuple[Frame, ...] = ()
    tiles: tuple[Tiles, ...] = ()
    why_not: str = ""

    def __repr__(self) -> str:
        return f"<Studio of {self.title}: {len(self.rows)} links, {len(self.frames)} steps>"

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to a file."""
        file = Path(path)
        file.write_text(self.html(), encoding="utf-8")
        return file

    def html(self) -> str:
        """Write the page."""
        sheets = [_sheet(self.pictures, dark) for dark in (0, 1)]
        style = f"{_asset('studio.css')}\n{sheets[0]}\nhtml[data-theme=dark]{{{sheets[1]}}}"
        data = {
            "rows": [row.lines for row in self.rows],
            "frames": [attrs.asdict(frame) for frame in self.frames],
            "tiles": [attrs.asdict(tile) for tile in self.tiles],
        }
        parts = [self._head(), "<main>", self._links(), self._cuda(), self._remarks(), self._steps(), "</main>"]
        title = escape(self.title)
        return (
            '<!doctype html>\n<html lang="en" data-theme="light">\n<head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            # Nothing is fetched, and nothing but this page's own script runs.
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "script-src 'unsafe-inline'; img-src data:\">"
            f"<title>{title} · fireiron studio</title>\n<style>\n{style}\n</style></head>\n<body>\n"
            + "\n".join([*parts, self._pictures()])
            + f'\n<script type="application/json" id="data">{_json(data)}</script>\n'
            f"<script>\n{_asset('studio.js')}\n</script>\n</body></html>\n"
        )

    def _head(self) -> str:
        facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in self.facts)
        return (
            f'<header><div class="top"><h1>{escape(self.title)}</h1>'
            '<button id="theme" type="button" title="light or dark">◐</button></div>'
            f"<p>{escape(self.subtitle)}</p><dl>{facts}</dl></header>"
        )

    def _links(self) -> str:
        rows = "".join(
            f'<li tabindex="0" data-row="{i}"><code class="link">{escape(row.said)}</code>'
            f'<span class="after">→ {escape(row.after)}</span><p>{escape(row.about)}</p></li>'
            for i, row in enumerate(self.rows)
        )
        rest = f'<p class="left">Left to do: {escape(self.left)}</p>' if self.left else ""
        return (
            f'<section id="links"><h2>Links</h2><ol>{rows}</ol>{rest}'
            f"<details><summary>The whole tree</summary><pre>{escape(self.tree)}</pre></details></section>"
        )

    def _cuda(self) -> str:
        if not self.source:
            return '<section id="cuda"><h2>CUDA</h2><p>An unfinished schedule has none.</p></section>'
        lines = "".join(
            f'<li id="l{i}" data-line="{i}"><code>{escape(line) or " "}</code></li>'
            for i, line in enumerate(self.source.rstrip("\n").split("\n"), start=1)
        )
        return f'<section id="cuda"><h2>CUDA</h2><ol>{lines}</ol></section>'

    def _remarks(self) -> str:
        found = "".join(
            f'<li tabindex="0" class="{escape(one.severity)}" data-of="{one.row}"><b>{escape(one.severity)}: '
            f"{escape(one.code)}</b> {escape(one.message)}"
            + (f"<p>fix: {escape(one.fix)}</p>" if one.fix else "")
            + "</li>"
            for one in self.remarks
        )
        return f'<section id="findings"><h2>Findings</h2><ul>{found or "<li>None.</li>"}</ul></section>'

    def _steps(self) -> str:
        note = f"<p>{escape(self.why_not)}</p>" if self.why_not else ""
        if not self.frames:
            return f'<section id="steps"><h2>Steps</h2>{note}</section>'
        names = "".join(
            f'<button type="button" role="tab" data-tile="{i}" aria-selected="false">{escape(tile.name)}</button>'
            for i, tile in enumerate(self.tiles)
        )
        last = len(self.frames) - 1
        held = (
            f'<div role="tablist" id="tabs">{names}</div><div class="held"><p id="tile"></p>'
            '<select id="copy" aria-label="copy"></select><div id="grid"></div><p id="cell"></p></div>'
        )
        none = "<p>No tile to show: this kernel keeps none in shared memory or registers.</p>"
        return (
            f'<section id="steps"><h2>Steps of block {self.block}</h2>{note}<div class="slide">'
            '<button id="back" type="button" aria-label="step back">◀</button>'
            f'<input id="slider" type="range" min="0" max="{last}" value="0" aria-label="step">'
            '<button id="on" type="button" aria-label="step on">▶</button><output id="at" for="slider"></output></div>'
            f'<p id="said"></p><ul id="did"></ul>{held if self.tiles else none}</section>'
        )

    def _pictures(self) -> str:
        drawn = "".join(
            f"<details{' open' if i == 0 else ''}><summary>{escape(name)}</summary>"
            f"<figure>{picture.svg('page')}</figure></details>"
            for i, (name, picture) in enumerate(self.pictures)
        )
        return f'<section id="pictures"><h2>Pictures</h2>{drawn}</section>'


def _sheet(pictures: Sequence[tuple[str, Picture]], dark: int) -> str:
    """Write the style rules of all pictures, each rule once."""
    used = {name for _, picture in pictures for name in picture.drawing.used}
    return Drawing("", used=used).sheet(dark)


def _json(data: object) -> str:
    """Write data as JSON that cannot end the script around it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    """Read a file in the folder of this module."""
    return files("fireiron.show").joinpath(name).read_text(encoding="utf-8").strip("\n")
