"""Plots as SVG: the distribution of ratios over the cases, and a roofline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from fireiron.base.errors import UsageError

from .ceilings import CEILINGS
from .results import Result
from .tables import geomean, ratios, subjects_of

WIDTH, HEIGHT, MARGIN = 720, 300, 56
COLOURS = ("#1b6ca8", "#c8553d", "#588b3b", "#8d5a97", "#b8860b", "#4d4d4d")


def write(path: str, results: Sequence[Result], title: str, device: str) -> None:
    """Write the plots of some results into one SVG.

    Raises:
        UsageError: `cannot-write`, `not-svg`.
    """
    if not path.endswith(".svg"):
        raise UsageError(
            "not-svg", f"plots are written as SVG, and {path} does not end in .svg", fix="name a file that ends in .svg"
        )
    try:
        Path(path).write_text(svg(results, title, device), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            "cannot-write", f"{path} cannot be written: {error.strerror}", fix="name another file"
        ) from None


def svg(results: Sequence[Result], title: str, device: str) -> str:
    """Draw ratios if peers were timed, and a roofline if ceilings are known."""
    parts = [_ratios(results), _roofline(results, device)]
    drawn = [part for part in parts if part]
    height = 36 + (HEIGHT + 24) * max(1, len(drawn))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"',
        'font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(WIDTH / 2, 20, title, "middle", 13),
    ]
    for i, part in enumerate(drawn):
        lines += [f'<g transform="translate(0 {36 + i * (HEIGHT + 24)})">', *part, "</g>"]
    if not drawn:
        lines.append(_text(WIDTH / 2, 80, "nothing was timed", "middle"))
    return "\n".join([*lines, "</svg>\n"])


def _ratios(results: Sequence[Result]) -> list[str]:
    """Draw the ratios to each peer, sorted, over the share of cases."""
    found = ratios(results)
    if not found:
        return []
    values = [v for each in found.values() for v in each]
    low, high = min(0.8, *values), max(1.2, *values)
    frame = _Frame(0.0, 1.0, low, high)
    lines = frame.axes("cases, sorted", "ratio: peer's time / ours")
    lines.append(frame.line([(0, 1), (1, 1)], "#999999", dashed=True))
    lines += [_text(MARGIN - 6, frame.y(v) + 4, f"{v:.2f}", "end") for v in _steps(low, high)]
    for i, ((mine, peer), each) in enumerate(found.items()):
        ordered = sorted(each)
        last = max(1, len(ordered) - 1)
        colour = COLOURS[i % len(COLOURS)]
        points = [(j / last, v) for j, v in enumerate(ordered)]
        lines.append(frame.line(points, colour))
        lines += [frame.dot(x, v, colour) for x, v in points]
        label = f"{mine} against {peer}: geometric mean {geomean(ordered):.3f} of {len(ordered)}"
        lines.append(_text(MARGIN + 10, 16 + 15 * i, label, "start", colour=colour))
    return lines


def _roofline(results: Sequence[Result], device: str) -> list[str]:
    """Draw rates over operations per byte, below the best measured rates."""
    ceiling = CEILINGS.get(device)
    timed = [r for r in results if r.times]
    if ceiling is None or not timed:
        return []
    tops = dict(ceiling.tflops)
    intensities = [r.case.flops / r.case.nbytes for r in timed]
    kinds = [kind for kind in dict.fromkeys(r.case.types[0].name for r in timed) if kind in tops]
    rates = [r.tflops for r in timed] + [tops[kind] for kind in kinds]
    left, right = math.log10(min(intensities) / 2), math.log10(max(intensities) * 2)
    frame = _Frame(left, right, math.log10(min(rates) / 2), math.log10(max(rates) * 1.5))
    lines = frame.axes("operations a byte, logarithmic", "TFLOP/s, logarithmic")
    for kind in kinds:
        corner = math.log10(tops[kind] * 1e3 / ceiling.gbps)
        slope = [(x, x + math.log10(ceiling.gbps * 1e-3)) for x in (left, min(corner, right))]
        points = [*slope, (right, math.log10(tops[kind]))] if corner < right else slope
        lines.append(frame.line(points, "#999999"))
        lines.append(_text(WIDTH - MARGIN, frame.y(math.log10(tops[kind])) - 4, f"{kind} {tops[kind]:g}", "end"))
    ours, peers = subjects_of(results)
    for i, name in enumerate([*ours, *peers]):
        colour = COLOURS[i % len(COLOURS)]
        lines += [
            frame.dot(math.log10(r.case.flops / r.case.nbytes), math.log10(r.tflops), colour)
            for r in timed
            if r.subject == name
        ]
        lines.append(_text(MARGIN + 10, 16 + 15 * i, name, "start", colour=colour))
    return lines


class _Frame:
    """Map values to the plot's rectangle."""

    def __init__(self, left: float, right: float, low: float, high: float) -> None:
        self.left, self.right, self.low, self.high = left, max(right, left + 1e-9), low, max(high, low + 1e-9)

    def x(self, value: float) -> float:
        return MARGIN + (value - self.left) / (self.right - self.left) * (WIDTH - 2 * MARGIN)

    def y(self, value: float) -> float:
        return HEIGHT - 30 - (value - self.low) / (self.high - self.low) * (HEIGHT - 40)

    def axes(self, below: str, beside: str) -> list[str]:
        corner = (
            f'<rect x="{MARGIN}" y="10" width="{WIDTH - 2 * MARGIN}" height="{HEIGHT - 40}" fill="none" stroke="#444"/>'
        )
        side = f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(beside)}</text>'
        return [corner, _text(WIDTH / 2, HEIGHT - 8, below, "middle"), side]

    def line(self, points: Sequence[tuple[float, float]], colour: str, dashed: bool = False) -> str:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.2"{dash}/>'

    def dot(self, x: float, y: float, colour: str) -> str:
        return f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.2" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, size: int = 11, colour: str = "#222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
    )


def _steps(low: float, high: float) -> list[float]:
    step = next(s for s in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 1e9) if (high - low) / s <= 8)
    return [i * step for i in range(math.ceil(low / step), int(high / step) + 1)]
