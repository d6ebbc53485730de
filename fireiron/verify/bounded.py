"""Arithmetic on pairs of a value and its error bound, for each operation of a scalar expression.

A `Bounded` says: the result of every right kernel lies within `error` of `value`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias, assert_never

import attrs
import numpy as np

from fireiron.algebra.dtypes import DType, f64, i64, tf32
from fireiron.algebra.elements import read
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
from fireiron.algebra.unary import FUNCTIONS, QUICK_ROUNDINGS, ROUNDINGS, is_quick

Array: TypeAlias = np.ndarray[Any, Any]

F64_ROUNDING = 2.0**-53
_F64_MANTISSA = 52
SMALLEST_NORMAL = 2.0**-126  # of f32: what functions lose that give 0 for smaller results
VANISHING = 2.0**-16  # of the smallest number: what lies below is 0 however it is rounded
POWER_ROUNDINGS = 8  # CUDA's powf is right within four units in the last place


@attrs.frozen(eq=False)
class Bounded:
    """Hold expected values, and how far a right kernel's results may lie from them.

    Args:
        value: in f64.
        error: absolute error of each element; 0 where the result must be exact.
    """

    value: Array
    error: Array

    @property
    def size(self) -> Array:
        """Return the largest magnitude of a right result; infinity where the value is beyond f64."""
        return np.where(np.isinf(self.value), np.inf, np.abs(self.value) + self.error)


def largest(dtype: DType) -> float:
    """Give the largest finite number of a floating-point type."""
    return dtype.limits[1]


def smallest(dtype: DType) -> float:
    """Return a type's smallest number above 0, the most that underflow loses; 0 for integers."""
    return 2.0 ** (1 - dtype.bias - dtype.mantissa) if dtype.kind == "float" else 0.0


def unit(dtype: DType) -> float:
    """Return the relative error of one rounding to a type, plus that of the reference's rounding to f64."""
    return dtype.epsilon + F64_ROUNDING if dtype.kind == "float" else 0.0


def exact(array: Array) -> Bounded:
    """Hold numbers without error; of integers from 2^53 on, f64 does not hold all."""
    value = array.astype(np.float64)
    return Bounded(value, inexact(value, i64) if array.dtype == np.int64 else np.zeros(value.shape))


def inexact(value: Array, dtype: DType) -> Array:
    """Bound what f64 loses of results of an integer type, and of partial sums up to them: 0 below 2^53.

    Example:
        >>> inexact(np.array([2.0**52, 2.0**60]), i64).tolist(), inexact(np.array([2.0**60]), f64).tolist()
        ([0.0, 256.0], [0.0])
    """
    return np.where((np.abs(value) >= 2.0**53) & (dtype == i64), np.abs(value) * 2 * F64_ROUNDING, 0.0)


def wrapped(value: Array, error: Array, dtype: DType) -> Bounded:
    """Wrap whole numbers to an integer type's width; an inexact one near the ends may wrap or not.

    Example:
        >>> from fireiron.algebra.dtypes import i32
        >>> wrapped(np.array([2.0**31 + 1]), np.zeros(1), i32).value.tolist()
        [-2147483647.0]
    """
    low, high = dtype.limits
    error, size = error + inexact(value, dtype), float(high - low + 1)
    with np.errstate(invalid="ignore"):
        above = np.mod(value - low, size)
        found = np.where((low <= value) & (value <= high), value, above + low)
        either = (error > 0) & (np.minimum(above, size - above) <= error)
    return Bounded(found, np.where(either, size, error))


def broadcast(x: Bounded, shape: tuple[int, ...]) -> Bounded:
    """Repeat a value over a shape."""
    return Bounded(np.broadcast_to(x.value, shape), np.broadcast_to(x.error, shape))


def transposed(x: Bounded) -> Bounded:
    """Exchange rows and columns."""
    return Bounded(x.value.swapaxes(-1, -2), x.error.swapaxes(-1, -2))


def rounded(value: Array, error: Array, dtype: DType, roundings: int = 1) -> Bounded:
    """Add the error of rounding a result to its dtype; numbers beyond the dtype's largest become infinities."""
    if dtype.kind != "float":
        return Bounded(value, error)
    return _overflowed(value, more(error, roundings * unit(dtype) * (np.abs(value) + error) + smallest(dtype)), dtype)


def more(error: Array, lost: Array) -> Array:
    """Add a loss to an error; an infinite error stays infinite, also where the loss is NaN."""
    return np.where(np.isinf(error), error, error + lost)


def _overflowed(value: Array, error: Array, dtype: DType) -> Bounded:
    """Replace numbers beyond a floating-point type's largest by infinities; 8-bit floats have saturated before.

    Where a number may or may not be beyond the largest, by its error, its error becomes infinite. Operations on two
    infinities give NaN with an infinite error: nothing is known of the result.
    """
    most = largest(dtype)
    beyond = np.isfinite(value) & ~(np.abs(value) + error < most)
    if dtype.bits <= 8 or not beyond.any():
        return Bounded(value, error)
    surely = np.abs(value) - error >= most * (1 + 2 * dtype.epsilon)
    return Bounded(
        np.where(beyond, np.copysign(np.inf, value), value),
        np.where(beyond, np.where(surely, 0.0, np.inf), error),
    )


def _once(value: Array, error: Array, x: Bounded, y: Bounded, dtype: DType) -> Bounded:
    """Round the sum or product `value` of x and y, unless it is exact and its dtype holds it exactly."""
    if dtype.kind == "int":
        return wrapped(value, error, dtype)
    found = rounded(value, error, dtype)
    if not (exactly := error == 0).any():
        return found
    if dtype.mantissa < _F64_MANTISSA:  # what f64 loses is far below a rounding of such a type
        held = read(value.astype(dtype.numpy), dtype).astype(np.float64) == value
    else:
        held = np.asarray(_small(x.value) & _small(y.value) & _small(value))
    return Bounded(found.value, np.where(exactly & held, 0.0, found.error))


def _small(x: Array) -> Array:
    """Say which numbers have so few bits that f64 holds their sums and products exactly."""
    return (np.abs(x) < 2.0**18) & (np.rint(x * 2.0**8) == x * 2.0**8)


def cast(x: Bounded, dtype: DType, source: DType | None = None) -> Bounded:
    """Convert: floats round, integers and 8-bit floats saturate.

    Args:
        x: the value to convert, with its error.
        dtype: the type to convert to.
        source: type of `x`, where known; a conversion to a wider type loses nothing.
    """
    if dtype == source:
        return x
    if dtype.kind == "int":
        if source is not None and source.kind == "int" and _holds(dtype, source):
            return x
        limits = np.iinfo(dtype.numpy)
        whole = np.clip(np.rint(x.value), limits.min, limits.max)
        whole = np.where(np.isnan(x.value), 0.0, whole)
        return Bounded(whole, np.where(x.error == 0, 0.0, np.floor(x.error + 1)))
    if source is not None and source.kind == "float" and source.mantissa <= dtype.mantissa:
        return x
    if dtype.bits == 8:
        x = Bounded(np.clip(x.value, *dtype.limits), x.error)
    found = rounded(x.value, x.error, dtype)
    value, error = found.value, found.error
    if (known := x.error == 0).any():
        stored = read(x.value.astype(dtype.numpy), dtype).astype(np.float64)
        # A number that the type holds stays what it is; another one becomes the nearest. Of tf32 ties differ.
        known &= (stored == x.value) | ((dtype != tf32) & (x.value.astype(np.float32).astype(np.float64) == x.value))
        value, error = np.where(known, stored, value), np.where(known, 0.0, error)
    return Bounded(value, error)


def _holds(dtype: DType, source: DType) -> bool:
    """Say whether an integer type holds all numbers of another."""
    (low, high), (least, most) = dtype.limits, source.limits
    return low <= least and most <= high


def evaluate(tree: Scalar, inputs: Sequence[Bounded], numbers: Mapping[str, float]) -> Bounded:
    """Compute an expression's value and error.

    Args:
        tree: the expression to compute.
        inputs: a value with its error for each argument.
        numbers: scalars by name.

    Raises:
        KeyError: for a scalar without a value.
    """
    match tree:
        case Arg(index):
            return inputs[index]
        case Constant(value, dtype):
            return exact(np.asarray(value).astype(dtype.numpy))
        case Parameter(name, dtype):
            return exact(np.asarray(numbers[name]).astype(dtype.numpy))
        case Unary(op, x):
            return _unary(op, evaluate(x, inputs, numbers), tree.dtype)
        case Binary(op, x, y):
            found = _binary(op, evaluate(x, inputs, numbers), evaluate(y, inputs, numbers), tree.dtype)
            if not is_quick(tree):
                return found
            found = rounded(found.value, found.error, tree.dtype, QUICK_ROUNDINGS)
            return attrs.evolve(found, error=found.error + SMALLEST_NORMAL)  # of inverses, which lose what is smaller
        case MultiplyAdd(x, y, z):
            return evaluate(Binary("add", Binary("mul", x, y), z), inputs, numbers)
        case Select(condition, x, y):
            return _select(*(evaluate(part, inputs, numbers) for part in (condition, x, y)))
        case Cast(x, dtype, wraps):
            value = evaluate(x, inputs, numbers)
            return wrapped(value.value, value.error, dtype) if wraps else cast(value, dtype, x.dtype)
        case Coordinate(value):
            raise AssertionError(f"{value} is an argument by now")
        case Debug(x=x):
            return evaluate(x, inputs, numbers)
        case Custom(args=args, dtype=dtype):
            return _custom(tree, [evaluate(x, inputs, numbers) for x in args], dtype)
        case _ as never:
            assert_never(never)


def _custom(tree: Custom, args: Sequence[Bounded], dtype: DType) -> Bounded:
    """Bound a user's function by its values at the corners of its arguments' intervals."""
    value = np.asarray(tree.numpy(*(x.value for x in args)), np.float64)
    error = np.zeros(value.shape)
    for signs in product((-1, 0, 1), repeat=len(args)) if any(x.error.any() for x in args) else ():
        corner = tree.numpy(*(x.value + sign * x.error for sign, x in zip(signs, args, strict=True)))
        error = np.fmax(error, np.abs(np.asarray(corner, np.float64) - value))
    if dtype.kind == "int":
        return cast(Bounded(value, error), dtype)
    return rounded(value, error, dtype, ROUNDINGS)


def _unary(op: str, x: Bounded, dtype: DType) -> Bounded:
    function = FUNCTIONS[op]
    value, error = function.numpy(x.value), function.moved(x.value, x.error)
    error = np.where(np.isinf(x.error) & np.isnan(error), np.inf, error)
    if function.exact:
        return Bounded(value, error)
    found = rounded(value, error, dtype, function.roundings)
    if function.flushes and dtype != f64:
        found = attrs.evolve(found, error=found.error + SMALLEST_NORMAL)
    if function.stray and dtype != f64:
        found = attrs.evolve(found, error=found.error + function.stray)
    known, value = np.zeros(value.shape, bool), found.value
    for one in function.ones:
        known |= (x.value == one) & (x.error == 0)
    if function.vanishes:
        nothing = value + error < smallest(dtype) * VANISHING
        value, known = np.where(nothing, 0.0, value), known | nothing
    return Bounded(value, np.where(known, 0.0, found.error))


_COMPARED: Mapping[str, Callable[[Array, Array], Array]] = {"lt": np.less, "le": np.less_equal, "eq": np.equal}


def _binary(op: str, x: Bounded, y: Bounded, dtype: DType) -> Bounded:
    match op:
        case "add":
            return _once(x.value + y.value, x.error + y.error, x, y, dtype)
        case "sub":
            return _once(x.value - y.value, x.error + y.error, x, y, dtype)
        case "mul":
            with np.errstate(invalid="ignore"):
                error = np.abs(x.value) * y.error + np.abs(y.value) * x.error + x.error * y.error
            error = np.where(np.isnan(error), np.inf, error)  # 0 times what may be anything may be NaN
            return _once(x.value * y.value, error, x, y, dtype)
        case "div":
            return _quotient(x, y, dtype)
        case "max":
            return Bounded(np.maximum(x.value, y.value), _chosen(x, y, x.value - y.value))
        case "min":
            return Bounded(np.minimum(x.value, y.value), _chosen(x, y, y.value - x.value))
        case "pow":
            return _power(x, y, dtype)
        case "lt" | "le" | "eq":
            truth = np.asarray(_COMPARED[op](x.value, y.value)).astype(np.float64)
            reach = x.error + y.error
            # Where the errors reach over the difference, either answer is right.
            return Bounded(truth, np.where((reach == 0) | (np.abs(x.value - y.value) > reach), 0.0, 1.0))
        case _:
            raise AssertionError(op)


def _power(x: Bounded, y: Bounded, dtype: DType) -> Bounded:
    """Raise to a power, bounded by values at the corners: it is monotone in both operands for a positive base."""
    value = np.power(x.value, y.value)
    error = np.zeros(value.shape)
    for signs in product((-1, 1), repeat=2) if x.error.any() or y.error.any() else ():
        corner = np.power(x.value + signs[0] * x.error, y.value + signs[1] * y.error)
        error = np.fmax(error, np.abs(corner - value))
    error = np.where((x.error > 0) & (x.value <= x.error), np.inf, error)
    return rounded(value, error, dtype, POWER_ROUNDINGS)


def _chosen(x: Bounded, y: Bounded, lead: Array) -> Array:
    """Return the error of a maximum: that of the larger operand, or the larger error where either may be chosen.

    `lead` is x - y, and -`lead` for a minimum.
    """
    reach = x.error + y.error
    return np.where(lead > reach, x.error, np.where(-lead > reach, y.error, np.maximum(x.error, y.error)))


def _quotient(x: Bounded, y: Bounded, dtype: DType) -> Bounded:
    value = x.value / y.value
    least = np.abs(y.value) - y.error
    error = np.where(least > 0, (x.error + np.abs(value) * y.error) / least, np.inf)
    error = np.where(x.error + y.error == 0, 0.0, error)
    if dtype.kind == "int":  # C's division goes towards zero; one by zero is undefined, and 0 in the simulator
        return Bounded(np.where(y.value == 0, 0.0, np.trunc(value)), np.where(error == 0, 0.0, np.floor(error) + 1))
    error = np.where(y.size >= largest(dtype), np.fmax(error, np.abs(value)), error)  # over an infinity it is 0
    found = rounded(value, error, dtype)
    exactly = (x.error == 0) & (y.error == 0) & (np.abs(np.frexp(y.value)[0]) == 0.5)  # by a power of two
    if exactly.any() and dtype.mantissa < _F64_MANTISSA:
        exactly &= read(value.astype(dtype.numpy), dtype).astype(np.float64) == value
        return Bounded(found.value, np.where(exactly, 0.0, found.error))
    return found


def _select(condition: Bounded, x: Bounded, y: Bounded) -> Bounded:
    chosen = condition.value != 0
    value = np.where(chosen, x.value, y.value)
    error = np.where(chosen, x.error, y.error)
    other = np.where(chosen, np.abs(y.value - x.value) + y.error, np.abs(x.value - y.value) + x.error)
    return Bounded(value, np.where(condition.error == 0, error, np.maximum(error, other)))
