"""Groups and batches on Hopper: right on the simulator, and nothing that orders their work can be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import RF, A, B, Block, ColMajor, Grouped, Hilbert, RowMajor, Thread, matmul
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import mathematical, reference

PLANS = {
    "cooperative": Plan(m=128, n=64, stages=3),
    "three consumers": Plan(m=192, n=64, consumers=3, stages=3),
    "taking turns": Plan(m=64, n=64, pingpong=True, stages=3),
    "swapped": Plan(m=128, n=64, stages=3, swapped=True, cluster=(2, 1)),
    "turns, swapped": Plan(m=64, n=64, pingpong=True, stages=3, swapped=True),
    "clusters": Plan(m=128, n=64, stages=3, cluster=(2, 1)),
    "ways": Plan(m=128, n=64, stages=3, ways=2),
    "ways of a cluster": Plan(m=128, n=64, stages=3, ways=2, through="cluster"),
    "dependent": Plan(m=128, n=64, stages=3, dependent=True),
    "chunks of two panels": Plan(m=128, n=64, stages=2, panels=2),
}
ENDS = (0, 40, 40, 104, 120, 250, 250)  # empty ones, ones smaller than a warpgroup's rows, one of two tiles


def check(schedule: Any, **more: Any) -> Any:
    """Simulate, and compare with f64; rows that no group has keep what they held."""
    kernel, spec = schedule.lowered(), schedule.matmul
    arrays = random_arrays(Interface.of(kernel), {})
    if "offsets" in arrays:
        arrays["offsets"] = np.array(ENDS, np.int32)
        arrays["C"][...] = 1
    expected = reference(schedule, {**arrays, "C": arrays["C"].copy()}, {})
    report = simulate(kernel, arrays, **more)
    found = compare("C", mathematical(spec.C, arrays["C"]), expected, spec.C.dtype)
    assert found.passed, str(found)
    return report


@pytest.mark.product
@pytest.mark.parametrize(
    ("plan", "layout"),
    [*((plan, "TN") for plan in PLANS), *((x, y) for x in ("cooperative", "swapped") for y in ("NN", "NT", "TT"))],
)
def test_groups(plan: str, layout: str) -> None:
    spec = matmul(256, 136, 192, "bf16", groups=len(ENDS), layout=layout, arch="sm_90")
    check(hopper.gemm(spec, PLANS[plan]))


@pytest.mark.product
@pytest.mark.parametrize("launched", [1, 2, 3])
@pytest.mark.parametrize("plan", ["cooperative", "taking turns"])
def test_blocks_take_many_tiles_of_many_groups(plan: str, launched: int) -> None:
    spec = matmul(256, 136, 192, "bf16", out="f32", groups=len(ENDS), layout="TN", arch="sm_90")
    check(hopper.gemm(spec, PLANS[plan]), launched=launched)


@pytest.mark.parametrize("plan", PLANS)
def test_batches(plan: str) -> None:
    check(hopper.gemm(matmul(200, 136, 192, "bf16", batch=3, layout="TN", arch="sm_90"), PLANS[plan]))


@pytest.mark.parametrize("order", [RowMajor, ColMajor, Grouped(2), Hilbert(2)], ids=str)
def test_persistent_blocks_on_cuda_cores(order: Any) -> None:
    for spec in (matmul(256, 50, 8, groups=len(ENDS)), matmul(40, 50, 8, batch=3)):
        threads = spec.tile(16, 16, batch=1).to(Block).persistent(order).epilog(memory=RF).tile(2, 2).to(Thread)
        check(threads.split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done(), launched=5)


def test_every_derived_statement_is_needed(without: Any) -> None:
    schedule = hopper.gemm(
        matmul(256, 64, 320, "bf16", groups=len(ENDS), layout="TN", arch="sm_90"), PLANS["cooperative"]
    )
    kernel = schedule.lowered()
    arrays = random_arrays(Interface.of(kernel), {})
    arrays["offsets"] = np.array(ENDS, np.int32)
    codes: set[str] = set()
    for statement, broken in without(kernel):
        try:
            simulate(broken, arrays, launched=1)
        except SimulationError as error:
            codes.add(error.code)
        else:
            pytest.fail(f"nothing missed {statement}")
    assert {"missing-wgmma-fence", "deadlock", "race", "not-arrived"} <= codes
