"""Run a schedule on the GPU on whole numbers, bit by bit, and on random ones, and hold it against its reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from compiling import compiled

from fireiron.verify.verification import KINDS, Data, Kind, Verdict, verify


def verified(
    schedule: Any,
    numbers: Mapping[str, float] | None = None,
    *,
    kernel: Any = None,
    arch: str | None = None,
    given: Mapping[str, Any] | None = None,
    seed: int = 1,
    repeats: int = 1,
    kinds: tuple[Kind, ...] = KINDS,
    **sizes: int,
) -> Verdict:
    """Compile, run and compare all outputs.

    Args:
        schedule: the schedule.
        numbers: scalars by name.
        kernel: the compiled schedule, where the test has it.
        arch: what is compiled for.
        given: arrays that are to be used as they are.
        seed: of the data.
        repeats: runs on the same data, which must give the same bits.
        kinds: of data.
        sizes: symbols by name.
    """
    made = kernel or compiled(schedule, arch)

    def launch(data: Data) -> None:
        first: list[Any] = []
        for _ in range(repeats):
            for name, before in data.before.items():
                data.arrays[name][...] = before
            made(*data.inputs, out=data.out, **data.numbers)
            bits = [x.copy().view(f"u{x.itemsize}") for x in data.outs]
            first = first or bits
            for one, other in zip(first, bits, strict=True):
                np.testing.assert_array_equal(one, other)

    verdict = verify(schedule, launch, sizes, numbers, arch=arch, seed=seed, given=given, kinds=kinds)
    assert verdict.passed, f"{schedule.name}: {verdict}"
    return verdict
