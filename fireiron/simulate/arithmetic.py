"""The meaning of scalar expressions on arrays: each operation rounded to its declared dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, assert_never

import numpy as np

from fireiron.algebra.dtypes import DType, bf16, e4m3, e5m2, f32, i64, tf32
from fireiron.algebra.elements import tf32_read, tf32_rounded
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
)
from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.errors import SimulationError
from fireiron.simulate.order import Array

# Types without their own arithmetic.
THROUGH_F32 = (tf32, e4m3, e5m2)
WRAPPED = (np.dtype(np.int32), np.dtype(np.int64))  # types whose sums wrap; 8-bit integers are summed in i32


Check: TypeAlias = Callable[[Array, Array], None]
Told: TypeAlias = Callable[[Debug, Array, Sequence[Array]], None]


def evaluate_scalar(
    expr: Scalar,
    inputs: Sequence[Array],
    numbers: Mapping[str, float],
    check: Check | None = None,
    told: Told | None = None,
) -> Array:
    """Compute an expression for all lanes.

    Args:
        expr: the expression.
        inputs: one array for each argument.
        numbers: the scalar kernel parameters.
        check: called for each sum and product of i32 or i64, with the result in more bits and the wrapped result.
        told: called with each `Debug` in the expression, its values and their coordinates.

    Raises:
        SimulationError: `number-missing`.
    """
    if isinstance(expr, Arg):  # a copied value keeps all its bits
        return cast(inputs[expr.index], expr.dtype)
    return _value(expr, inputs, numbers, check, told)


def _value(
    expr: Scalar, inputs: Sequence[Array], numbers: Mapping[str, float], check: Check | None, told: Told | None
) -> Array:
    match expr:
        case Arg(index=index, dtype=dtype):
            value = cast(inputs[index], dtype)
            return tf32_read(value) if dtype == tf32 else value
        case Constant(value=value, dtype=dtype):
            return cast(np.asarray(value), dtype)
        case Parameter(name=name, dtype=dtype):
            if name not in numbers:
                raise SimulationError("number-missing", f"no value was given for {name}", fix=f"pass {name}=...")
            return cast(np.asarray(numbers[name]), dtype)
        case Unary(op=op, x=x):
            value = _value(x, inputs, numbers, check, told)
            function = FUNCTIONS[op]
            if function.exact:
                exact = value.astype(np.float32) if x.dtype in THROUGH_F32 else value
                return _rounded(function.numpy(exact), x.dtype)
            # Computed in f64 and rounded once: at most the last bit differs from the hardware's own rounding.
            return cast(function.numpy(value.astype(np.float64)), x.dtype)
        case Binary(op=op, x=x, y=y):
            left, right = _value(x, inputs, numbers, check, told), _value(y, inputs, numbers, check, told)
            result = _binary(op, left, right, x.dtype)
            if check is not None and op in ("add", "sub", "mul") and result.dtype in WRAPPED:
                check(*np.broadcast_arrays(_binary(op, widened(left), widened(right), x.dtype), result))
            return result
        case MultiplyAdd(x=x, y=y, z=z):
            return multiply_add(*(_value(part, inputs, numbers, check, told) for part in (x, y, z)))
        case Select(condition=condition, x=x, y=y):
            truth = _value(condition, inputs, numbers, check, told) != 0
            return np.where(truth, _value(x, inputs, numbers, check, told), _value(y, inputs, numbers, check, told))
        case Cast(x=x, dtype=dtype, wraps=wraps):
            # tf32 shares its arrays' type with f32, but not its numbers.
            value = _value(x, inputs, numbers, check, told)
            if wraps:
                return value.astype(dtype.numpy)
            return tf32_rounded(value) if dtype == tf32 and x.dtype == f32 else cast(value, dtype)
        case Coordinate(value):
            raise AssertionError(f"{value} is an argument by now")
        case Debug(x=x, at=at):
            value = _value(x, inputs, numbers, check, told)
            if told is not None:
                told(expr, value, [_value(place, inputs, numbers, check, told) for place in at])
            return value
        case Custom(args=args, dtype=dtype):
            return _custom(expr, [_computed(_value(x, inputs, numbers, check, told)) for x in args], dtype)
        case _ as never:
            assert_never(never)


def _computed(value: Array) -> Array:
    """Convert an argument of a user's function as the CUDA does: floats that C does not have become f32."""
    return value if value.dtype.kind in "iu" or value.dtype.itemsize >= 4 else value.astype(np.float32)


def _custom(expr: Custom, values: Sequence[Array], dtype: DType) -> Array:
    """Call the NumPy function of a user's `custom` function.

    Raises:
        SimulationError: `custom-numpy` where the result has another shape.
    """
    shape = np.broadcast_shapes(*(x.shape for x in values))
    result = np.asarray(expr.numpy(*values))
    if result.shape != shape:
        raise SimulationError(
            "custom-numpy",
            f"numpy of {expr.name} gave the shape {result.shape} for arguments of {shape}",
            fix="compute element by element",
        )
    return tf32_rounded(result.astype(np.float32)) if dtype == tf32 else cast(result, dtype)


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z of f32, rounded once: the product is exact in f64, and its sum keeps a sticky last bit.

    Example:
        >>> x = np.float32(1 + 2**-12)
        >>> float(multiply_add(x, x, np.float32(-1 - 2**-11))) == 2**-24
        True
    """
    product, other = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = np.asarray(product + other)
    back = total - product
    lost = (product - (total - back)) + (other - back)  # rounding error of the sum
    bits = total.view(np.int64)
    odd = np.isfinite(total) & (lost != 0) & (bits % 2 == 0)
    away = (lost > 0) == (total > 0)
    return np.where(odd, (bits + np.where(away, 1, -1)).view(np.float64), total).astype(np.float32)


def widened(x: Array) -> Array:
    """Convert integers to a type that holds their sums and products: 64 bits, or Python's integers for i64."""
    return x.astype(object if x.dtype == np.int64 else np.int64)


def _binary(op: str, x: Array, y: Array, dtype: DType) -> Array:
    if dtype in THROUGH_F32:
        return _rounded(_operation(op, x.astype(np.float32), y.astype(np.float32), dtype), dtype)
    return _operation(op, x, y, dtype)


def _rounded(value: Array, dtype: DType) -> Array:
    """Round f32 results to types that the hardware computes in f32; results of other types are returned as they are."""
    if dtype not in THROUGH_F32:
        return value
    return tf32_rounded(value.astype(np.float32)) if dtype == tf32 else cast(value, dtype)


def _operation(op: str, x: Array, y: Array, dtype: DType) -> Array:
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
            return _larger(x, y, dtype)
        case "min":
            return _larger(-x, -y, dtype, np.negative) if dtype.kind == "float" else np.fmin(x, y)
        case "lt":
            return (x < y).astype(dtype.numpy)
        case "le":
            return (x <= y).astype(dtype.numpy)
        case "eq":
            return (x == y).astype(dtype.numpy)
        case "pow":
            return cast(np.power(x.astype(np.float64), y.astype(np.float64)), dtype)
        case _:
            raise AssertionError(op)


def _larger(x: Array, y: Array, dtype: DType, sign: Callable[[Array], Array] = np.positive) -> Array:
    """Take the larger number as max.NaN.f32 and max.NaN.f16x2 do: NaN is above all numbers, and 0 above -0."""
    found = np.maximum(x, y)
    if dtype.kind == "float":
        found = np.where((x == 0) & (y == 0), x + y, found)
    return sign(found)


def _quotient(x: Array, y: Array) -> Array:
    """Divide as C does, towards zero; the undefined quotient by zero is 0."""
    wide, by = x.astype(np.int64), np.where(y == 0, 1, y).astype(np.int64)
    down = wide // by
    up = (down < 0) & (down * by != wide)  # rounded down, away from zero
    return np.where(y == 0, 0, down + up).astype(x.dtype)


def cast(value: Array, dtype: DType) -> Array:
    """Convert, rounding to nearest even; integers and 8-bit floats saturate, and NaN becomes 0 in integers.

    For tf32, ties are rounded away from zero.

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
            return value.astype(target) if dtype == i64 else np.clip(value, limits.min, limits.max).astype(target)
        rounded = np.rint(value.astype(np.float64))
        beyond = rounded >= float(limits.max) + 1  # f64 does not hold the highest i64
        inside = np.where(np.isnan(rounded) | beyond, 0, np.clip(rounded, limits.min, limits.max)).astype(target)
        return np.where(beyond, limits.max, inside).astype(target)
    if (dtype.bits < 32 or dtype == tf32) and value.dtype.kind in "iu":
        value = _in_f64(value)
    if dtype in (*THROUGH_F32, bf16) and value.dtype == np.float64:
        value = _sticky(value)
    if dtype == tf32:
        return tf32_rounded(value.astype(np.float32))
    if dtype in THROUGH_F32:
        value = np.clip(value.astype(np.float32), *dtype.limits)
    return value.astype(target)


def _in_f64(value: Array) -> Array:
    """Convert integers to f64; of i64 beyond its numbers, bit 10 tells the next rounding that lower bits were lost."""
    if value.dtype != np.int64:
        return value.astype(np.float64)
    lost = value & 1023
    short = (value - lost) | np.where(lost != 0, 1024, 0)
    return np.where(np.abs(value.astype(np.float64)) < 2.0**53, value, short).astype(np.float64)


def _sticky(value: Array) -> Array:
    """Round f64 to f32 with a sticky last bit, so that a second rounding to a narrower type is right."""
    near = value.astype(np.float32)
    exact = near.astype(np.float64)
    bits = near.view(np.int32)
    lost = (exact != value) & np.isfinite(near)
    # Truncate towards zero, then set the last bit, which tells the next rounding that something was lost.
    away = lost & (np.abs(exact) > np.abs(value))
    return ((bits - away) | lost).astype(np.int32).view(np.float32)
