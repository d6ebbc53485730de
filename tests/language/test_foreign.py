"""Operators and functions of Python, NumPy and torch on expressions: values, or errors with a code."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, Matrix, Value, f32, i32
from fireiron.language import foreign
from fireiron.language.pointwise import accumulator, read
from fireiron.simulate.arithmetic import evaluate_scalar

X, Y = np.array([0.3, -1.7, 0.0, 2.5], np.float32), np.array([2.0, 0.5, -1.0, 2.5], np.float32)
OTHER = Matrix(4, 4, name="other")


def computed(value: Value, x: Any = X, y: Any = Y) -> Any:
    with np.errstate(all="ignore"):
        return np.broadcast_to(evaluate_scalar(value.tree, [x, y], {}), x.shape)


@pytest.mark.parametrize("name", [name for name in foreign.FUNCTIONS if isinstance(getattr(np, name, None), np.ufunc)])
def test_ufuncs_mean_on_expressions_what_they_mean_on_arrays(name: str) -> None:
    function = getattr(np, name)
    x, y = accumulator(f32), read(OTHER)
    values = (x,) if function.nin == 1 else (x, y)
    with np.errstate(all="ignore"):
        wanted = function(*((X,) if function.nin == 1 else (X, Y))).astype(np.float32)
    assert np.allclose(computed(function(*values)), wanted, rtol=1e-6, equal_nan=True)
    if function.nin == 2:
        with np.errstate(all="ignore"):
            sides = function(X, np.float32(2)), function(np.float32(2), X)
        assert np.allclose(computed(function(x, 2.0)), sides[0], rtol=1e-6, equal_nan=True)
        assert np.allclose(computed(function(np.float32(2), x)), sides[1], rtol=1e-6, equal_nan=True)


def test_other_functions_of_numpy() -> None:
    x = accumulator(f32)
    assert np.array_equal(computed(np.where(x > 0, x, -1.0)), np.where(X > 0, X, -1))
    assert np.array_equal(computed(np.clip(x, -1, 1)), np.clip(X, -1, 1))
    assert np.array_equal(computed(np.float64(2.0) * x + np.int64(1)), 2 * X + 1)
    assert (math.floor(x), math.ceil(x), +x) == (np.floor(x), np.ceil(x), x)


def test_functions_of_torch() -> None:
    """Torch hands its functions to the classes of their arguments; so does this."""
    x = accumulator(f32)

    def called(name: str, *args: Any, **options: Any) -> Any:
        return Value.__torch_function__(SimpleNamespace(__name__=name), (Value,), args, options)

    assert np.array_equal(computed(called("relu", x, inplace=False)), np.maximum(X, 0))
    assert called("gelu", x, approximate="tanh") != called("gelu", x)
    assert np.array_equal(computed(called("clamp", x, -1, 1)), np.clip(X, -1, 1))
    with pytest.raises(FireironError, match=r"torch\.sin has no counterpart"):
        called("sin", x)


@pytest.mark.parametrize("exponent", [*range(-4, 18), 0.5, -0.5, 1.5, -2.25, 40])
def test_powers(exponent: float) -> None:
    found = computed(accumulator(f32) ** exponent)
    with np.errstate(all="ignore"):
        wanted = np.power(X.astype(np.float64), exponent)
    assert np.allclose(found, wanted, rtol=3e-6, equal_nan=True)
    assert np.allclose(computed(1.5 ** accumulator(f32)), 1.5**X, rtol=1e-6)


def test_powers_of_integers() -> None:
    found = evaluate_scalar((accumulator(i32) ** 5).tree, [np.array([3, -2, 0], np.int32)], {})
    assert found.tolist() == [243, -32, 0]
    for exponent in (-1, 0.5, 17):
        with pytest.raises(FireironError) as caught:
            accumulator(i32) ** exponent
        assert caught.value.code == "fraction-of-integer"


PYTHON = {
    "//": lambda x: x // 2,
    "r//": lambda x: 2 // x,
    "%": lambda x: x % 2,
    "@": lambda x: x @ x,
    "^": lambda x: x ^ 2,
    "<<": lambda x: x << 1,
    "[]": lambda x: x[0],
    "in": lambda x: 1 in x,
    "for": lambda x: list(x),
    "len": len,
    "float": float,
    "int": int,
    "index": operator.index,
    "complex": complex,
    "round": round,
    "trunc": math.trunc,
    "divmod": lambda x: divmod(x, 2),
    "exp": math.exp,
    "if": lambda x: max(x, 0),
    "sin": np.sin,
    "sum": np.sum,
    "reduce": np.add.reduce,
    "array": np.asarray,
    "beside": lambda x: np.ones(3) + x,
    "behind": lambda x: x + np.ones(3),
    "equals": lambda x: (x == 0) * x,
    "attribute": lambda x: x.exp,
    "arguments": lambda x: np.exp(x, where=np.ones(3, bool)),
    "complex number": lambda x: x * 1j,
}


@pytest.mark.parametrize("name", PYTHON)
def test_what_has_no_meaning_is_refused_with_a_code(name: str) -> None:
    with pytest.raises(FireironError) as caught:
        PYTHON[name](accumulator(f32))
    assert caught.value.code in ("bad-op", "bad-operand", "index-division")
    assert caught.value.fix


def test_every_operator_is_refused_in_words_of_its_own() -> None:
    for name in foreign.OPERATORS:
        assert getattr(Value, name, None) is not None, name
        with pytest.raises(FireironError):
            getattr(accumulator(f32), name)(1)


def test_expressions_are_plain_objects() -> None:
    value = accumulator(f32) * read(OTHER) + 1
    assert copy.deepcopy(value) == value == pickle.loads(pickle.dumps(value))
    assert not hasattr(value, "shape")
    assert repr(value) == "<Value acc * other + 1 of f32>"
    assert repr(OTHER) == "<Tensor other[4, 4].f32.GL>"
    assert len(repr([Matrix(64, 64, "bf16"), f32, OTHER.memory, OTHER.memory.scope])) < 60
