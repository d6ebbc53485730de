"""Elements that indices name, which results of folds need: they are read before the folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.kernel.lower import steps
from fireiron.schedules import rows


def loss(lines: int, width: int, dtype: str = "bf16", program: Any = rows.cross_entropy) -> Any:
    given = fi.tensor(lines, width, dtype=dtype, name="x"), fi.tensor(lines, dtype="i32", name="target")
    return rows.row(program(*given, arch="sm_90a"))


@pytest.mark.parametrize("width", [208, 1160, 5000])
@pytest.mark.parametrize("program", [rows.cross_entropy, rows.cross_entropy_with_gradient])
def test_the_target_is_read_before_the_folds(program: Any, width: int) -> None:
    source = loss(100_001, width, program=program).cuda()
    assert source.index("// chosen") < source.index(": max over n")
    assert source.count("x[") >= 2


def test_without_the_rule_it_is_read_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_gathers_beside_folds", lambda step, progress: False)
    source = loss(100_001, 216).cuda()  # no other test lowers it
    assert "// chosen" not in source


@pytest.mark.parametrize("lines", [1, 3, 64, 70])
@pytest.mark.parametrize("width", [40, 208, 936, 1160, 5000])
def test_losses_are_those_of_numpy(width: int, lines: int) -> None:
    draw = np.random.default_rng(width)
    x = draw.standard_normal((lines, width)).astype(np.float32)
    target = draw.integers(0, width, lines).astype(np.int32)
    found = loss(lines, width, "f32").simulate(x, target).out
    exact = np.log(np.exp(x.astype(np.float64)).sum(1)) - x[np.arange(lines), target]
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


@fi.program(x="m n", table="v n", ids="m")
def nearest(x: fi.Value, table: fi.Value, ids: fi.Value) -> fi.Value:
    """Sum the products with a line that an index names: the fold itself reads it."""
    return fi.sum(x * table[ids, :], "n")


def test_lines_that_folds_read_stay_in_the_fold() -> None:
    x, table = fi.Matrix(64, 256, "f32", name="x"), fi.Matrix(10, 256, "f32", name="table")
    schedule = rows.row(nearest(x, table, fi.tensor(64, dtype="i32", name="ids"), arch="sm_90a"))
    found = schedule.simulate()
    assert found.comparison is not None
    assert found.comparison.passed
