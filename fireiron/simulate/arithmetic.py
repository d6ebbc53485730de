"""The meaning of scalar expressions on arrays: each operation rounded to its declared dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Parameter, Scalar, Select, Unary
from fireiron.base.errors import SimulationError
from fireiron.simulate.order import Array

_ERF = np.frompyfunc(math.erf, 1, 1)

# Functions are computed in f64 and rounded once: at most the last bit differs from the hardware's own rounding.
_WIDE: Mapping[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "erf": lambda x: np.asarray(_ERF(x), np.float64),
}


def evaluate_scalar(expr: Scalar, inputs: Sequence[Array], numbers: Mapping[str, float]) -> Array:
    """Compute an expression for all lanes.

    Args:
        expr: what to compute.
        inputs: one array for each argument.
        numbers: the scalar kernel parameters.

    Raises:
        SimulationError: `number-missing`.
    """
    match expr:
        case Arg(index=index, dtype=dtype):
            return cast(inputs[index], dtype)
        case Constant(value=value, dtype=dtype):
            return cast(np.asarray(value), dtype)
        case Parameter(name=name, dtype=dtype):
            if name not in numbers:
                raise SimulationError("number-missing", f"no value was given for {name}", fix=f"pass {name}=...")
            return cast(np.asarray(numbers[name]), dtype)
        case Unary(op=op, x=x):
            value = evaluate_scalar(x, inputs, numbers)
            if op == "neg":
                return -value
            if op == "abs":
                return np.abs(value)
            return cast(_WIDE[op](value.astype(np.float64)), x.dtype)
        case Binary(op=op, x=x, y=y):
            return _binary(op, evaluate_scalar(x, inputs, numbers), evaluate_scalar(y, inputs, numbers), x.dtype)
        case Select(condition=condition, x=x, y=y):
            truth = evaluate_scalar(condition, inputs, numbers) != 0
            return np.where(truth, evaluate_scalar(x, inputs, numbers), evaluate_scalar(y, inputs, numbers))
        case Cast(x=x, dtype=dtype):
            return cast(evaluate_scalar(x, inputs, numbers), dtype)
        case _ as never:
            assert_never(never)


def _binary(op: str, x: Array, y: Array, dtype: DType) -> Array:
    match op:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "div":
            return x / y if dtype.kind == "float" else _quotient(x, y)
        case "max":
            return np.fmax(x, y)  # C's fmax: a number beats NaN
        case "min":
            return np.fmin(x, y)
        case "lt":
            return (x < y).astype(dtype.numpy)
        case "le":
            return (x <= y).astype(dtype.numpy)
        case "eq":
            return (x == y).astype(dtype.numpy)
        case _:
            raise AssertionError(op)


def _quotient(x: Array, y: Array) -> Array:
    """Divide as C does, towards zero; the undefined quotient by zero is 0."""
    whole = np.abs(x.astype(np.int64)) // np.maximum(np.abs(y.astype(np.int64)), 1)
    signed = np.where((x < 0) != (y < 0), -whole, whole)
    return np.where(y == 0, 0, signed).astype(x.dtype)


def cast(value: Array, dtype: DType) -> Array:
    """Convert, rounding to nearest even; integers saturate, and NaN becomes 0 in them.

    Example:
        >>> from fireiron.algebra.dtypes import i8
        >>> cast(np.array([2.5, 300.0, -300.0, np.nan]), i8).tolist()
        [2, 127, -128, 0]
    """
    target = dtype.numpy
    if value.dtype == target:
        return value
    if dtype.kind == "int":
        limits = np.iinfo(target)
        if value.dtype.kind in "iu":
            return np.clip(value, limits.min, limits.max).astype(target)
        rounded = np.rint(value.astype(np.float64))
        return np.where(np.isnan(rounded), 0, np.clip(rounded, limits.min, limits.max)).astype(target)
    if dtype.bits < 32 and value.dtype.kind in "iu":
        value = value.astype(np.float64)
    if dtype.name == "bf16" and value.dtype == np.float64:
        value = _sticky(value)
    return value.astype(target)


def _sticky(value: Array) -> Array:
    """Round f64 to f32 keeping a sticky last bit, since ml_dtypes converts to bf16 through f32."""
    near = value.astype(np.float32)
    exact = near.astype(np.float64)
    bits = near.view(np.int32)
    lost = (exact != value) & np.isfinite(near)
    # Truncate towards zero, then set the last bit: the next rounding sees that something was there.
    away = lost & (np.abs(exact) > np.abs(value))
    return ((bits - away) | lost).astype(np.int32).view(np.float32)
