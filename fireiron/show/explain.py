"""Explanations: for each link of a schedule, its change of the spec, its effect, its bytes, and its lines of CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import attrs

from fireiron.base.text import count
from fireiron.kernel.ir.statements import Kernel, Region, walk
from fireiron.kernel.lower.kernel import Passed
from fireiron.kernel.passes.edges import unordered
from fireiron.language.decompositions import Done, Epilog, Load, Split, Tile
from fireiron.show import lowered, page
from fireiron.show.emits import change, emits, loops
from fireiron.show.page import LINK, NOTEBOOK_WIDTH, SPEC, WIDTH
from fireiron.show.passes import Change, changes, verdict
from fireiron.show.scheduled import Scheduled, origin_of
from fireiron.show.steps import Step, left, steps
from fireiron.show.traffic import Traffic, traffic
from fireiron.show.words import words

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

Range = tuple[int, int]


_CELL = "text-align:left;vertical-align:top;padding:4px 10px;border-bottom:1px solid rgba(128,128,128,.35);"
_LINK = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;color:rgb({}, {}, {})".format(
    *page.COLOURS[LINK]
)


@attrs.frozen
class Explained:
    """Explain one link.

    Args:
        link: the link in words.
        before, after: the specs before and after the link.
        change: the differences of these specs.
        emits: what the link becomes in the kernel.
        traffic: the bytes that the link moves, None for a link that moves none.
        lines: (first, last) line of each piece of CUDA that the link made, counted from 1.
    """

    link: str
    before: str
    after: str
    change: str
    emits: str
    traffic: Traffic | None = None
    lines: tuple[Range, ...] = ()

    @property
    def sentences(self) -> str:
        """Describe what the link becomes, and what it moves."""
        moved = "" if self.traffic is None else f". {_moves(self.traffic)}"
        return f"{self.emits}{moved}"

    @property
    def where(self) -> str:
        """Write the numbers of the lines."""
        return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in self.lines)


@attrs.frozen
class Explanation:
    """Explain a schedule, with a row for each link; it prints as a table.

    Args:
        origin: the spec that the schedule starts from.
        rows: explanations of its links, outermost first.
        left: the spec that remains of an unfinished schedule; "" for a finished one.
        passes: the changes of each pass over the kernel's statements, if requested.
        edges: result of checking the order of the finished kernel's accesses; "" if passes were not requested.
    """

    origin: str
    rows: tuple[Explained, ...]
    left: str = ""
    passes: tuple[Change, ...] = ()
    edges: str = ""

    @property
    def told(self) -> str:
        """Write the passes, one below the other."""
        return "\n".join([*map(str, self.passes), *([self.edges] if self.edges else [])])

    def table(self) -> Table:
        """Return the explanation as a table of rich."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=box.HORIZONTALS,
            show_lines=True,
            expand=True,
            title=Text(self.origin, SPEC),
            title_justify="left",
            padding=(0, 1, 0, 0),
        )
        table.add_column("link", ratio=22, overflow="fold")
        table.add_column("changes", ratio=17, overflow="fold")
        table.add_column("becomes", ratio=34, overflow="fold")
        table.add_column("CUDA lines", width=10, overflow="fold")
        for row in self.rows:
            table.add_row(Text(row.link, LINK), Text(row.change), Text(row.sentences), Text(row.where))
        if self.left:
            table.caption = Text(f"… left to do: {self.left}")
            table.caption_justify = "left"
        return table

    def text(self, width: int = WIDTH) -> str:
        """Print as plain text."""
        table = page.plain(self.table(), width)
        return f"{table}\n{self.told}\n" if self.told else table

    def __repr__(self) -> str:
        return f"<Explanation of {self.origin}, {count(len(self.rows), 'link')}>"

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield self.table()
        if self.told:
            yield Text(self.told)

    def html(self) -> str:
        """Write a table in HTML, in colours that are legible in light and dark themes."""
        heads = ("link", "changes", "becomes", "CUDA lines")
        top = "".join(f'<th style="{_CELL}">{head}</th>' for head in heads)
        rows = "".join(
            "<tr>"
            + "".join(
                f'<td style="{_CELL}{more}">{escape(text)}</td>'
                for text, more in ((row.link, _LINK), (row.change, ""), (row.sentences, ""), (row.where, ""))
            )
            + "</tr>"
            for row in self.rows
        )
        rest = f"<p>… left to do: {escape(self.left)}</p>" if self.left else ""
        rest += f"<pre>{escape(self.told)}</pre>" if self.told else ""
        return (
            f'<table style="border-collapse:collapse;max-width:70em"><caption style="text-align:left;font-weight:bold">'
            f"{escape(self.origin)}</caption><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>{rest}"
        )

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text(NOTEBOOK_WIDTH), "text/html": self.html()}


def explain(
    schedule: Scheduled, kernel: Kernel | None = None, source: str = "", passed: Sequence[Passed] = ()
) -> Explanation:
    """Explain each link of a schedule, and each pass over its kernel.

    Args:
        schedule: a schedule, finished or not.
        kernel: the lowered schedule; None leaves out facts that need lowering.
        source: the printed CUDA of this kernel; without it there are no lines.
        passed: the kernel after each pass.
    """
    chain = steps(schedule)
    lines = _lines(chain, kernel, source) if kernel is not None and source else ((),) * len(chain)
    rows = tuple(
        Explained(
            words(step.link),
            str(step.before),
            str(step.after),
            change(step),
            emits(step, kernel),
            traffic(chain, i),
            lines[i],
        )
        for i, step in enumerate(chain)
    )
    rest = left(schedule)
    edges = unordered(kernel) if passed and kernel is not None else ()
    told = changes(passed, kernel, edges)
    return Explanation(
        str(origin_of(schedule)), rows, "" if rest.closed else str(rest), told, verdict(edges) if passed else ""
    )


def _lines(chain: tuple[Step, ...], kernel: Kernel, source: str) -> tuple[tuple[Range, ...], ...]:
    """Find the lines of each link: those of its regions, loops or instruction."""
    printed = lowered.lines(kernel, source)
    looped = loops(chain, kernel)
    found: list[tuple[Range, ...]] = []
    for step, mine in zip(chain, looped, strict=True):
        match step.link:
            case Tile() | Split() if mine:
                made = mine[:1]
            case Tile() | Load() | Epilog() | Split():
                made = _outermost(lowered.of_step(kernel, step))
            case Done():
                last = lowered.compute(kernel)
                made = () if last is None else (last,)
            case _:
                made = ()
        ranges = (printed.of(statement) for statement in made)
        found.append(_joined(tuple(r for r in ranges if r is not None)))
    return tuple(found)


def _outermost(regions: tuple[Region, ...]) -> tuple[Region, ...]:
    inner = {r.id for region in regions for r in walk(region.body) if isinstance(r, Region)}
    return tuple(region for region in regions if region.id not in inner)


def _joined(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Merge ranges of lines with nothing but empty lines between them."""
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 2:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _moves(moved: Traffic) -> str:
    if moved.reads is None:
        return f"Moves {moved}"
    times = f"{float(moved.reads):g} times" if moved.reads != 1 else "once"
    return f"Moves {moved}; each element is then read {times}"
