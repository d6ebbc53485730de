"""Loops whose trips a variable divides: printed as a product, for as many trips as the extent says."""

from __future__ import annotations

import pytest

from fireiron.algebra.expr import Expr, Var, as_expr, ceil_div, evaluate, maximum
from fireiron.cuda.memory import Numbers
from fireiron.cuda.statements import goes_on

TRIP, BLOCK, BLOCKS = Var("trip", 200), Var("block", 133), Var("blocks", 133)
PAIRS = BLOCKS // 2

EXTENTS = {
    "every so-manieth tile": ceil_div(112 - BLOCK, BLOCKS),
    "of blocks that may have none": maximum(112 - BLOCK + BLOCKS - 1, 0) // BLOCKS,
    "of clusters": ceil_div(112 - BLOCK // 2, PAIRS),
    "of warpgroups in turn": maximum(112 - BLOCK // 2 - PAIRS + PAIRS * 2 - 1, 0) // (PAIRS * 2),
    "two more": maximum(50 - BLOCK, 0) // BLOCKS + 2,
    "one less": (250 - BLOCK) // BLOCKS - 1,
}


def text(extent: Expr) -> str:
    return goes_on(TRIP, extent, Numbers())


@pytest.mark.parametrize("extent", EXTENTS.values(), ids=EXTENTS)
def test_as_many_trips_as_the_extent_says(extent: Expr) -> None:
    condition = text(extent).replace("/", "//")
    for blocks in range(2, 133, 3):
        for block in range(blocks):
            env = {"block": block, "blocks": blocks}
            trips = next(trip for trip in range(400) if not eval(condition, {"max": max}, {**env, "trip": trip}))
            assert trips == max(0, int(evaluate(extent, env))), env  # pyright: ignore[reportArgumentType]


def test_no_trip_divides() -> None:
    assert text(EXTENTS["every so-manieth tile"]) == "trip * blocks + block < 112"
    assert text(EXTENTS["of warpgroups in turn"]) == "trip * (blocks / 2) * 2 + blocks / 2 + block / 2 < 112"
    assert "max(" in text(EXTENTS["two more"]), "the first two trips take place whatever is left"
    assert "max(" not in text(EXTENTS["of blocks that may have none"])


def test_other_extents_stay() -> None:
    assert text(BLOCKS // 4) == "trip < blocks / 4", "a shift"
    assert text(as_expr(8)) == "trip < 8"
    assert text(BLOCKS // BLOCK + BLOCKS) == "trip < blocks / block + blocks"
