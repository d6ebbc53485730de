"""Lowered Hopper schedules: right on the simulator, and nothing that orders their work can be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import matmul
from fireiron.base.errors import SimulationError
from fireiron.front.simulation import random_arrays
from fireiron.jit.interface import Interface
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate


def scheduled(name: str, sizes: tuple[int, int, int], plan: Plan, layout: str = "TN") -> Any:
    return getattr(hopper, name)(matmul(*sizes, dtype="bf16", arch="sm_90", layout=layout), plan)


def check(schedule: Any, kernel: Any, **more: Any) -> Any:
    """Simulate, and compare with f64 within one rounding to bf16."""
    arrays = random_arrays(Interface.of(kernel), {})
    report = simulate(kernel, arrays, **more)
    spec = schedule.matmul

    def plain(tensor: Any) -> Any:
        x = arrays[tensor.name].astype(np.float64)
        return x if tensor.storage == (0, 1) else x.T

    expected = plain(spec.A) @ plain(spec.B)
    np.testing.assert_allclose(plain(spec.C), expected, rtol=2**-8, atol=1e-3)
    assert not report.findings
    return report


@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
@pytest.mark.parametrize(
    ("name", "sizes", "plan"),
    [
        ("cooperative", (250, 120, 200), Plan(m=128, n=64, stages=3)),
        ("cooperative", (128, 256, 128), Plan(m=128, n=64, stages=3, cluster=(2, 1), swapped=True)),
        ("pingpong", (128, 128, 320), Plan(m=64, n=64, stages=3, cluster=(1, 2))),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_preset(name: str, sizes: tuple[int, int, int], plan: Plan, layout: str) -> None:
    made = scheduled(name, sizes, plan, layout)
    check(made, made.lowered())


@pytest.mark.parametrize("name", ["cooperative", "pingpong"])
def test_a_cluster_of_whole_tiles_takes_seconds(name: str) -> None:
    n = 256 if name == "cooperative" else 192
    made = scheduled(name, (512, n, 256), Plan(m=128, n=n, cluster=(2, 1)))
    assert check(made, made.lowered(), launched=2).elapsed_s < 10


@pytest.mark.parametrize(
    ("name", "sizes", "plan"),
    [
        ("cooperative", (512, 64, 320), Plan(m=128, n=64, stages=3, cluster=(2, 1))),
        ("pingpong", (256, 64, 320), Plan(m=64, n=64, stages=3)),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_every_derived_statement_is_needed(without: Any, name: str, sizes: tuple[int, int, int], plan: Plan) -> None:
    made = scheduled(name, sizes, plan)
    kernel = made.lowered()
    launched = 2 if plan.cluster != (1, 1) else 1
    arrays = random_arrays(Interface.of(kernel), {})
    codes: set[str] = set()
    for statement, broken in without(kernel):
        try:
            simulate(broken, arrays, launched=launched)
        except SimulationError as error:
            codes.add(error.code)
        else:
            pytest.fail(f"nothing missed {statement}")
    assert {"missing-proxy-fence", "missing-wgmma-fence", "deadlock", "race", "not-arrived"} <= codes
