"""Vectors across dims: a thread's elements that lie together along several dims are moved as one run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import RF, Block, FireironError, Thread, Value, program, tensor, vector
from fireiron import sum as total
from fireiron.kernel.lower import long_runs


@program(x="m n")
def sums(x: Value) -> Value:
    """Sum rows."""
    return total(x, "n")


def rows(m: int, n: int, pitch: int | None = None, nbytes: int | None = None, dtype: str = "f16", each: int = 4) -> Any:
    """Give each thread `each` whole rows."""
    spec = sums(tensor(m, n, strides=(pitch or n, 1), dtype=dtype))
    chain = spec.tile(m=32).to(Block).epilog(memory=RF).tile(m=each).to(Thread)
    return chain.load("x", RF, vector(nbytes)).done()


def simulated(schedule: Any, m: int, n: int, pitch: int | None = None) -> None:
    x = np.random.default_rng(7).integers(-4, 5, (m, pitch or n)).astype(np.float16)[:, :n]
    np.testing.assert_array_equal(schedule.simulate(x).out.astype(np.float32), x.astype(np.float32).sum(axis=1))


@pytest.mark.parametrize(("n", "nbytes"), [(3, 8), (9, 8), (6, 16), (5, 8)])
def test_rows_that_follow_each_other_are_a_run(n: int, nbytes: int) -> None:
    """Four rows of 3 elements of f16 are 24 bytes, at a multiple of 24: three vectors of 8 bytes."""
    schedule = rows(64, n)
    assert f"copy_{nbytes}B(&x_rf" in schedule.cuda("sm_80")
    simulated(schedule, 64, n)


def test_rows_with_a_gap_are_no_run() -> None:
    schedule = rows(64, 3, pitch=4)
    assert "copy_2B(&x_rf" in schedule.cuda("sm_80")
    simulated(schedule, 64, 3, pitch=4)


def test_a_width_that_is_given_stays() -> None:
    assert "copy_2B(&x_rf" in rows(64, 3, nbytes=2).cuda("sm_80")


@pytest.mark.parametrize(("m", "vectors"), [(60, "copy_or_zero_8B(&x_rf"), (58, "copy_or_zero_2B(&x_rf")])
def test_a_run_that_may_end_inside_is_not_widened(m: int, vectors: str) -> None:
    """Of 60 rows a thread has four or none, and of 58 rows the last thread has two."""
    schedule = rows(m, 3)
    assert vectors in schedule.cuda("sm_80")
    simulated(schedule, m, 3)


def test_the_simulator_sees_a_run_beyond_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_runs, "_exists_as_a_whole", lambda window: True)
    with pytest.raises(FireironError):
        simulated(rows(62, 3), 62, 3)  # no other test has lowered these sizes


def test_misaligned_runs_keep_their_vectors() -> None:
    """Five rows of 3 elements start at multiples of 30 bytes: vectors have 2 bytes."""
    schedule = rows(80, 3, each=5)
    assert "copy_2B(&x_rf" in schedule.cuda("sm_80") or "copy_or_zero_2B(&x_rf" in schedule.cuda("sm_80")
