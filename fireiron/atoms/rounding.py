"""Multiply and add with the single rounding of the hardware, on NumPy arrays.

NumPy has no fused multiply-add. Products of narrower types are exact in f64, so only the addition there rounds. An
error-free transformation finds the addition's error, which is kept as a sticky last bit (rounding to odd); a second
rounding to a type at least two bits narrower is then right. A product of f64 elements is split by Dekker's method; the
few elements whose exponents are outside of that method's range are computed with rational numbers.

Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
odd", 2008.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

_SPLITTER = 2.0**27 + 1
_LARGEST_FACTOR = 2.0**990
_LARGEST_SUM = 2.0**1020
_SMALLEST_PRODUCT = 2.0**-900
_SMALLEST_NORMAL = 2.0**-126  # of f32


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Give a * b + c in f64, rounded once; a and b may be of any float type."""
    import numpy as np

    a, b = (np.asarray(x, np.float64) for x in (a, b))
    with np.errstate(all="ignore"):
        product = a * b
        size = np.abs(product)
        # Written so that NaN counts as easy: every sum with NaN is NaN.
        hard = (size > _LARGEST_FACTOR) | ((size < _SMALLEST_PRODUCT) & (a != 0) & (b != 0))
        hard |= (np.abs(a) > _LARGEST_FACTOR) | (np.abs(b) > _LARGEST_FACTOR) | (np.abs(c) > _LARGEST_SUM)
        error = _product_error(a, b, product)
        upper, upper_error = _two_sum(c, error)
        total, total_error = _two_sum(product, upper)
        result = np.where(np.isfinite(total), total + _odd(*_two_sum(total_error, upper_error)), product + c)
        # A sum of zeros keeps the sign that IEEE 754 gives it only in the plain addition.
        result = np.where(result == 0, product + c, result)
    if hard.any():
        operands = np.broadcast_arrays(a, b, c)
        for place in np.argwhere(np.broadcast_to(hard, result.shape)):
            where = tuple(place)
            result[where] = _fma_rational(*(float(x[where]) for x in operands))
    return result


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """Give a * b + c in f32, rounded once; a and b may be f32, f16 or bf16."""
    import numpy as np

    with np.errstate(all="ignore"):
        product = np.multiply(a, b, dtype=np.float64)
        total = product + c
        # f64 decides unless it lies exactly between two f32 values, where what the sum lost breaks the tie. Below the
        # normal f32 values, such places have more zeros at the end.
        low = total.view(np.int64) & 0x1FFF_FFFF
        tied = np.count_nonzero(low == 0x1000_0000)
        if not tied and np.count_nonzero(low) != low.size:
            tied = np.count_nonzero((low == 0) & (np.abs(total) < _SMALLEST_NORMAL) & (total != 0))
        if not tied:
            return total.astype(np.float32)
        total, error = _two_sum(product, np.asarray(c, np.float64))
        return (_odd(total, error) if error.any() else total).astype(np.float32)


def fma_f16(a: Array, b: Array, c: Array) -> Array:
    """Give a * b + c of f16 arrays, rounded once.

    The f64 sum is exact near ties of f16: the product's 22 bits and the addend's 11 bits overlap or touch there.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float16)


def fma_bf16(a: Array, b: Array, c: Array) -> Array:
    """Give a * b + c of bf16 arrays, rounded once."""
    import numpy as np

    with np.errstate(all="ignore"):
        wide = a.astype(np.float64) * b.astype(np.float64)
        total, error = _two_sum(wide, c.astype(np.float64))
        total = _odd(total, error) if error.any() else total
        # The conversion to bf16 goes through f32: that step keeps a sticky bit too.
        near = total.astype(np.float32)
        return _odd(near, total - near).astype(c.dtype)


def fma_bf16_through_f32(a: Array, b: Array, c: Array) -> Array:
    """Give a * b + c of bf16 arrays, rounded to f32 and then to bf16."""
    import numpy as np

    with np.errstate(all="ignore"):
        exact = (x.astype(np.float32) for x in (a, b, c))
        return fma_f32(*exact).astype(c.dtype)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Split a + b into its rounded value and what rounding lost (Knuth)."""
    total = a + b
    tail = total - a
    return total, (a - (total - tail)) + (b - tail)


def _product_error(a: Array, b: Array, product: Array) -> Array:
    """Give a * b - product exactly, where nothing overflows or underflows (Dekker)."""
    scaled = a * _SPLITTER
    a_high = scaled - (scaled - a)
    scaled = b * _SPLITTER
    b_high = scaled - (scaled - b)
    a_low, b_low = a - a_high, b - b_high
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _odd(total: Array, error: Array) -> Array:
    """Round total + error to odd: truncate, then set the last bit where something was lost."""
    import numpy as np

    bits = total.view(np.int64 if total.dtype.itemsize == 8 else np.int32)
    lost = (error > 0) | (error < 0)  # NaN errors, of infinite totals, count as 0
    away = lost & ((error < 0) != (bits < 0))
    return ((bits - away) | lost).view(total.dtype)


def _fma_rational(a: float, b: float, c: float) -> float:
    """Give a * b + c rounded once, for any operands."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return c if math.copysign(1.0, c) == sign and not Fraction(c) and not Fraction(a) * Fraction(b) else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
