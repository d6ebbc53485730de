"""The functions of the pointwise language: each builds a tree of a few primitive operations.

Ops for `epilog(...)` and `prolog(...)` are functions of one value: `relu`, or what `add(bias)` and `clamp_to(0, 6)`
make.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fireiron.algebra.derivative import derivative as slope_of
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.dtypes import f32
from fireiron.algebra.exponents import exponent
from fireiron.algebra.scalar import Custom, Debug
from fireiron.base.contract import checked, checks
from fireiron.base.errors import SpecError
from fireiron.base.link import here
from fireiron.base.names import check_name
from fireiron.language.pointwise import (
    Op,
    Operand,
    Value,
    accumulator,
    binary,
    cast_to,
    expression,
    lifted,
    merged,
    substituted,
    unary,
    where,
)
from fireiron.language.tensor import Tensor

# exp overflows f32 beyond 88; sigmoid is below 2e-35 there, whatever it is exactly.
STEEPEST = 80.0


def maximum(x: Operand, y: Operand) -> Value:
    """Take the larger of two values; NaN if either value is NaN, as in torch.maximum."""
    return binary("max", x, y)


def minimum(x: Operand, y: Operand) -> Value:
    """Take the smaller of two values; NaN if either value is NaN, as in torch.minimum."""
    return binary("min", x, y)


def equal(x: Operand, y: Operand) -> Value:
    """Give 1 where two values are equal, else 0."""
    return binary("eq", x, y)


def clamp(x: Operand, low: Operand, high: Operand) -> Value:
    """Keep a value between two others; NaN stays NaN, as in torch.clamp."""
    return minimum(maximum(x, low), high)


def relu(x: Operand) -> Value:
    """Replace negative values by zero; NaN stays NaN, as in torch.relu."""
    return maximum(x, 0)


def exp(x: Operand) -> Value:
    """Take the exponential."""
    return unary("exp", x)


def exp2(x: Operand) -> Value:
    """Take 2 to the power x."""
    return unary("exp2", x)


def log(x: Operand) -> Value:
    """Take the natural logarithm."""
    return unary("log", x)


def log2(x: Operand) -> Value:
    """Take the logarithm to base 2."""
    return unary("log2", x)


def log1p(x: Operand) -> Value:
    """Take the natural logarithm of 1 + x, exact near 0 too."""
    return unary("log1p", x)


def expm1(x: Operand) -> Value:
    """Take exp(x) - 1, exact near 0 too."""
    return unary("expm1", x)


def floor(x: Operand) -> Value:
    """Take the largest whole number that is not above x."""
    return unary("floor", x)


def ceil(x: Operand) -> Value:
    """Take the smallest whole number that is not below x."""
    return unary("ceil", x)


def sqrt(x: Operand) -> Value:
    """Take the square root."""
    return unary("sqrt", x)


def rsqrt(x: Operand) -> Value:
    """Take the inverse square root."""
    return unary("rsqrt", x)


def tanh(x: Operand) -> Value:
    """Take the hyperbolic tangent."""
    return unary("tanh", x)


def erf(x: Operand) -> Value:
    """Take the error function."""
    return unary("erf", x)


def normcdf(x: Operand) -> Value:
    """Take the cumulative distribution function of the standard normal distribution."""
    return unary("normcdf", x)


def sigmoid(x: Operand) -> Value:
    """Take 1 / (1 + exp(-x))."""
    return 1 / (1 + _falling(lifted(x)[0]))


def _falling(x: Value) -> Value:
    """Return min(exp(-x), exp(STEEPEST)); for f32 by exp2, which takes two instructions instead of ten."""
    if x.dtype != f32:
        return exp(minimum(-x, STEEPEST))
    return exp2(minimum(x * -math.log2(math.e), STEEPEST * math.log2(math.e)))


def silu(x: Operand) -> Value:
    """Take x * sigmoid(x)."""
    (x,) = lifted(x)
    return x / (1 + _falling(x))


def gelu(x: Operand) -> Value:
    """Take x * normcdf(x)."""
    (x,) = lifted(x)
    return x * normcdf(x)


def gelu_tanh(x: Operand) -> Value:
    """Take the approximation of gelu by tanh."""
    (x,) = lifted(x)
    return x * 0.5 * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def add(operand: Operand) -> Op:
    """Make the op that adds a tensor, broadcast over the output, or a number."""
    return lambda x: lifted(x)[0] + operand


def scale(factor: Operand) -> Op:
    """Make the op that multiplies by a tensor, broadcast over the output, or a number.

    An integer is multiplied by a fraction in f32.
    """
    fraction = isinstance(factor, float) or (isinstance(factor, Value | Tensor) and factor.dtype.kind == "float")
    return lambda x: (cast_to(x, f32) if fraction and x.dtype.kind == "int" else x) * factor


def clamp_to(low: Operand, high: Operand) -> Op:
    """Make the op that keeps values between two others; NaN stays NaN, as `clamp` says."""
    return lambda x: clamp(x, low, high)


def saturate(dtype: object) -> Op:
    """Make the op that converts to an element type: rounds to nearest even; integers and 8-bit floats saturate.

    Raises:
        SpecError: `unknown-dtype`.
    """
    kind = find_dtype(dtype)
    return lambda x: cast_to(x, kind)


@checks("mask")
def dropout(mask: Operand, keep: float) -> Op:
    """Make the op of dropout: elements become 0 where a mask is 0, and are multiplied by 1 / keep elsewhere.

    Args:
        mask: a tensor of any type, broadcast over the output.
        keep: the fraction of elements that is kept, above 0 and at most 1. Example: 0.9.

    Raises:
        SpecError: `dropout-keep`.
    """
    if not 0 < keep <= 1:
        raise SpecError(
            "dropout-keep", f"dropout keeps {keep} of the values", fix="give a part above 0, up to 1", link=here()
        )
    return lambda x: where(mask, x * (1 / keep), 0)


def quantise(dtype: object, inverse_scale: Operand = 1.0, zero_point: Operand | None = None) -> Op:
    """Make the op that rounds x * inverse_scale + zero_point to a type of 8 bits, which saturates.

    Args:
        dtype: i8, u8, e4m3 or e5m2.
        inverse_scale: a number, the name of a scalar, or a tensor that broadcasts.
        zero_point: a number, name or tensor in the same way; None for 0.
    """

    def op(x: Value) -> Value:
        scaled = x * inverse_scale
        return cast_to(scaled if zero_point is None else scaled + zero_point, dtype)

    return op


def dequantise(dtype: object, scales: Operand, zero_points: Operand | None = None) -> Op:
    """Make the op that computes (x - zero_point) * scale in another type.

    Args:
        dtype: the type of the computation and of the result (f16).
        scales: a tensor. One with fewer rows along K than the operand has one scale for each group of neighbouring
            rows.
        zero_points: a tensor in the same way; None for 0.
    """

    def op(x: Value) -> Value:
        wide = cast_to(x, dtype)
        return (wide if zero_points is None else wide - zero_points) * scales

    return op


def normalise(mean: Operand, rstd: Operand, gain: Operand | None = None, bias: Operand | None = None) -> Op:
    """Make the op of layer normalisation with given statistics: (x - mean) * rstd * gain + bias.

    Args:
        mean, rstd: tensors of one value for each row.
        gain, bias: tensors of one value for each column; None for none.
    """

    def op(x: Value) -> Value:
        wide = cast_to(x, "f32")
        y = (wide - mean) * rstd
        y = y if gain is None else y * gain
        return cast_to(y if bias is None else y + bias, x.dtype)

    return op


@checked
def derivative(function: Callable[[Value], Value], at: Value) -> Value:
    """Return the derivative of a function at a value, as an expression.

    Args:
        function: a function from an expression of floats to another expression.
        at: the argument, an expression of f32 or f64.

    Raises:
        SpecError: `no-derivative` where a `custom` function reads the argument; `bad-op` where `function` returns no
            expression.

    Example:
        >>> from fireiron.language.pointwise import accumulator
        >>> print(derivative(lambda s: s * s * 0.5 + 3, accumulator(f32)))
        (acc + acc) * 0.5
    """
    made = expression((function,), accumulator(at.dtype))
    return substituted(Value(slope_of(made.tree, 0), made.tensors), at)


def implied(condition: Value) -> Value:
    """Mark a condition that what it is combined with implies: kernels bound their loops by it, and do not evaluate it.

    In `c & implied(a)`, a holds wherever c holds; in `where(implied(b), 1, c)`, c holds wherever b holds.

    Args:
        condition: comparisons of indices with numbers or array elements.
    """
    return unary("implied", condition)


def as_exponent(x: Value) -> Value:
    """Return the value in fewer instructions, where only its absolute error counts, as that of an exponent does.

    Constant factors and terms of f32 that follow each other become one of each, a factor of a sum joins those of its
    terms, and tanh(x) becomes 2 / (1 + exp(-2 x)) - 1, which is off by 2^-21 at most, near 0 too.

    Example:
        >>> from fireiron.language.pointwise import accumulator
        >>> print(as_exponent(accumulator(f32) / 10 * 20 + 1 - 3))
        acc * 2 + -2
    """
    return Value(exponent(x.tree), x.tensors)


def rounded(x: Value) -> Value:
    """Mark a value that is rounded to its type before it is used: no fused multiply-add takes the product that it is.

    Where a value and its rounded maximum are subtracted, both are then the same number.

    Example:
        >>> from fireiron.language.pointwise import accumulator
        >>> print(rounded(accumulator(f32) * 3) - 5)
        rounded(acc * 3) - 5
    """
    return unary("rounded", x)


@checked
def debug(name: str, at: tuple[int, ...] | None = None) -> Op:
    """Make the op that prints each value, with its block, thread and coordinates, and passes it on unchanged.

    A GPU prints by `printf`, in no fixed order; the simulator prints the same lines. Kernels that print are slow;
    spills of registers, which are an error elsewhere, are accepted in them.

    Args:
        name: the start of each printed line.
        at: coordinates of the one element to print; None prints all elements.

    Raises:
        SpecError: `bad-debug`.

    Example:
        >>> import numpy as np
        >>> from fireiron import matmul
        >>> from fireiron.schedules import simt
        >>> a, b = np.ones((64, 8), np.float32), np.ones((8, 64), np.float32)
        >>> schedule = simt.sgemm(matmul(64, 64, 8), ops=(debug("sum", at=(3, 5)), relu))
        >>> found = schedule.simulate(a, b)
        sum: block 0, thread 1, [3, 5] = 8
    """
    if not name.isprintable() or not name or any(place < 0 for place in at or ()):
        raise SpecError(
            "bad-debug",
            f"debug({name!r}{'' if at is None else f', at={at}'}) names no value",
            fix="give a name that prints on one line, and coordinates of 0 and more",
            link=here(),
        )

    def op(x: Value) -> Value:
        (x,) = lifted(x)
        return Value(Debug(name, x.tree, only=at), x.tensors)

    op.__name__ = f"debug {name}"
    return op


@checked
def custom(
    name: str, source: str, numpy: Callable[..., Any], *, parameters: tuple[str, ...] = ("x",), dtype: object = None
) -> Callable[..., Value]:
    """Make a function of the language from its CUDA C++ source and the same function in NumPy.

    Args:
        name: an identifier.
        source: an expression of the parameters, or statements with `return`; f16, bf16 and 8-bit floats are passed as
            `float`.
        numpy: the same function on arrays, element by element.
        parameters: the names of the arguments in the source.
        dtype: element type of the result, the first argument's by default.

    Raises:
        SpecError: `bad-custom`, `unknown-dtype`.

    Example:
        >>> import numpy as np
        >>> from fireiron.language.pointwise import accumulator
        >>> from fireiron.algebra.dtypes import f32
        >>> mish = custom("mish", "x * tanhf(log1pf(expf(x)))", lambda x: x * np.tanh(np.log1p(np.exp(x))))
        >>> mish(accumulator(f32)).tree.name
        'mish'
    """
    if not name.isidentifier() or not parameters or not all(p.isidentifier() for p in parameters) or not source.strip():
        raise SpecError(
            "bad-custom",
            f"custom({name!r}, {source!r}) of {parameters} is no function",
            fix="give identifiers for the name and the parameters, and C++ that computes something",
            link=here(),
        )
    for word in (name, *parameters):
        check_name("a function or its parameter", word)
    if len({*parameters}) < len(parameters):
        raise SpecError(
            "bad-custom", f"two parameters of {name} have one name: {parameters}", fix="rename one", link=here()
        )
    kind = None if dtype is None else find_dtype(dtype)

    def apply(*operands: Operand) -> Value:
        if len(operands) != len(parameters):
            raise SpecError(
                "bad-custom",
                f"{name} takes {len(parameters)} arguments, and {len(operands)} are given",
                fix=f"call {name}({', '.join(parameters)})",
            )
        trees, tensors = merged(lifted(*operands))
        return Value(Custom(name, source, parameters, trees, kind or trees[0].dtype, numpy), tensors)

    apply.__name__ = name
    return apply
