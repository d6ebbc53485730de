"""Exponents: fewer instructions, and the same number up to few roundings of its terms."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import Value, as_exponent, exp, maximum, tanh, where
from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Binary, Unary, parts
from fireiron.language.pointwise import accumulator
from fireiron.verify.bounded import evaluate, exact

ACC = accumulator(f32)
CASES = {
    "soft-cap": 20 * tanh(ACC * 0.125 / 20) * 1.4427,
    "line": ((ACC - 3) * -2 + 7) / 8 - 1,
    "negative": -(5 - ACC * 3),
    "inside": maximum(ACC * 2 * 3, exp(ACC / 2 / 2)) + 1 + 2,
    "chosen": where(ACC < 1, ACC / 3 * 3, 4.0) * 2,
    "nothing": ACC * ACC,
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


def test_zeros_and_infinities_are_no_factors() -> None:
    for value in (ACC * 0.0, ACC + float("inf"), ACC / 0.0):
        assert isinstance(value, Value)
        assert as_exponent(value).tree == value.tree
