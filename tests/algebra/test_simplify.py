"""Simplified expressions give the same bits, and compute nothing twice."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron.algebra.dtypes import DType, bf16, e5m2, f16, f32, f64, i4, i8, i32, i64, u8
from fireiron.algebra.scalar import (
    OF_NUMBERS,
    Arg,
    Binary,
    Cast,
    Constant,
    Custom,
    Scalar,
    Select,
    Unary,
    children,
    parts,
    with_children,
)
from fireiron.algebra.simplify import share, simplify
from fireiron.simulate.arithmetic import evaluate_scalar

NUMBERS = (0.0, -0.0, 1.0, 2.0, 0.5, -3.0, 0.1)


def drawn(rng: np.random.Generator, dtype: DType, depth: int) -> Scalar:
    kind = int(rng.integers(0, 6)) if depth else int(rng.integers(0, 2))
    if kind == 0:
        return Arg(int(rng.integers(0, 2)), dtype)
    if kind == 1:
        value = NUMBERS[rng.integers(len(NUMBERS))]
        return Constant(value if dtype.kind == "float" else int(value), dtype)
    x, y = drawn(rng, dtype, depth - 1), drawn(rng, dtype, depth - 1)
    if kind == 2:
        return Unary(("neg", "abs")[rng.integers(2)], x)
    if kind == 3:
        return Select(x, y, drawn(rng, dtype, depth - 1))
    if kind == 4 and dtype != f64:
        return Cast(Cast(x, f64 if dtype.kind == "float" else i32), dtype)
    return Binary(OF_NUMBERS[rng.integers(len(OF_NUMBERS))], x, y)


def bits(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        whole = np.where(np.isnan(x.astype(np.float64)), np.zeros((), x.dtype), x)
    return np.ascontiguousarray(whole).view(f"u{x.itemsize}")


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64, i64, i32, i8], ids=str)
def test_simplified_expressions_give_the_same_bits(draw, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    values = [draw(rng, dtype, 64) for _ in range(2)]
    changed = 0
    for _ in range(200):
        tree = drawn(rng, dtype, 4)
        simple = simplify(tree)
        changed += simple != tree
        assert len(list(parts(simple))) <= len(list(parts(tree)))
        with np.errstate(all="ignore"):
            before, after = (np.broadcast_to(evaluate_scalar(t, values, {}), (64,)) for t in (tree, simple))
            zero = (before == 0) & (after == 0)
        # C's max and min may give either zero.
        either = any(isinstance(p, Binary) and p.op in ("max", "min") for p in parts(tree))
        assert ((bits(before) == bits(after)) | (zero & either)).all(), (tree, simple)
    assert changed > 50


@pytest.mark.parametrize("dtype", [f32, i32], ids=str)
def test_what_is_taken_out_is_computed_once(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    values = [np.arange(1, 9).astype(dtype.numpy), np.arange(8, 0, -1).astype(dtype.numpy)]
    for _ in range(100):
        tree = drawn(rng, dtype, 5)
        definitions, rest = share(tree, 2)
        known = list(values)
        with np.errstate(all="ignore"):
            for part in definitions:
                known.append(np.broadcast_to(evaluate_scalar(part, known, {}), (8,)))
            got = evaluate_scalar(rest, known, {})
            assert np.array_equal(got, evaluate_scalar(tree, values, {}), equal_nan=True)
        every = [p for t in (*definitions, rest) for p in parts(t) if children(p)]
        assert len(every) == len(set(every))


def test_zeros_and_nans_are_told_apart() -> None:
    assert Constant(0.0, f32) != Constant(-0.0, f32)
    assert Constant(float("nan"), f32) == Constant(float("nan"), f32)
    assert Constant(0, f32) == Constant(0.0, f32)
    x = Arg(0, f32)
    assert simplify(Binary("add", x, Constant(0.0, f32))) != x  # -0 + 0 is 0
    assert simplify(Binary("add", x, Constant(-0.0, f32))) == x
    assert simplify(Binary("sub", x, Constant(0.0, f32))) == x


def test_divisors_become_factors_where_nothing_changes() -> None:
    x = Arg(0, f32)
    assert simplify(Binary("div", x, Constant(4.0, f32))) == Binary("mul", x, Constant(0.25, f32))
    assert simplify(Binary("div", x, Constant(3.0, f32))) == Binary("div", x, Constant(3.0, f32))
    assert simplify(Binary("div", x, Constant(2.0**127, f32))) == Binary("div", x, Constant(2.0**127, f32))


def test_bounds_of_bounds_become_one() -> None:
    x = Arg(0, f32)
    twice = Binary("max", Binary("max", x, Constant(1.0, f32)), Constant(2.0, f32))
    assert simplify(twice) == Binary("max", x, Constant(2.0, f32))


def test_a_wider_integer_in_between_is_left_out() -> None:
    x, narrow = Arg(0, i32), Arg(0, u8)
    assert simplify(Cast(Cast(narrow, i64), f32)) == Cast(narrow, f32)
    assert simplify(Cast(Cast(narrow, i32), i64)) == Cast(narrow, i64)
    assert simplify(Cast(Cast(x, i64), i8, True)) == Cast(x, i8, True)
    assert simplify(Cast(Cast(narrow, i64), i32, True)) == Cast(narrow, i32)
    for kept in (Cast(Cast(Arg(0, i64), i32), f32), Cast(Cast(Arg(0, i64), i32, True), i64), Cast(Cast(x, f32), i64)):
        assert simplify(kept) == kept


def test_rebuilding_keeps_every_node() -> None:
    x = Arg(0, f32)
    custom = Custom("twice", "2 * x", ("x",), (x,), f32, lambda x: 2 * x)
    for tree in (
        x,
        Constant(1, f32),
        Unary("neg", x),
        Binary("add", x, x),
        Select(x, x, x),
        Cast(x, f16),
        custom,
        Cast(Arg(0, i64), i32, True),
    ):
        assert with_children(tree, children(tree)) == tree


def test_types_that_hold_all_numbers_of_another() -> None:
    assert bf16.holds(i8)
    assert not f32.holds(i32)
    assert not i32.holds(f32)
    assert e5m2.holds(i4)  # three bits and the sign; -8 is a power of two
    assert not e5m2.holds(i8)
