"""Ranges of NVTX around launches: profilers show them on the host's timeline, above the kernels that they launch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from fireiron.base.errors import CallError

VARIABLE = "FIREIRON_NVTX"
DOMAIN = "fireiron"

Run: TypeAlias = Callable[[Sequence[int], Sequence[float | int], int], None]


def ranged(run: Run, name: str) -> Run:
    """Put a range around each launch where `FIREIRON_NVTX` is set in the environment; else return `run` itself.

    Args:
        run: launches a kernel.
        name: of the kernel, and of the range.

    Raises:
        CallError: `no-nvtx` where the package is not installed.
    """
    if os.environ.get(VARIABLE, "") in ("", "0"):
        return run
    try:
        annotate: Any = import_module("nvtx").annotate
    except ImportError:
        raise CallError(
            "no-nvtx",
            f"{VARIABLE} is set, and the package nvtx is not installed",
            fix=f"pip install nvtx, or unset {VARIABLE}",
        ) from None

    def launch(addresses: Sequence[int], numbers: Sequence[float | int], stream: int) -> None:
        with annotate(name, domain=DOMAIN):
            run(addresses, numbers, stream)

    return launch
