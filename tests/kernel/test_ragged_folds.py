"""Folds of rows whose last vectors are missing, and exponentials of 16-bit values: no branches, few instructions."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import Matrix
from fireiron.algebra.scalar import Select
from fireiron.kernel.lower import step_points
from fireiron.schedules import rows

WIDTH = 1000  # of three warps' 1536 places


def _exact(name: str, x: Any) -> Any:
    if name == "softmax":
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def _error(name: str, lines: int) -> float:
    x = np.random.default_rng(0).standard_normal((lines, WIDTH)).astype(np.float32) + 2
    found = np.zeros_like(x)
    rows.row(getattr(rows, name)(Matrix(lines, WIDTH), arch="sm_80"), warps=3).simulate(x, out=found)
    return float(np.abs(found - _exact(name, x.astype(np.float64))).max())


@pytest.mark.parametrize("name", ["softmax", "layernorm"])
def test_missing_elements_of_a_row_are_chosen_without_branches(name: str) -> None:
    source = rows.row(getattr(rows, name)(Matrix(5, WIDTH, "bf16"), arch="sm_80"), warps=3).cuda("sm_80")
    loops = re.findall(r"for \(int n\d*[^{]*\{\n((?:.*;\n)+?)\s*\}", source)
    chosen = [loop for loop in loops if " ? " in loop]
    assert len(chosen) == 2
    assert not any("if (" in loop for loop in chosen)
    # NVRTC makes a branch of a choice whose first value is an expression.
    assert all(re.search(r" \? next\d*\[0\] : ", loop) for loop in chosen)
    assert _error(name, 5) < 1e-5


def test_a_fold_that_takes_missing_elements_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_points, "Select", lambda condition, tree, kept: Select(condition, tree, tree))
    assert _error("layernorm", 6) > 1e-2


def test_a_row_that_is_missing_as_a_whole_is_left_by_a_branch() -> None:
    given = Matrix(150, 256, "bf16"), Matrix(150, 256, "bf16", name="dy"), fi.Vector(256, "bf16", name="gain")
    source = rows.row(rows.rms_norm_gradients(*given, arch="sm_80"), blocks=4).cuda("sm_80")
    assert re.search(r"if \(.* < \d+.*\) by_gain\[", source)


def _text(dtype: str, program: Any) -> str:
    return str(fi.program(x="m n")(program)(Matrix(64, 256, dtype)).computed)


@pytest.mark.parametrize("function", [fi.softmax, fi.log_softmax, fi.logsumexp])
def test_exponentials_of_short_values_are_powers_of_two(function: Any) -> None:
    assert "exp2((x[m, n] - top[m]) * 1.4427)" in _text("f16", lambda x: function(x, "n"))
    assert "exp(x[m, n] - top[m])" in _text("f32", lambda x: function(x, "n"))


def test_a_softmax_of_a_known_sum_takes_one_exponential() -> None:
    def known(x: Any) -> Any:
        every = fi.logsumexp(x, "n").named("every")
        return fi.softmax(x, "n", lse=every), every

    assert "exp2((x[m, n] - every2[m]) * 1.4427)" in _text("bf16", known)
    assert "exp(x[m, n] - every[m])" in _text("f32", known)


def test_far_exponentials_lie_off_less_than_a_rounding_of_16_bits() -> None:
    away = np.linspace(0, 87, 1000, dtype=np.float32)
    rounded = np.float32(away * np.float32(1 / math.log(2)))
    assert np.abs(np.exp2(-rounded.astype(np.float64)) / np.exp(-away.astype(np.float64)) - 1).max() < 2.0**-17


@fi.program(x="m n")
def _sums(x: fi.Value) -> fi.Value:
    """Sum rows."""
    return fi.sum(x, "n")


@pytest.mark.parametrize(("lines", "width", "chosen"), [(61, 8, False), (64, 6, True)])
def test_missing_rows_among_a_threads_rows_are_folded_like_the_others(lines: int, width: int, chosen: bool) -> None:
    """Sums of missing rows are not stored; missing elements of a row would change its sum."""
    spec = _sums(Matrix(lines, width), arch="sm_80")
    chain = spec.tile(m=32).to(fi.Block).epilog(memory=fi.RF).tile(m=4).to(fi.Thread)
    schedule = chain.split(None, n=4).unroll().load("x", fi.RF, fi.vector()).done()
    assert (" ? " in schedule.cuda("sm_80")) == chosen
    x = np.random.default_rng(1).integers(-4, 5, (lines, width)).astype(np.float32)
    np.testing.assert_array_equal(schedule.simulate(x).out, x.sum(1))
