"""Derivatives of expressions, against differences; and expressions written as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import (
    FireironError,
    Value,
    cast,
    clamp,
    custom,
    equal,
    erf,
    exp,
    f64,
    gelu,
    gelu_tanh,
    i32,
    log,
    maximum,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sqrt,
    tanh,
    where,
)
from fireiron.algebra.derivative import derivative, is_zero
from fireiron.algebra.expr import Var, symbol
from fireiron.algebra.scalar import Arg, Coordinate
from fireiron.algebra.written import read, write
from fireiron.language.pointwise import parameter
from fireiron.simulate.arithmetic import evaluate_scalar

X, Y = Value(Arg(0, f64)), Value(Arg(1, f64))
TREES: dict[str, Any] = {
    "sums": X * 3 - Y * X / (Y + 5) + 2 / X,
    "powers": X**2 * Y + abs(X) ** Y + Y**1.7 + 2**X,
    "roots": sqrt(X * X + 1) * rsqrt(Y) + log(Y * Y),
    "gelu": gelu(X * Y) + gelu_tanh(X),
    "silu": silu(X - Y) * sigmoid(Y),
    "bounds": clamp(X * Y, -0.5, 1.5) + relu(X) + maximum(X, Y),
    "choices": where(X < Y, tanh(X), erf(Y)) * equal(X, X) + exp(-X) * parameter("s", f64),
    "casts": cast(cast(X * Y, "f32") * 2, "f64") * cast(cast(X, "i32"), "f64"),
}
AT = np.array([0.37, 1.21, -0.83, 2.2, -1.9]), np.array([1.37, 0.71, 2.3, 0.4, 1.1])


def at(tree: Any, x: Any, y: Any) -> Any:
    return np.broadcast_to(evaluate_scalar(tree, [x, y], {"s": 0.7}), x.shape).astype(np.float64)


@pytest.mark.parametrize("name", TREES)
def test_derivatives_are_those_of_differences(name: str) -> None:
    tree, (x, y) = TREES[name].tree, AT
    step = 1e-3 if name == "casts" else 1e-6
    for i, (dx, dy) in enumerate(((step, 0.0), (0.0, step))):
        wanted = (at(tree, x + dx, y + dy) - at(tree, x - dx, y - dy)) / (2 * step)
        assert np.allclose(at(derivative(tree, i), x, y), wanted, rtol=1e-3 if name == "casts" else 1e-6, atol=1e-6)


def test_what_has_no_slope() -> None:
    for value in (X > Y, cast(X, "i32"), equal(X, 1), Value(Arg(1, i32)) * 2):
        assert is_zero(derivative(value.tree, 0))
    assert is_zero(derivative((X * 3).tree, 1))
    sine = custom("sine", "sin(x)", np.sin)
    assert is_zero(derivative(sine(Y).tree, 0))
    with pytest.raises(FireironError) as caught:
        derivative(sine(X).tree, 0)
    assert caught.value.code == "no-derivative"


def test_text_keeps_every_expression() -> None:
    trees = tuple(value.tree for value in TREES.values())
    twice = custom("twice", "2 * x", lambda x: 2 * x)
    assert read(write(trees)) == trees
    assert read(write((twice(X * float("inf")).tree,))) == (twice(X * float("inf")).tree,)
    kept = write((Coordinate(symbol("M")),))  # symbols are equal to themselves alone
    assert write(read(kept)) == kept
    with pytest.raises(FireironError) as caught:
        write((Coordinate(Var("m", 4)),))
    assert caught.value.code == "bad-op"
