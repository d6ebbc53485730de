"""Folds of several statistics at once: their laws, and what they give for infinities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import Matrix, symbol
from fireiron.language.folds import Fold
from fireiron.schedules import rows
from fireiron.simulate.arithmetic import evaluate_scalar

State = tuple[Any, ...]


@fi.program(x="m n")
def sums(x: Any) -> Any:
    return fi.logsumexp(x, "n", once=True)


@fi.program(x="m n")
def moments(x: Any) -> Any:
    return fi.mean_and_variance(x, "n", once=True)


def fold_of(program: Any) -> Fold:
    (step, *_) = program(Matrix(4, 64)).computed.steps
    assert step.fold is not None
    return step.fold


def computed(trees: Sequence[Any], *values: Any) -> State:
    with np.errstate(all="ignore"):
        return tuple(float(evaluate_scalar(tree, [np.asarray(v, np.float32) for v in values], {})) for tree in trees)


def folded(fold: Fold, points: Sequence[float], rng: np.random.Generator) -> State:
    """Fold by a random tree, with states of no points between."""
    states = [computed(fold.lift, x) for x in points] + [fold.identity]
    while len(states) > 1:
        i = int(rng.integers(len(states) - 1))
        states[i : i + 2] = [computed(fold.combine, *states[i], *states[i + 1])]
    return computed(fold.finish, *states[0])


@pytest.mark.parametrize("seed", range(20))
def test_any_tree_gives_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(int(rng.integers(1, 40))) * 10.0 ** rng.integers(-2, 2) + rng.integers(-50, 50)).tolist()
    top = max(x)
    np.testing.assert_allclose(
        folded(fold_of(sums), x, rng), [math.log(math.fsum(math.exp(v - top) for v in x)) + top], rtol=2e-6, atol=2e-6
    )
    wanted = np.mean(x), np.var(x)
    np.testing.assert_allclose(folded(fold_of(moments), x, rng), wanted, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        ((-math.inf, -math.inf), -math.inf),
        ((1.0, math.inf, 2.0), math.inf),
        ((1.0, math.nan), math.nan),
        ((), -math.inf),
    ],
)
def test_infinities(points: tuple[float, ...], wanted: float) -> None:
    """As torch.logsumexp does; a row without points is -inf."""
    found = folded(fold_of(sums), points, np.random.default_rng(0))
    np.testing.assert_equal(float(found[0]), wanted)


@pytest.mark.parametrize("width", [48, 1200])
def test_right_over_lanes_and_warps(width: int) -> None:
    for program in (sums, moments):
        found = rows.row(program(Matrix(5, width, "bf16"), out="f32")).simulate()
        assert found.comparison is not None
        assert found.comparison.passed, str(found)


def test_symbols_need_no_number_of_columns() -> None:
    """The state counts the points; two steps divide by a number that must be known."""
    assert moments(Matrix(4, symbol("N"))).computed.steps[0].name == "moments"
