"""Exponents: fewer instructions, and the same number up to few roundings of its terms."""

from __future__ import annotations

import numpy as np
import pytest

import fireiron as fi
from fireiron import Value, as_exponent, derivative, exp, maximum, rounded, tanh, where
from fireiron.algebra.dtypes import f32
from fireiron.algebra.fused import fused
from fireiron.algebra.scalar import Arg, Binary, MultiplyAdd, Unary, parts
from fireiron.language.pointwise import accumulator, read
from fireiron.verify.bounded import evaluate, exact

ACC = accumulator(f32)
CASES = {
    "soft-cap": 20 * tanh(ACC * 0.125 / 20) * 1.4427,
    "line": ((ACC - 3) * -2 + 7) / 8 - 1,
    "negative": -(5 - ACC * 3),
    "inside": maximum(ACC * 2 * 3, exp(ACC / 2 / 2)) + 1 + 2,
    "chosen": where(ACC < 1, ACC / 3 * 3, 4.0) * 2,
    "nothing": ACC * ACC,
    "sum": (ACC * 0.125 - exp(ACC) * (ACC - 7) + ACC * ACC) * 1.4427,
    "negated sum": -(ACC / 8 + exp(ACC / 8)) * 3 - 2,
}


@pytest.mark.parametrize("name", CASES)
def test_values_stay(name: str) -> None:
    x = np.linspace(-30, 30, 6001)
    before, after = (evaluate(v.tree, (exact(x),), {}).value for v in (CASES[name], as_exponent(CASES[name])))
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)


def test_constants_become_one_of_each() -> None:
    assert str(as_exponent(CASES["line"])).count("acc") == 1
    assert sum(isinstance(x, Binary) for x in parts(as_exponent(CASES["line"]).tree)) == 2
    found = as_exponent(CASES["soft-cap"])
    assert [x.op for x in parts(found.tree) if isinstance(x, Unary)] == ["exp2"]
    assert sum(isinstance(x, Binary) and x.op == "mul" for x in parts(found.tree)) == 2


def test_a_factor_of_a_sum_joins_those_of_its_terms() -> None:
    slope = fi.tensor(4, name="slope")
    score = (ACC * 0.5 - read(slope) * (ACC - 7)) * 4
    assert str(as_exponent(score)) == "acc * 2 - slope * 4 * (acc + -7)"  # slope * 4 is the same for all scores
    assert str(as_exponent((ACC + read(slope)) * 4)) == "acc * 4 + slope * 4"
    assert str(as_exponent((exp(read(slope)) * 3 * ACC - ACC) * 4)) == "exp(slope) * 12 * acc - acc * 4"


def test_a_rounded_product_is_not_fused() -> None:
    x, y = Arg(0, f32), Arg(1, f32)
    value = rounded(ACC * 3) - 5
    assert not any(isinstance(part, MultiplyAdd) for part in parts(fused(value.tree)))
    assert fused(Binary("sub", Binary("mul", x, y), y)) == MultiplyAdd(x, y, Unary("neg", y))
    assert str(derivative(lambda s: rounded(s * s), ACC)) == "acc + acc"


def test_zeros_and_infinities_are_no_factors() -> None:
    for value in (ACC * 0.0, ACC + float("inf"), ACC / 0.0):
        assert isinstance(value, Value)
        assert as_exponent(value).tree == value.tree
