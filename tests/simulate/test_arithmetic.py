"""Every scalar operation and conversion means what the hardware does."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fireiron.algebra.dtypes import DTYPES, bf16, e4m3, e5m2, f16, f32, f64, i8, i32, i64, tf32, u8
from fireiron.algebra.elements import tf32_rounded
from fireiron.algebra.scalar import OF_NUMBERS, Arg, Binary, Cast, Constant, Select, Unary
from fireiron.algebra.unary import FUNCTIONS
from fireiron.kernel.ir.statements import Compute
from fireiron.simulate import simulate
from fireiron.simulate.arithmetic import cast, evaluate_scalar

FLOATS = (f64, f32, f16, bf16)
INTS = (i64, i32, i8, u8)


def unary(op: str, dtype: Any, values: Any) -> Any:
    return evaluate_scalar(Unary(op, Arg(0, dtype)), [np.asarray(values).astype(dtype.numpy)], {})


def binary(op: str, dtype: Any, x: Any, y: Any) -> Any:
    inputs = [np.asarray(v).astype(dtype.numpy) for v in (x, y)]
    with np.errstate(all="ignore"):
        return evaluate_scalar(Binary(op, Arg(0, dtype), Arg(1, dtype)), inputs, {})


EXACT = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "tanh": math.tanh,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "erf": math.erf,
    "normcdf": lambda x: math.erfc(-x / math.sqrt(2)) / 2,
    "exp2": lambda x: 2.0**x,
    "log2": math.log2,
    "log1p": math.log1p,
    "expm1": math.expm1,
    "floor": math.floor,
    "ceil": math.ceil,
    "implied": lambda x: x,
    "rounded": lambda x: x,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_unary(op: str, dtype: Any) -> None:
    values = np.array([0.125, 0.7, 1.0, 2.5, 3.9]).astype(dtype.numpy)
    found = unary(op, dtype, values)
    assert found.dtype == dtype.numpy
    exact = np.array([EXACT[op](float(v)) for v in values])
    assert np.allclose(found.astype(np.float64), exact, rtol=4 * dtype.epsilon, atol=0)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_derivatives(op: str) -> None:
    x, step = np.array([0.3, 0.7, 1.6, 2.4]), 1e-6
    tree = FUNCTIONS[op].derivative(Arg(0, f64))
    slope = (unary(op, f64, x + step) - unary(op, f64, x - step)) / (2 * step)
    assert np.allclose(np.broadcast_to(evaluate_scalar(tree, [x], {}), x.shape), slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_results_move_no_farther_than_said(op: str) -> None:
    function, random = FUNCTIONS[op], np.random.default_rng(1)
    value, error = random.uniform(0.2, 3, 1000), random.uniform(0, 0.1, 1000)
    for shift in (-1, -0.3, 0.6, 1):
        moved = np.abs(function.numpy(value + shift * error) - function.numpy(value))
        assert (moved <= function.moved(value, error) + 1e-12).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", OF_NUMBERS)
def test_binary_of_floats(op: str, dtype: Any) -> None:
    x, y = (np.array(v).astype(dtype.numpy) for v in ([1.5, -2.3, 0.1, 7.0], [0.3, 4.5, 0.1, -3.0]))
    found = binary(op, dtype, x, y)
    exact = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "max": max,
        "min": min,
        "lt": lambda a, b: Fraction(a < b),
        "le": lambda a, b: Fraction(a <= b),
        "eq": lambda a, b: Fraction(a == b),
    }[op]
    expected = np.array([float(exact(Fraction(float(a)), Fraction(float(b)))) for a, b in zip(x, y, strict=True)])
    assert found.dtype == dtype.numpy
    assert np.array_equal(found, expected.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers(dtype: Any) -> None:
    found = binary("pow", dtype, [1.5, -2.0, 4.0, 0.0, -2.0], [2.5, 3.0, -0.5, 0.0, 0.5])
    assert np.array_equal(found, np.array([1.5**2.5, -8.0, 0.5, 1.0, np.nan]).astype(dtype.numpy), equal_nan=True)


def test_nan_beats_a_number() -> None:
    assert np.isnan(binary("max", f32, [math.nan, 1.0], [2.0, math.nan])).all()
    assert np.isnan(binary("min", f16, [math.nan, 1.0], [2.0, math.nan])).all()


def test_binary_of_integers() -> None:
    assert binary("add", i8, [100, -100], [100, -100]).tolist() == [-56, 56]
    assert binary("mul", i32, [1 << 20, 3], [1 << 12, -4]).tolist() == [0, -12]
    assert binary("div", i32, [7, -7, 7, -7, 5], [2, 2, -2, -2, 0]).tolist() == [3, -3, -3, 3, 0]
    assert binary("mul", i64, [1 << 40, 3], [1 << 24, -4]).tolist() == [0, -12]
    assert binary("div", i64, [-(2**63), 2**63 - 1, -7, 5], [2, -2, 2, 0]).tolist() == [-(2**62), 1 - 2**62, -3, 0]
    assert binary("div", u8, [255, 7], [16, 8]).tolist() == [15, 0]
    assert binary("sub", u8, [1], [2]).tolist() == [255]
    assert binary("max", i8, [-5, 3], [4, -9]).tolist() == [4, 3]
    assert binary("lt", i32, [1, 2, 3], [2, 2, 2]).tolist() == [1, 0, 0]
    assert unary("neg", i8, [-128, 5]).tolist() == [-128, -5]
    assert unary("abs", i32, [-7, 7]).tolist() == [7, 7]


def test_each_operation_is_rounded() -> None:
    # 2048 + 1 is not an f16: the 1 is lost before it could come back.
    x = Binary("sub", Binary("add", Arg(0, f16), Constant(1.0, f16)), Arg(0, f16))
    assert evaluate_scalar(x, [np.array([2048, 1024], np.float16)], {}).tolist() == [0.0, 1.0]


def test_select() -> None:
    expr = Select(Binary("lt", Arg(0, f32), Constant(0.0, f32)), Constant(0.5, f32), Arg(0, f32))
    assert evaluate_scalar(expr, [np.array([-1, 2], np.float32)], {}).tolist() == [0.5, 2.0]


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_cast(source: Any, target: Any) -> None:
    rng = np.random.default_rng(5)
    if source.kind == "int":
        limits = np.iinfo(source.numpy)
        values = rng.integers(limits.min, limits.max, 400, endpoint=True).astype(source.numpy)
    else:
        values = rng.standard_normal(400) * 10.0 ** rng.integers(-3, 4, 400)
        values = cast(np.clip(values, *source.limits) if source.bits == 8 else values, source)
    if source == tf32:
        values = tf32_rounded(values)
    with np.errstate(over="ignore"):
        found = evaluate_scalar(Cast(Arg(0, source), target), [values], {})
    assert found.dtype == target.numpy
    for value, result in zip(values, found, strict=True):
        exact = Fraction(int(value) if source.kind == "int" else float(value))
        if target.kind == "int":
            limits = np.iinfo(target.numpy)
            assert int(result) == min(max(round(exact), int(limits.min)), int(limits.max))
        else:
            assert float(result) == nearest(exact, target)


def nearest(exact: Fraction, target: Any) -> float:
    """Round with rational numbers: to nearest even, of tf32 ties go away from zero, and 8-bit floats saturate."""
    if exact == 0:
        return 0.0
    least = {"f64": -1022, "f16": -14, "e5m2": -14, "e4m3": -6}.get(target.name, -126)
    exponent = max(math.floor(math.log2(abs(exact))), least)
    step = Fraction(2) ** (exponent - target.mantissa)
    units = exact / step
    whole = math.floor(abs(units) + Fraction(1, 2)) * (1 if units > 0 else -1) if target == tf32 else round(units)
    rounded = whole * step
    largest = {"f16": 65504.0, "e4m3": 448.0, "e5m2": 57344.0}.get(target.name, math.inf)
    beyond = largest if target.bits == 8 else math.inf
    return math.copysign(beyond, exact) if abs(rounded) > largest else float(rounded)


def test_f64_to_tf32_and_fp8_rounds_once() -> None:
    # Just below a tie that rounding to f32 first would make, and ties themselves.
    tie, below = 1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-40
    assert [float(x) for x in cast(np.array([tie, below, -tie]), tf32)] == [1 + 2.0**-10, 1.0, -1 - 2.0**-10]
    tie, below = 1 + 3 * 2.0**-4, 1 + 3 * 2.0**-4 - 2.0**-40
    assert [float(x) for x in cast(np.array([tie, below]), e4m3)] == [1.25, 1.125]


def test_fp8_saturates_and_computes_in_f32() -> None:
    assert [float(x) for x in cast(np.array([1e9, -math.inf, 449.0], np.float32), e4m3)] == [448.0, -448.0, 448.0]
    assert math.isnan(float(cast(np.array([math.nan], np.float32), e4m3)[0]))
    numbers = np.array([300.0, -2.0]).astype(e5m2.numpy)
    product = evaluate_scalar(Binary("mul", Arg(0, e5m2), Arg(0, e5m2)), [numbers], {})
    assert [float(x) for x in product] == [57344.0, 4.0]


def test_tf32_reads_the_high_bits_alone() -> None:
    x = np.array([1 + 2.0**-11 + 2.0**-12], np.float32)
    assert evaluate_scalar(Arg(0, tf32), [x], {})[0] == x[0]
    assert evaluate_scalar(Cast(Arg(0, tf32), f32), [x], {})[0] == 1.0
    assert evaluate_scalar(Cast(Arg(0, f32), tf32), [x], {})[0] == 1 + 2.0**-10


def test_f64_to_bf16_rounds_once() -> None:
    # Just above a tie of bf16, but a tie once rounded to f32.
    value = 1 + 2.0**-8 + 2.0**-40
    assert float(cast(np.array([value]), bf16)[0]) == 1 + 2.0**-7
    assert float(cast(np.array([-value]), bf16)[0]) == -1 - 2.0**-7
    below = 1 + 3 * 2.0**-8 - 2.0**-40
    assert float(cast(np.array([below]), bf16)[0]) == 1 + 2.0**-7
    with np.errstate(over="ignore"):
        assert np.isinf(cast(np.array([1e300]), bf16)[0])


def test_nan_and_infinities_in_integers() -> None:
    assert cast(np.array([math.nan, math.inf, -math.inf], np.float32), u8).tolist() == [0, 255, 0]
    beyond = np.array([math.nan, math.inf, -math.inf, 2.0**63, -(2.0**63)])
    assert cast(beyond, i64).tolist() == [0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]


def test_compute_in_a_kernel(k: Any) -> None:
    a, c = k.gl("A", (32,), dtype=f16), k.gl("C", (32,), "output")
    relu = Binary("max", Cast(Arg(0, f16), f32), Constant(0.0, f32))
    kernel = k.kernel(Compute(k.at(c, k.thread), relu, (k.at(a, k.thread),)))
    source, out = np.linspace(-2, 2, 32).astype(np.float16), np.zeros(32, np.float32)
    report = simulate(kernel, {"A": source, "C": out})
    assert np.array_equal(out, np.maximum(source, 0).astype(np.float32))
    assert report.flops == 32


def test_a_guarded_compute_reads_nothing_where_it_is_off(k: Any) -> None:
    from fireiron.algebra.expr import lt

    a, c = k.gl("A", (8,)), k.gl("C", (32,), "update")
    kernel = k.kernel(Compute(k.at(c, k.thread), Arg(0, f32), (k.at(a, k.thread),), write=lt(k.thread, 8)))
    out = np.full(32, 9, np.float32)
    simulate(kernel, {"A": np.ones(8, np.float32), "C": out})
    assert out.tolist() == [1.0] * 8 + [9.0] * 24
