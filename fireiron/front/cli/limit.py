"""Refuse a simulation that would take too long, and name a shape that would not."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.expr import as_expr, evaluate
from fireiron.base.errors import FireironError, UsageError
from fireiron.base.text import by
from fireiron.front.cli.options import Request
from fireiron.front.cli.problem import Extent
from fireiron.front.host import LIMIT_S, duration
from fireiron.front.verbs import Schedule
from fireiron.kernel.ir.statements import Kernel, Pointer
from fireiron.language.specs import MatMul
from fireiron.simulate import cost

DRAWN_PER_S = 3e7  # random elements
GRANULE = 64
STEPS = 9


def refuse_long(
    request: Request, schedule: Schedule, kernel: Kernel, sizes: Mapping[str, int], blocks: int | None, arch: str | None
) -> float:
    """Predict a simulation's time in seconds, and refuse one above the limit.

    Raises:
        UsageError: `long-simulation`; its fix names the largest shape and number of blocks below the limit.
    """
    data = sum(int(evaluate(p.buffer.size, sizes)) for p in kernel.parameters if isinstance(p, Pointer)) / DRAWN_PER_S
    seconds = cost(kernel, sizes, blocks) + data
    if seconds <= LIMIT_S:
        return seconds
    one = cost(kernel, sizes, 1)
    most = int((LIMIT_S - data) / one) * kernel.cluster if data < LIMIT_S else 0
    advice: list[str] = []
    shape = largest_shape(request, schedule, sizes, arch)
    if shape:
        advice.append(f"--shape {shape} is the largest of this form that fits")
    if most:
        advice.append(f"--blocks {most} simulates as many blocks of this one")
    grid = evaluate(kernel.grid, sizes)
    what = f"{grid} blocks" if blocks is None else f"{min(blocks, int(grid))} of {grid} blocks"
    raise UsageError(
        "long-simulation",
        f"simulating {what} takes about {duration(seconds)}, and the limit is {LIMIT_S:.0f} s",
        fix="; ".join(advice) or "simulate a smaller problem",
    )


def largest_shape(request: Request, schedule: Schedule, sizes: Mapping[str, int], arch: str | None) -> str:
    """Return the largest shape of the same proportions below the limit; "" where the spec stands in a user's file."""
    if not request.target.takes_spec:
        return ""
    problem = request.problem.over(request.target.default)
    assert problem.shape is not None
    extents = tuple(sizes[n] if isinstance(n, str) else n for n in problem.shape)
    low, high, best = 0.0, 1.0, ""
    for _ in range(STEPS):
        middle = (low + high) / 2
        scaled = tuple(_scaled(n, middle) for n in extents)
        seconds = _seconds(request, problem.shape, scaled, sizes, arch)
        if seconds <= LIMIT_S:
            low, best = middle, by(scaled)
        else:
            high = middle
    return best


def _seconds(
    request: Request, shape: tuple[Extent, ...], scaled: tuple[int, ...], sizes: Mapping[str, int], arch: str | None
) -> float:
    """Predict the seconds for another shape; infinity where the schedule refuses the shape."""
    numbers = tuple(name if isinstance(name, str) else n for name, n in zip(shape, scaled, strict=True))
    named = {name: n for name, n in zip(shape, scaled, strict=True) if isinstance(name, str)}
    other = attrs.evolve(request, problem=attrs.evolve(request.problem, shape=numbers))
    try:
        return cost(other.build().lowered(arch), {**sizes, **named})
    except FireironError:
        return float("inf")


def _scaled(extent: int, by: float) -> int:
    """Scale an extent, and round it to a multiple that tiles usually divide."""
    return extent if extent <= GRANULE else max(GRANULE, int(extent * by) // GRANULE * GRANULE)


def default_sizes(
    request: Request, schedule: Schedule, names: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """Give each symbol a value: the given one, else that of the default shape, rounded up to the symbol's multiple.

    Args:
        request: the request, whose target has the default shape.
        schedule: the schedule.
        names: the symbols, each with the number that its value must be a multiple of.
        given: values from the command.
    """
    spec = schedule.program.spec
    default = request.target.default.shape or ()
    usual: dict[str, int] = {}
    if isinstance(spec, MatMul):
        for (_, size), value in zip(spec.sizes[-3:], default, strict=False):
            if isinstance(value, int) and not isinstance(size, int):
                usual.setdefault(str(as_expr(size)), value)
    made = {name: -(-usual.get(name, 256) // multiple) * multiple for name, multiple in names.items()}
    return {**made, **given}
