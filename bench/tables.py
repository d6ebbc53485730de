"""Tables of results: for the terminal, and as Markdown for pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .ceilings import roof
from .results import Result, by_case, ratio

if TYPE_CHECKING:
    from rich.table import Table

FOOT = (
    "ratio: the peer's median over the subject's; error: norm of the differences from f64 over the result's norm; "
    "share: of the best measured rate of this device"
)
UNTIMED = "nothing was timed: {why}. Schedules were compiled and estimated; a modelled time is no measurement."


def subjects_of(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    """Split names into rows (subjects of this project, else the first peer) and columns (the other peers)."""
    names = list(dict.fromkeys(r.subject for r in results))
    ours = list(dict.fromkeys(r.subject for r in results if r.ours)) or names[:1]
    # The same schedule twice tests the bench: the second is the peer of the first.
    rows = [name for name in ours if "#" not in name]
    return rows, [name for name in names if name not in rows]


def heads(results: Sequence[Result]) -> list[str]:
    """Name the columns."""
    _, peers = subjects_of(results)
    timed = any(r.times for r in results)
    first = ["case", "subject"]
    if not timed:
        return [*first, "modelled us", "registers", "problem"]
    return [*first, "us", "p20", "p80", "rate", "share", "error", *(f"{p} {x}" for p in peers for x in ("us", "ratio"))]


def rows(results: Sequence[Result], device: str) -> list[list[str]]:
    """Write one row for each case and subject."""
    mine, peers = subjects_of(results)
    timed = any(r.times for r in results)
    lines: list[list[str]] = []
    for case, group in by_case(results).items():
        named = {r.subject: r for r in group}
        for name in mine:
            if name not in named:
                continue
            result = named[name]
            line = [str(case), name if not result.detail or result.detail == name else f"{name}: {result.detail}"]
            if not timed:
                modelled = "" if result.modelled_us is None else f"{result.modelled_us:.2f}"
                lines.append([*line, modelled, str(result.registers or ""), result.problem])
                continue
            lines.append([*line, *_cells(result, device)])
            for peer in peers:
                other = named.get(peer)
                over = None if other is None else ratio(result, other)
                us = f"{other.times.median_us:.2f}" if other and other.times else "-"
                lines[-1] += [us, "-" if over is None else f"{over:.3f}"]
    return lines


def _cells(result: Result, device: str) -> list[str]:
    times = result.times
    if times is None:
        return [result.problem.partition(":")[0] or "-", "", "", "", "", _error(result)]
    top = roof(result.case, device)
    memory = top is not None and top.bound == "memory"
    rate = f"{result.gbps:.0f} GB/s" if memory else f"{result.tflops:.1f} TFLOP/s"
    share = "" if top is None else f"{top.us / times.median_us:.2f}"
    return [f"{times.median_us:.2f}", f"{times.p20:.2f}", f"{times.p80:.2f}", rate, share, _error(result)]


def _error(result: Result) -> str:
    return "" if result.errors is None else f"{result.errors.relative:.1e}"


def draw(results: Sequence[Result], title: str, device: str) -> Table:
    """Draw the table with rich."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), box=box.SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(heads(results)):
        table.add_column(head, justify="left" if i < 2 or head == "problem" else "right", overflow="fold")
    for line in rows(results, device):
        table.add_row(*(Text(cell) for cell in line))
    return table


def markdown(results: Sequence[Result], device: str) -> str:
    """Write the table as Markdown."""
    names = heads(results)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows(results, device)]
    return "\n".join(lines)


def programs_markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """Write the table of programs: our time, and each peer's time divided by ours."""
    peers = list(dict.fromkeys(name for line in lines for name in line["times"] if name != "fireiron"))
    names = ["program", "fireiron us", *(f"{peer} ratio" for peer in peers)]
    made = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for line in lines:
        times = line["times"]
        mine = times.get("fireiron")
        cells = [line["problem"] or "-" if mine is None else f"{mine.median_us:.2f}"]
        for peer in peers:
            other = times.get(peer)
            cells.append("-" if mine is None or other is None else f"{other.median_us / mine.median_us:.3f}")
        made.append("| " + " | ".join([line["program"], *cells]) + " |")
    return "\n".join(made)


def ratios(results: Sequence[Result]) -> dict[tuple[str, str], list[float]]:
    """List the ratios of each of our subjects to each peer, over all cases."""
    mine, peers = subjects_of(results)
    found: dict[tuple[str, str], list[float]] = {}
    for group in by_case(results).values():
        named = {r.subject: r for r in group}
        for name in mine:
            for peer in peers:
                if name in named and peer in named and (over := ratio(named[name], named[peer])) is not None:
                    found.setdefault((name, peer), []).append(over)
    return found


def geomean(values: Sequence[float]) -> float:
    """Give the geometric mean.

    Example:
        >>> geomean([0.5, 2.0])
        1.0
    """
    return math.exp(sum(math.log(v) for v in values) / len(values))


def summaries(results: Sequence[Result]) -> list[str]:
    """Return a line for each peer with the distribution of the ratios."""
    return [
        f"{name} against {peer}: geometric mean {geomean(values):.3f} of {len(values)}, "
        f"{min(values):.3f} to {max(values):.3f}, {sum(v >= 1 for v in values)} at least as fast"
        for (name, peer), values in ratios(results).items()
    ]


def problems(results: Sequence[Result]) -> list[str]:
    """List the reasons why cases were not measured, each once."""
    found: dict[tuple[str, str], list[str]] = {}
    for r in results:
        if r.problem:
            found.setdefault((r.subject, r.problem), []).append(str(r.case))
    return [
        f"{subject}: {problem} ({cases[0]}{f' and {len(cases) - 1} more' if len(cases) > 1 else ''})"
        for (subject, problem), cases in found.items()
    ]
