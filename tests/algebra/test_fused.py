"""Multiply-adds: which sums take their product unrounded, and that the simulator rounds once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fireiron.algebra.dtypes import f16, f32
from fireiron.algebra.fused import fused
from fireiron.algebra.scalar import Arg, Binary, MultiplyAdd, Unary
from fireiron.simulate.arithmetic import multiply_add
from fireiron.verify.bounded import Bounded, evaluate, exact

X, Y, Z = (Arg(i, f32) for i in range(3))


def test_sums_take_products() -> None:
    assert fused(Binary("add", Z, Binary("mul", X, Y))) == MultiplyAdd(X, Y, Z)
    assert fused(Binary("sub", Z, Binary("mul", X, Y))) == MultiplyAdd(Unary("neg", X), Y, Z)
    inner = fused(Unary("exp2", Binary("sub", Binary("mul", X, Y), Z)))
    assert inner == Unary("exp2", MultiplyAdd(X, Y, Unary("neg", Z)))


def test_other_types_round_twice() -> None:
    x, y = Arg(0, f16), Arg(1, f16)
    tree = Binary("add", Binary("mul", x, y), x)
    assert fused(tree) == tree


def nearest(value: Fraction) -> np.float32:
    """Round a fraction to f32, ties to even, by its neighbours."""
    guess = np.float32(float(value))
    around = (np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf)))
    return min(around, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.int32)) % 2))


def test_one_rounding() -> None:
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(3, 2000)).astype(np.float32)
    z[:1000] = -(x * y)[:1000]  # what is left is what the product's own rounding would lose
    z[1000:1200] *= np.float32(2.0**30)
    x[1200:1300], y[1200:1300], z[1200:1300] = 1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60  # a tie, but for the sum's end
    found = multiply_add(x, y, z)
    for a, b, c, got in zip(x, y, z, found, strict=True):
        assert got == nearest(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def test_infinities() -> None:
    big, inf = np.float32(3e38), np.float32(np.inf)
    with np.errstate(invalid="ignore"):
        assert multiply_add(inf, np.float32(1), big) == inf
        assert np.isnan(multiply_add(inf, np.float32(1), -inf))
        assert np.isnan(multiply_add(inf, np.float32(0), big))


def test_bound_is_that_of_both_operations() -> None:
    values = [exact(np.float64([v])) for v in (1.1, 2.3, -2.5)]
    tree = Binary("add", Binary("mul", X, Y), Z)
    assert evaluate(fused(tree), values, {}).error == evaluate(tree, values, {}).error


def test_exp2_may_lose_what_is_below_the_smallest_normal_number() -> None:
    found: Bounded = evaluate(Unary("exp2", X), (exact(np.float64([-140.0, 0.0])),), {})
    assert found.value[0] <= found.error[0]
    assert found.error[1] < 2.0**-21
