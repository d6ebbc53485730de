"""Rows without elements: an extent that may be 0 is a symbol with minimum=0, and its folds give what no points give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, FireironError, Matrix, Schedule, Warp, symbol, vector

MOST = 2**31 - 1
FOLDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float, str]] = {
    "add": (lambda x: fi.sum(x, "n"), lambda x: x.sum(1), 0, "f32"),
    "mul": (lambda x: fi.prod(x, "n"), lambda x: x.prod(1), 1, "f32"),
    "max": (lambda x: fi.max(x, "n"), lambda x: x.max(1), -np.inf, "f32"),
    "min": (lambda x: fi.min(x, "n"), lambda x: x.min(1), np.inf, "f32"),
    "logsumexp": (
        lambda x: fi.logsumexp(x, "n", once=True), lambda x: np.log(np.exp(x).sum(1)), -np.inf, "f32",
    ),
    "argmax": (lambda x: fi.argmax(x, "n"), lambda x: x.argmax(1), MOST, "i32"),
    "own": (
        lambda x: fi.fold_by(x, "n", 7.0, fi.maximum, name="most"), lambda x: np.maximum(x.max(1), 7), 7, "f32",
    ),
}  # fmt: skip


def _schedule(function: Callable[[Any], Any], out: str, least: int) -> Schedule:
    x = Matrix(symbol("M"), symbol("N", minimum=least), name="x")
    chain = fi.program(x="m n")(function)(x, arch="sm_80", out=out).tile(m=1).to(Block)
    chain = chain.split(n=128).split("n", ways=2).parallel(Warp)
    return chain.load("x", RF, vector(4)).epilog(memory=RF).done()


@pytest.mark.parametrize("name", FOLDS)
def test_a_row_without_elements_gives_what_no_points_give(name: str) -> None:
    function, exact, nothing, out = FOLDS[name]
    schedule = _schedule(function, out, 0)
    for width in (0, 3, 300):
        x = np.random.default_rng(width).standard_normal((2, width)).astype(np.float32)
        y = np.full(2, 5, {"f32": np.float32, "i32": np.int32}[out])
        schedule.simulate(x, out=y)
        wanted = exact(x.astype(np.float64)) if width else np.full(2, nothing)
        assert np.allclose(y, wanted, 1e-4, 1e-6)


def test_an_extent_that_starts_at_one_refuses_empty_rows() -> None:
    with pytest.raises(FireironError) as caught:
        _schedule(FOLDS["add"][0], "f32", 1).simulate(np.zeros((2, 0), np.float32), out=np.zeros(2, np.float32))
    assert caught.value.code == "precondition"
    assert "N is 0 in dimension 1 of x, and must lie between 1 and " in caught.value.message


def test_a_mean_has_no_value_of_no_points() -> None:
    with pytest.raises(FireironError) as caught:
        _schedule(lambda x: fi.mean(x, "n"), "f32", 0)
    assert caught.value.code == "symbolic-mean"
