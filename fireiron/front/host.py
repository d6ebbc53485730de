"""Calls with arrays in host memory where there is no GPU: a notice, a limit of time, and the simulation.

Such calls compile nothing, so they need no NVRTC.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fireiron.algebra.arch import arch as find_arch
from fireiron.base.errors import CallError, FireironError, UsageError
from fireiron.base.link import here
from fireiron.jit import bind
from fireiron.jit.arrays import describe
from fireiron.jit.interface import Interface
from fireiron.jit.kernel import as_tuple
from fireiron.kernel.ir.statements import Kernel

LIMIT_S = 30.0
LIMIT = "FIREIRON_SIMULATION_S"  # variable of the environment: another limit, in seconds
SIMULATED = "sm_89"  # target of calls without a GPU: copies by threads are simulated fastest
PATIENCE_S = 2.0  # seconds after which a simulation shows a bar

_said = False


def duration(seconds: float) -> str:
    """Write a time with its unit, rounded.

    Example:
        >>> duration(48.2), duration(3000), duration(90000)
        ('48 s', '50 min', '25 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


class HostKernel:
    """Hold a lowered kernel that runs on the simulator when it is called with NumPy arrays.

    Args:
        kernel: the lowered kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.interface = Interface.of(kernel)

    def __repr__(self) -> str:
        return f"<{self.kernel.name} on the simulator: {self.interface.signature}>"

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, **scalars: Any) -> Any:
        """Simulate, with arguments as a compiled kernel takes them.

        Raises:
            CallError: as a compiled kernel does. UsageError: `long-simulation`. SimulationError: a race or another
                fault.
        """
        try:
            return self._simulated(inputs, out, scalars)
        except FireironError as error:
            raise error.located(here()) from None

    def _simulated(self, inputs: Sequence[Any], out: Any, scalars: Mapping[str, Any]) -> Any:
        from fireiron.front.simulation import simulate_schedule

        interface = self.interface
        bind.check_count(interface, len(inputs), len(as_tuple(out)))
        given, _ = bind.split_scalars(interface, scalars)
        arrays = {p.name: describe(a, p.name) for p, a in zip(interface.inputs, inputs, strict=True)}
        arrays |= {p.name: describe(a, p.name) for p, a in zip(interface.outputs, as_tuple(out), strict=False)}
        if bind.check_device(interface, arrays) is not None:
            raise CallError("no-gpu", "arrays on a GPU need its driver, and there is none", fix="run fireiron doctor")
        sizes = bind.bind(interface, arrays, given).sizes
        with watched(self.kernel, sizes) as each:
            made = simulate_schedule(self.kernel, inputs, out, None, False, scalars, each=each).out
        return made if out is None else out

    def planned(self, arrays: Sequence[Any]) -> None:
        """Return None: there is no plan of a launch, since nothing is launched."""

    def encoded(self, scalars: Mapping[str, Any]) -> Sequence[float | int]:
        """Refuse to encode numbers: nothing is launched."""
        raise AssertionError(scalars)


def without_gpu() -> bool:
    """Say whether calls with NumPy arrays are simulated, since there is no GPU."""
    from fireiron.jit import kernel

    return bool(kernel.probe().problem)


def arch_of(host: bool) -> str | None:
    """Return the target for simulated arrays; None for the GPU's."""
    return SIMULATED if host and without_gpu() else None


def capability() -> int:
    """Return the compute capability that calls are compiled for: that of the GPU, or of simulations without one."""
    from fireiron.jit.driver import driver

    return find_arch(SIMULATED).number if without_gpu() else driver().compute_capability(0)


def simulated(
    kernel: Kernel, arrays: Mapping[str, Any], sizes: Mapping[str, int], numbers: Mapping[str, float | int]
) -> None:
    """Simulate a kernel on NumPy arrays, which it writes in place, under the limit and the notice of `watched`.

    Raises:
        UsageError: `long-simulation`.
    """
    from fireiron.simulate import simulate

    with watched(kernel, sizes) as each:
        simulate(kernel, arrays, sizes, numbers, track=False, each=each)


@contextmanager
def watched(kernel: Kernel, sizes: Mapping[str, int]) -> Generator[Callable[[int, int], None] | None]:
    """Refuse a simulation that would take too long, print one notice in a process, and show the progress.

    Gives:
        A function to call with the numbers of simulated and of all blocks; None for a short simulation.

    Raises:
        UsageError: `long-simulation`.
    """
    from fireiron.simulate import cost

    seconds, limit = cost(kernel, sizes), _limit()
    takes = f"simulating {kernel.name} takes about {duration(seconds)}"
    if seconds > limit:
        raise UsageError(
            "long-simulation",
            f"there is no GPU, and {takes}: the limit is {limit:.0f} s",
            fix=f"use smaller arrays or a GPU, or set {LIMIT}={10 ** len(str(int(seconds)))} in the environment",
        )
    global _said
    if not _said:
        _said = True
        print(
            f"fireiron: there is no GPU: NumPy arrays and CPU tensors are simulated (this call: about "
            f"{duration(seconds) if seconds >= 1 else 'a second or less'})",
            file=sys.stderr,
            flush=True,
        )
    with bar(kernel, seconds) as each:
        yield each


@contextmanager
def bar(kernel: Kernel, seconds: float) -> Generator[Callable[[int, int], None] | None]:
    """Show a bar of progress for a long simulation at a terminal.

    Gives:
        A function to call with the numbers of simulated and of all blocks; None where no bar is shown.
    """
    if seconds < PATIENCE_S or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(f"simulating {kernel.name}", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _limit() -> float:
    """Read the limit of a simulation in seconds.

    Raises:
        UsageError: `bad-limit`.
    """
    text = os.environ.get(LIMIT, "")
    try:
        limit = float(text) if text else LIMIT_S
    except ValueError:
        limit = -1.0
    if not limit > 0:
        raise UsageError("bad-limit", f"{LIMIT}={text} is no number of seconds", fix=f"set {LIMIT}=300, or unset it")
    return limit
