"""Sums that keep what their roundings lose: right to the last digit by every carrier, where plain sums are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, vector
from fireiron.schedules import reductions
from fireiron.verify.verification import Data, verify


def summed(compensated: bool) -> Any:
    return fi.program(x="m n")(lambda x: fi.sum(x, "n", compensated=compensated))(Matrix(4, 900))


WAYS: dict[str, Callable[[Any], Any]] = {
    "lanes": lambda s: s.tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).epilog(memory=RF).done(),
    "warps": lambda s: (
        s.tile(m=1).to(Block).split("n", ways=4).parallel(Warp).load("x", RF, vector()).epilog(memory=RF).done()
    ),
    "chunks": lambda s: (
        s.tile(m=1).to(Block).split(n=256).split("n", ways=2).parallel(Warp).load("x", RF, vector()).epilog().done()
    ),
    "grid": lambda s: reductions.reduction(s, ways=3),
}


def error(schedule: Any) -> float:
    """Sum numbers of which two large ones cancel; gives how far the sums are from the right ones."""
    x = np.random.default_rng(0).standard_normal((4, 900)).astype(np.float32)
    x[:, 7], x[:, 700] = 1e8, -1e8
    out = np.zeros(4, np.float32)
    schedule.simulate(x, out=out)
    return float(np.abs(out - x.astype(np.float64).sum(1)).max())


@pytest.mark.parametrize("way", WAYS)
def test_what_cancels_is_not_lost(way: str) -> None:
    assert error(WAYS[way](summed(compensated=True))) < 1e-5
    assert error(WAYS[way](summed(compensated=False))) > 1.0


@pytest.mark.parametrize("way", WAYS)
def test_within_the_bound_of_twice_the_digits(way: str) -> None:
    schedule = WAYS[way](summed(compensated=True))

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def test_two_numbers_do_not_meet_by_atomics() -> None:
    with pytest.raises(fi.FireironError) as caught:
        reductions.reduction(summed(compensated=True), ways=3, atomics=True)
    assert caught.value.code == "parallel-atomics"


def test_sums_of_integers_lose_nothing() -> None:
    with pytest.raises(fi.FireironError, match="no rounding errors") as caught:
        fi.program(x="m n")(lambda x: fi.sum(x, "n", compensated=True))(Matrix(4, 64, "i32"))
    assert caught.value.code == "bad-op"
