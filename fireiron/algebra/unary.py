"""Functions of one value: for each a record with its CUDA, its NumPy function, its error bounds and its derivative.

To add a function, add a record here; `fireiron.language.functions` gives it a Python name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Binary, Constant, Scalar, Select, Unary, parts

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

ROUNDINGS = 4  # CUDA's functions are right within two units in the last place: four roundings
QUICK_ROUNDINGS = 4  # of a quick division, two units in the last place: PTX ISA, div.full.f32


@attrs.frozen
class Function:
    """Describe a function of one value; the result has the operand's type.

    Args:
        name: the operation's name in a `Unary`.
        cuda: the C function of a double; the function of a float has the suffix f. For neg, the operator.
        numpy: the function on arrays.
        derivative: returns the derivative's expression, given the argument.
        single: the C function of a float, if it has another name.
        flushes: whether float results below the smallest normal number become 0.
        integers: the C function of an int, or the operator; "" where integers are an error.
        exact: whether the result is always a number of the operand's type, so that it is not rounded.
        start: the start of the domain.
        monotone: whether the results at the ends of an interval bound the results inside; if not, the function's slope
            is at most 1.
        ones: arguments for which the result is exactly 1.
        vanishes: whether results far below the smallest number of their type are exactly 0.
        slots: number of instructions of a call on a float, compiled by CUDA 13 for sm_90, for most arguments.
        roundings: error bound of CUDA's result, in roundings of its type; 0 where it is exact.
        stray: additional absolute error bound of a float's result.
    """

    name: str
    cuda: str
    numpy: Callable[[Any], Any] = attrs.field(eq=False, repr=False)
    derivative: Callable[[Scalar], Scalar] = attrs.field(eq=False, repr=False)
    single: str = ""
    flushes: bool = False
    integers: str = ""
    exact: bool = False
    start: float = -math.inf
    monotone: bool = True
    ones: tuple[float, ...] = ()
    vanishes: bool = False
    slots: int = 1
    roundings: int = attrs.field(default=attrs.Factory(lambda self: 0 if self.exact else ROUNDINGS, takes_self=True))
    stray: float = 0.0

    def moved(self, value: Array, error: Array) -> Array:
        """Return a bound of the change of the result where the argument differs from `value` by at most `error`."""
        import numpy as np

        if not self.monotone:
            return error
        middle = self.numpy(value)
        ends = [np.abs(self.numpy(np.maximum(value + sign * error, self.start)) - middle) for sign in (-1, 1)]
        return np.maximum(*ends)


def _number(value: float, x: Scalar) -> Scalar:
    return Constant(value, x.dtype)


def _times(value: float, x: Scalar) -> Scalar:
    return Binary("mul", _number(value, x), x)


def _plus(value: float, x: Scalar) -> Scalar:
    return Binary("add", _number(value, x), x)


def _over(value: float, x: Scalar) -> Scalar:
    return Binary("div", _number(value, x), x)


def _square(x: Scalar) -> Scalar:
    return Binary("mul", x, x)


def _lazily(name: str) -> Callable[[Any], Any]:
    """Return a function that imports a NumPy function when it is first called."""

    def call(x: Any) -> Any:
        import numpy as np

        return getattr(np, name)(x)

    return call


def _rsqrt(x: Any) -> Any:
    import numpy as np

    return 1.0 / np.sqrt(x)


def _erf(x: Any) -> Any:
    import numpy as np

    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.float64)


def _normcdf(x: Any) -> Any:
    """Return erfc(-x / sqrt(2)) / 2, corrected for the rounding of x / sqrt(2), which the tail amplifies by x * x."""
    import numpy as np

    root, rest = math.sqrt(0.5), -4.833646656726457e-17  # 1 / sqrt(2) as the sum of an f64 and a remainder
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        t = -root * x
        (a, b), (c, d) = _halves(np.float64(-root)), _halves(x)
        missed = ((a * c - t) + a * d + b * c) + b * d - rest * x
        made_good = np.where(np.isfinite(missed), missed, 0.0) * (2 / math.sqrt(math.pi)) * np.exp(-t * t)
    return 0.5 * (np.asarray(np.frompyfunc(math.erfc, 1, 1)(t), np.float64) - made_good)


def _halves(x: Any) -> tuple[Any, Any]:
    """Split f64 numbers into two of 26 bits, whose products are exact (Dekker)."""
    upper = x * 134217729.0  # 2**27 + 1
    upper = upper - (upper - x)
    return upper, x - upper


def _density(x: Scalar) -> Scalar:
    return _times(1 / math.sqrt(2 * math.pi), Unary("exp", _times(-0.5, _square(x))))


FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        Function("neg", "-", _lazily("negative"), lambda x: _number(-1.0, x), integers="-", exact=True, monotone=False),
        Function(
            "abs", "fabs", _lazily("abs"),
            lambda x: Select(Binary("lt", x, _number(0.0, x)), _number(-1.0, x), _number(1.0, x)),
            integers="abs", exact=True, monotone=False,
        ),
        Function("exp", "exp", _lazily("exp"), lambda x: Unary("exp", x), ones=(0.0,), vanishes=True, slots=10),
        Function("log", "log", _lazily("log"), lambda x: _over(1.0, x), start=0.0, slots=28),
        Function(
            # Without branches, see `fireiron.cuda.helpers`: of |x| >= 0.4 off by 11 roundings at most.
            "tanh", "tanh", _lazily("tanh"), lambda x: Binary("sub", _number(1.0, x), _square(Unary("tanh", x))),
            "tanh_fitted", slots=14, roundings=12,
        ),
        Function("sqrt", "sqrt", _lazily("sqrt"), lambda x: _over(0.5, Unary("sqrt", x)), start=0.0, slots=8),
        Function(
            "rsqrt", "rsqrt", _rsqrt, lambda x: Binary("div", _times(-0.5, Unary("rsqrt", x)), x), start=0.0, slots=4
        ),
        Function(
            "erf", "erf", _erf, lambda x: _times(2 / math.sqrt(math.pi), Unary("exp", Unary("neg", _square(x)))),
            slots=29,
        ),
        # 2 to a polynomial of |x|, see `fireiron.cuda.helpers`: of more than -5.5 off by 216 roundings at most.
        Function(
            "normcdf", "normcdf", _normcdf, _density, "normcdf_fitted", flushes=True, slots=12, roundings=256,
            stray=2.0**-37,
        ),
        # One instruction, off by 2^-22 of the result at most, four roundings of f32: PTX ISA 9.7.3.21, ex2.
        Function(
            "exp2", "exp2", _lazily("exp2"), lambda x: _times(math.log(2), Unary("exp2", x)), "exp2_approx",
            flushes=True, ones=(0.0,), vanishes=True, slots=4,
        ),
        Function("log2", "log2", _lazily("log2"), lambda x: _over(1 / math.log(2), x), start=0.0, slots=30),
        Function("log1p", "log1p", _lazily("log1p"), lambda x: _over(1.0, _plus(1.0, x)), start=-1.0, slots=31),
        Function("expm1", "expm1", _lazily("expm1"), lambda x: Unary("exp", x), slots=24),
        Function("floor", "floor", _lazily("floor"), lambda x: _number(0.0, x), exact=True),
        Function("ceil", "ceil", _lazily("ceil"), lambda x: _number(0.0, x), exact=True),
        # The value itself, rounded to its type: no fused multiply-add takes the product that it is.
        Function("rounded", "+", _lazily("positive"), lambda x: _number(1.0, x), integers="+", exact=True, slots=0),
        # Of a condition: the condition itself, which what it is combined with implies anyway.
        Function("implied", "+", _lazily("positive"), lambda x: _number(1.0, x), integers="+", exact=True),
    )
}  # fmt: skip


def is_quick(tree: Binary) -> bool:
    """Say whether a quotient uses the quick division of f32 (div.full): where the divisor has an inexact function.

    Such a divisor already has an error above one rounding. An exact division has branches, which keep the compiler from
    computing several quotients at once.

    Example:
        >>> from fireiron.algebra.scalar import Arg
        >>> x, one = Arg(0, f32), Constant(1, f32)
        >>> is_quick(Binary("div", x, Binary("add", one, Unary("exp", x)))), is_quick(Binary("div", one, x))
        (True, False)
    """
    if tree.op != "div" or tree.dtype != f32:
        return False
    return any(isinstance(part, Unary) and FUNCTIONS[part.op].roundings > 0 for part in parts(tree.y))
