"""Times of the whole kernel, modelled and measured, and of all iterations of one block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import attrs

from fireiron.algebra.arch import Arch
from fireiron.algebra.arch import arch as find_arch
from fireiron.algebra.machine import Machine
from fireiron.base.errors import FireironError
from fireiron.base.text import count
from fireiron.estimate.model import Estimate
from fireiron.kernel.ir.statements import Kernel
from fireiron.show.clock import time_of
from fireiron.show.lowering import Lowers
from fireiron.show.schedule_time import Loop, Policy, Timeline
from fireiron.simulate.events import Trace
from fireiron.simulate.trace import trace

SETTLED = 8  # iterations that run, and three turns of the ring: then a loop is in its rhythm


class Estimated(Lowers, Protocol):
    """A schedule that can estimate its time."""

    def estimate(self, arch: str | int | None = None, **sizes: int) -> Estimate:
        """Estimate the time."""
        ...

    @property
    def name(self) -> str:
        """Name the kernel."""
        ...


class Measured(Protocol):
    """A measured time: a Timing, or the times in a result of the bench."""

    @property
    def median_us(self) -> float:
        """Return the median in microseconds."""
        ...


@attrs.frozen
class Whole:
    """Hold a kernel's times, modelled and measured.

    Args:
        arch: the architecture, with the GPU whose clock rate is used.
        estimate: the modelled time; None where the model cannot estimate the kernel.
        why_not: the reason why there is no estimate.
        measured_us: measured microseconds, None without a measurement.
    """

    arch: Arch
    estimate: Estimate | None
    why_not: str = ""
    measured_us: float | None = None

    @property
    def machine(self) -> Machine:
        """Return the GPU."""
        return self.arch.gpu

    def clocks(self, us: float) -> float:
        """Convert microseconds to clocks at the GPU's boost clock."""
        return us * self.machine.clock_mhz

    @property
    def title(self) -> str:
        """Write the kernel's clocks in a line."""
        found: list[str] = []
        if self.estimate is not None:
            found.append(f"{self.clocks(self.estimate.time_us):,.0f} clocks by the model")
        if self.measured_us is not None:
            found.append(f"{self.clocks(self.measured_us):,.0f} measured")
        return f"the whole kernel: {', '.join(found) or self.why_not}"

    @property
    def detail(self) -> str:
        """Write the kernel's microseconds, and its number of blocks."""
        found: list[str] = []
        if self.estimate is not None:
            waves = count(self.estimate.waves, "wave")
            found.append(f"{count(self.estimate.grid, 'block')} in {waves}; {_us(self.estimate.time_us)} us modelled")
        if self.measured_us is not None:
            found.append(f"{_us(self.measured_us)} us measured")
        return f"{', '.join(found)}; clocks of one {self.machine.name} at {self.machine.clock_mhz:g} MHz"


def whole_of(
    schedule: Estimated, on: str | int | None, measured: Measured | float | None, sizes: Mapping[str, int]
) -> Whole:
    """Estimate a kernel's time, and add a measured time."""
    us = measured if measured is None or isinstance(measured, int | float) else measured.median_us
    try:
        found = schedule.estimate(on, **sizes)
    except FireironError as error:
        return Whole(find_arch("sm_90a"), None, error.message, us)
    return Whole(find_arch(found.arch), found, "", us)


@lru_cache(maxsize=32)
def traced_once(
    kernel: Kernel, sizes: tuple[tuple[str, int], ...], block: int, chunks: int, tiles: int, on: Arch
) -> Trace:
    """Trace a block as `trace` does; the last traces are kept, since both policies and the drawing use them."""
    return trace(kernel, dict(sizes), block, chunks, tiles, on)


def all_iterations(
    kernel: Kernel, policy: Policy, on: Arch, sizes: Mapping[str, int], block: int, tiles: int
) -> Timeline:
    """Time all iterations of one block; a few iterations are simulated, enough to show how long one takes."""
    ring = math.lcm(*(buffer.slots for buffer in kernel.buffers), 1)
    traced = traced_once(kernel, tuple(sizes.items()), block, max(SETTLED, 3 * ring), tiles, on)
    periods: Mapping[Loop, float] = time_of(traced, policy, on.gpu).periods
    return time_of(traced, policy, on.gpu, periods)


def _us(value: float) -> str:
    """Write microseconds with four digits.

    Example:
        >>> _us(148705.3), _us(172.84)
        ('148,705', '172.8')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
