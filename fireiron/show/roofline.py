"""Rooflines: operations per second over operations per byte of DRAM traffic, modelled and measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from fireiron.algebra.arch import Arch, arch
from fireiron.base.errors import UsageError
from fireiron.kernel.ir.statements import Call, Kernel, walk
from fireiron.show.lowering import lowered_of
from fireiron.show.picture import Picture, wrapped
from fireiron.show.svg import Drawing, width_of
from fireiron.show.whole import Estimated

WIDTH, HEIGHT = 560.0, 300.0
LEFT, TOP = 62.0, 60.0


class Timed(Protocol):
    """A measured time."""

    @property
    def tflops(self) -> float:
        """Return operations over the median time, in 1e12 per second."""
        ...


@attrs.frozen
class Roof:
    """Hold one roof: the peak rate of an instruction on a GPU.

    Args:
        name: name of the roof.
        tflops: 1e12 operations per second.
    """

    name: str
    tflops: float


@attrs.frozen
class Point:
    """Hold the point of one kernel.

    Args:
        name: name of the kernel.
        intensity: operations per byte of DRAM traffic.
        tflops: 1e12 operations per second.
        kind: whether the point is modelled, measured, or another library's.
    """

    name: str
    intensity: float
    tflops: float
    kind: str


_MARKS: Mapping[str, tuple[str, str]] = {
    "modelled": ("ground", "blue"),
    "measured": ("h12", "green"),
    "peer": ("h3", "orange"),
}


def roofline(
    *schedules: Estimated,
    on: str | int | None = None,
    measured: Mapping[str, Timed | float] | None = None,
    peers: Mapping[str, float] | None = None,
    **sizes: int,
) -> Picture:
    """Draw kernels as points below a GPU's peak rates of memory and instructions.

    Hollow points are modelled, filled points measured. The horizontal axis is operations per byte of DRAM traffic, as
    the model counts them. A kernel without operations is drawn at the lower left.

    Args:
        schedules: finished schedules, each of which is estimated.
        on: the architecture; where None, the schedule's or the GPU's.
        measured: by name of a schedule (`schedule.name`), your measurement: a Timing or TFLOP/s.
        peers: by name of another library, its TFLOP/s for the first schedule's problem.
        sizes: values of symbols.

    Raises:
        UsageError: `unfinished`.
    """
    points: list[Point] = []
    roofs: dict[str, Roof] = {}
    gpu = arch("sm_90a").gpu
    for schedule in schedules:
        kernel = lowered_of(schedule)
        if kernel is None:
            raise UsageError("unfinished", "a roofline needs finished schedules", fix="close the chain by .done()")
        found = schedule.estimate(on, **sizes)
        target = arch(found.arch)
        gpu = target.gpu
        for roof in roofs_of(kernel, target):
            roofs[roof.name] = roof
        name, intensity = schedule.name, found.flops / max(found.dram_nbytes, 1.0)
        points.append(Point(name, intensity, found.tflops, "modelled"))
        given = (measured or {}).get(name)
        if given is not None:
            points.append(Point(name, intensity, given if isinstance(given, int | float) else given.tflops, "measured"))
    points += [Point(name, points[0].intensity, rate, "peer") for name, rate in (peers or {}).items() if points]
    drawing = Drawing(f"roofline of {gpu.name}")
    drawing.text(0, 12, f"roofline of one {gpu.name}: {gpu.dram_gbps:g} GB/s of DRAM", bold=True)
    drawing.text(0, 28, "hollow: modelled; filled: measured. Roofs are peak rates at the boost clock.", "faint", 11)
    tops = tuple(roofs.values())
    _axes(drawing, points, tops, gpu.dram_gbps)
    words = [f"one {gpu.name}: {gpu.dram_gbps:g} GB/s of DRAM; roofs at its boost clock"]
    words += [f"  roof {roof.name}: {roof.tflops:.1f} TFLOP/s" for roof in tops]
    words += [
        f"  {p.kind} {p.name}: {p.tflops:.4g} TFLOP/s at {p.intensity:.4g} operations a byte"
        f" ({_share(p, tops, gpu.dram_gbps):.0%} of its roof)"
        for p in points
    ]
    return Picture(drawing.title, drawing, wrapped(*words))


def roofs_of(kernel: Kernel, target: Arch) -> tuple[Roof, ...]:
    """Return the peak rate of each multiplying instruction of a kernel, on the GPU that represents a target."""
    gpu = target.gpu
    found: dict[str, Roof] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, Call) and statement.atom.kind == "MatMul":
            atom = statement.atom
            # Issue clocks are those of one warp's instruction on a sub-partition.
            warps = 32 / (atom.unit.size or 32)
            each = 2.0 * math.prod(atom.shape) * warps / atom.clocks_on(target.number)
            rate = each * target.partitions * gpu.sms * gpu.clock_mhz * 1e-6
            if atom.lanes == "fp32":
                rate = min(rate, gpu.fp32_tflops)
            found[atom.name] = Roof(atom.name, rate)
    return tuple(found.values())


def _share(point: Point, roofs: tuple[Roof, ...], gbps: float) -> float:
    top = max((roof.tflops for roof in roofs), default=point.tflops)
    return point.tflops / (min(top, point.intensity * gbps * 1e-3) or 1.0)


def _axes(drawing: Drawing, points: list[Point], roofs: tuple[Roof, ...], gbps: float) -> None:
    top = max((*(roof.tflops for roof in roofs), *(p.tflops for p in points), 1.0))
    ridge = top / (gbps * 1e-3)
    wide = [p.intensity for p in points] + [ridge]
    x0, x1 = (_decade(min(wide) / 4), _decade(max(wide) * 4, up=True))
    y1 = _round(top * 1.3, up=True)
    least = max(min((p.tflops for p in points), default=1.0), 1e-6)
    y0 = min(y1 / 20, _round(least / 2))

    def x(value: float) -> float:
        return LEFT + WIDTH * (math.log10(max(value, x0)) - math.log10(x0)) / (math.log10(x1) - math.log10(x0))

    def y(value: float) -> float:
        return TOP + HEIGHT * (math.log10(y1) - math.log10(max(value, y0))) / (math.log10(y1) - math.log10(y0))

    drawing.rect(LEFT, TOP, WIDTH, HEIGHT, "panel")
    for exponent in range(round(math.log10(x0)), round(math.log10(x1)) + 1):
        drawing.line(x(10.0**exponent), TOP, x(10.0**exponent), TOP + HEIGHT, "hair")
        drawing.text(x(10.0**exponent), TOP + HEIGHT + 14, f"{10.0**exponent:g}", "faint", 10, "middle")
    for value in _ticks(y0, y1):
        drawing.line(LEFT, y(value), LEFT + WIDTH, y(value), "hair")
        drawing.text(LEFT - 6, y(value) + 4, f"{value:g}", "faint", 10, "end")
    drawing.text(LEFT + WIDTH / 2, TOP + HEIGHT + 30, "operations for each byte of DRAM traffic", "faint", 10, "middle")
    drawing.text(LEFT - 6, TOP - 12, "TFLOP/s", "faint", 10, "end")
    for roof in roofs:
        bend = max(x0, min(x1, roof.tflops / (gbps * 1e-3)))
        low = max(x0, y0 / (gbps * 1e-3))
        drawing.path([(x(low), y(low * gbps * 1e-3)), (x(bend), y(roof.tflops)), (x(x1), y(roof.tflops))], "strong")
    for height in dict.fromkeys(round(roof.tflops) for roof in roofs):
        first, *others = [roof.name for roof in roofs if round(roof.tflops) == height]
        named = first + (f" and {len(others)} more" if others else "")
        drawing.text(LEFT + WIDTH - 4, y(height) - 5, f"{named}: {height}", "faint", 10, "end")
    slope = max(x0, y0 / (gbps * 1e-3)) * 1.6
    drawing.text(x(slope) + 8, y(slope * gbps * 1e-3) + 6, f"DRAM: {gbps:g} GB/s", "faint", 10)
    _points(drawing, points, x, y)


def _points(drawing: Drawing, points: list[Point], x: Callable[[float], float], y: Callable[[float], float]) -> None:
    """Draw the points, with lines to their names in a column on the right."""
    at = TOP + 8
    for point in sorted(points, key=lambda p: -p.tflops):
        fill, stroke = _MARKS[point.kind]
        label_y = max(at, min(y(point.tflops), TOP + HEIGHT - 4))
        edge = LEFT + WIDTH + 14
        drawing.path([(x(point.intensity), y(point.tflops)), (edge, label_y), (edge + 6, label_y)], "hair")
        drawing.dot(x(point.intensity), y(point.tflops), 5, fill, stroke, tip=f"{point.kind} {point.name}")
        name = point.name if len(point.name) <= 34 else f"{point.name[:33]}…"
        drawing.text(edge + 10, label_y + 4, name, size=10)
        drawing.text(edge + 10, label_y + 17, f"{point.kind} {point.tflops:.4g} TFLOP/s", "faint", 10)
        at = label_y + 32
    drawing.width = max(drawing.width, LEFT + WIDTH + width_of("x" * 30, 10))


def _round(value: float, up: bool = False) -> float:
    """Round up or down to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [power * n for n in (1, 2, 5, 10)]
    return next(n for n in steps if n >= value * 0.999) if up else next(n for n in steps[::-1] if n <= value * 1.001)


def _ticks(low: float, high: float) -> list[float]:
    """List the labels of the axis: 1, 2 and 5 times powers of ten, or only powers of ten if there are many."""
    powers = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    few = high / low <= 1000
    ticks = [power * n for power in powers for n in ((1, 2, 5) if few else (1,))]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def _decade(value: float, up: bool = False) -> float:
    exponent = math.log10(max(value, 1e-6))
    return 10.0 ** (math.ceil(exponent) if up else math.floor(exponent))
