"""Ceilings: the best rates that were measured on a device. None is taken from a data sheet."""

from __future__ import annotations

import attrs

from .cases import Case


@attrs.frozen
class Ceiling:
    """Hold the best measured rates of a device.

    Args:
        gbps: 1e9 bytes per second of a large copy, reads and writes together.
        tflops: 1e12 operations per second, by element type of the inputs.
        source: how they were measured.
    """

    gbps: float
    tflops: tuple[tuple[str, float], ...]
    source: str


CEILINGS = {
    "NVIDIA H200": Ceiling(
        gbps=4247,
        tflops=(
            ("f16", 773),
            ("bf16", 773),
            ("i8", 1630),
            ("u8", 1630),
            ("f32", 62.7),
            ("f64", 61.3),
            ("tf32", 390),
            ("e4m3", 1567),
        ),
        source="one H200 at 700 W: a copy of 1 GiB; products of 4096 and 8192 by the fastest kernel of any source, L2 "
        "flushed, random data; f32: FFMA from registers alone",
    ),
}


@attrs.frozen
class Roof:
    """Hold the shortest time that the ceilings allow a case.

    Args:
        us: the time in microseconds.
        bound: `memory` or `compute`.
    """

    us: float
    bound: str


def roof(case: Case, device: str) -> Roof | None:
    """Give the roof over a case, None for devices and element types without a measured ceiling."""
    found = CEILINGS.get(device)
    rate = dict(found.tflops).get(case.types[0].name) if found else None
    if found is None or rate is None:
        return None
    compute, memory = case.flops / rate * 1e-6, case.nbytes / found.gbps * 1e-3
    return Roof(max(compute, memory), "memory" if memory > compute else "compute")
