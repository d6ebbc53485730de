"""Temporaries with memory of their own: registers, or shared memory; every verb describes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fireiron as fi
from fireiron import RF, SH, Block, Matrix, Schedule, Warp, vector
from fireiron.show import pictures


@fi.program(x="m n")
def distances(x: Any) -> Any:
    square = (x * x).named("square")
    return fi.sum(square, over="n")


def made(allocated: Callable[[Any], Any] = lambda chain: chain) -> Schedule:
    chain = distances(Matrix(8, 512)).tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector())
    return allocated(chain).done()


WAYS: dict[str, Callable[[Any], Any]] = {
    "RF": lambda chain: chain.allocate("square", RF),
    "SH": lambda chain: chain.allocate("square", SH),
    "padded": lambda chain: chain.allocate("square", SH, vector()).pad(4),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_temporary_is_right_and_described(way: str) -> None:
    schedule = made(WAYS[way])
    found = schedule.simulate().comparison
    assert found is not None
    assert found.passed
    name = "square_rf" if way == "RF" else "square_sh"
    assert f"float {name}[16]" in schedule.cuda() or f"float* {name}" in schedule.cuda()
    assert name in str(schedule.tree())
    assert name in str(schedule.explain())
    assert "square" in str(made().diff(schedule))
    assert schedule.estimate().time_us > 0
    assert str(pictures.cuts(schedule))


def test_without_it_the_reader_computes_it() -> None:
    assert "square_rf" not in made().cuda()


def test_words_and_the_synonym() -> None:
    """A load of a step's result to SH is the same link."""
    assert ".allocate square in RF" in str(made(WAYS["RF"]))
    assert made(WAYS["SH"]) == made(lambda chain: chain.load("square", SH))
