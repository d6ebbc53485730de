"""The reference and its bound: right results pass, and each way to be wrong fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, SH, A, B, Block, Matrix, Move, Pointwise, Thread, Vector, add, exp, matmul, relu, tanh
from fireiron.algebra.dtypes import bf16, dtype, f16, f32, f64, i8, i32
from fireiron.algebra.scalar import Arg, Binary, Cast
from fireiron.jit.interface import Interface
from fireiron.schedules import ada, attention_gradients, hopper
from fireiron.verify.bounded import Bounded, evaluate, exact, largest, smallest
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import reference
from fireiron.verify.sums import Summing, product
from fireiron.verify.verification import expected as references
from fireiron.verify.verification import held, make, verify


def pair(value: float, error: float) -> Bounded:
    return Bounded(np.array([value]), np.array([error]))


def test_limits_of_float_types_are_numpys() -> None:
    for kind in (f16, f32, f64):
        assert largest(kind) == float(np.finfo(kind.numpy).max)
        assert smallest(kind) == float(np.finfo(kind.numpy).smallest_subnormal)
    assert largest(bf16) == pytest.approx(3.3895313892515355e38)


@pytest.mark.parametrize(
    ("got", "expected", "error", "word"),
    [
        (1.0, 1.0, 0.0, "right"),
        (1.0, 1.5, 0.5, "within bounds"),
        (0.0, 1.0, 1.0, "not verified"),
        (1.0, 1.0, 1.5, "not verified"),
        (0.0, 0.0, 0.1, "not verified"),
        (0.0, 0.0, 0.0, "right"),
        (1.0, 1.6, 0.5, "wrong"),
        (np.nan, 1.0, np.inf, "wrong"),
        (1.0, np.nan, 1.0, "wrong"),
        (np.nan, np.nan, 1.0, "wrong"),
        (np.inf, 7e4, 1.0, "within bounds"),
        (-np.inf, 7e4, 1.0, "wrong"),
        (np.inf, 1.0, 1.0, "wrong"),
        (2.0, 1.0, 0.0, "wrong"),
    ],
)
def test_comparisons(got: float, expected: float, error: float, word: str) -> None:
    found = compare("C", np.array([got], np.float16), pair(expected, error), f16)
    assert found.word == word
    assert found.passed is (word != "wrong")
    assert found.wrong == int(word == "wrong")
    assert (found.ratio <= 1) is (word != "wrong")
    said = {
        "right": "C: all 1 elements right, each bit",
        "within bounds": "C: all 1 elements within bounds",
        "not verified": "C: 0 of 1 elements within bounds",
        "wrong": "C: 1 of 1 elements wrong",
    }
    assert str(found).startswith(said[word])
    assert ("not verified" in str(found)) is (word == "not verified")


def test_only_written_elements_count() -> None:
    expected = exact(np.zeros(3))
    result = np.array([0.0, np.nan, 0.0])
    assert not compare("C", result, expected, f64).passed
    assert compare("C", result, expected, f64, np.array([True, False, True])).compared == 2
    none = compare("C", result, expected, f64, np.zeros(3, bool))
    assert not none.passed
    assert str(none) == "C: none of 3 elements were written"


def schedule(kind: str, layout: str = "NN", ops: tuple = (), **options: object):
    spec = matmul(16, 8, 32, kind, layout=layout, **options)
    inner = spec.tile(16, 8).to(Block).epilog(*ops).split(8).load(A, SH).load(B, SH).tile(2, 2).to(Thread)
    return inner.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "i8"])
@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_a_product_in_any_order_is_within_its_bound(kind: str, layout: str) -> None:
    chain = schedule(kind, layout)
    rng = np.random.default_rng(0)
    low = dtype(kind)
    a, b = (rng.integers(-128, 127, s) if kind == "i8" else rng.standard_normal(s) for s in ((16, 32), (32, 8)))
    a, b = a.astype(low.numpy), b.astype(low.numpy)
    stored = {"A": a.T if layout[1] == "T" else a, "B": b.T if layout[0] == "T" else b}
    out = chain.matmul.C.dtype
    wide = i32.numpy if kind == "i8" else np.float64 if kind == "f64" else np.float32
    for order in (slice(None), slice(None, None, -1)):
        total = np.zeros((16, 8), wide)
        for k in range(32)[order]:
            total += a[:, k : k + 1].astype(wide) * b[k : k + 1].astype(wide)
        expected = reference(chain, stored | {"C": total}, {})
        assert compare("C", total.astype(out.numpy), expected, out).passed
        # An element too many, or one too few, shows.
        assert not compare("C", (total + a[:, :1].astype(wide)).astype(out.numpy), expected, out).passed
    assert (expected.error == 0).all() == (kind == "i8")


def test_epilogues_are_part_of_the_reference() -> None:
    bias = Vector(8, name="bias")
    chain = schedule("f32", ops=(add(bias), tanh, relu, lambda x: exp(x) * 2.0 / 3.0 - 1.0), alpha="alpha", beta=0.5)
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s) for n, s in (("A", (16, 32)), ("B", (32, 8)), ("C", (16, 8)), ("bias", (8,)))}
    arrays = {n: x.astype(np.float32) for n, x in arrays.items()}
    a, b, c, v = (arrays[n].astype(np.float64) for n in ("A", "B", "C", "bias"))
    exact_result = np.exp(np.maximum(np.tanh(0.25 * a @ b + 0.5 * c + v), 0)) * 2 / 3 - 1
    expected = reference(chain, arrays, {"alpha": 0.25})
    assert np.abs(expected.value - exact_result).max() < 1e-12
    assert 0 < expected.error.max() < 1e-4
    a, b, c, v = (arrays[n] for n in ("A", "B", "C", "bias"))
    single = np.exp(np.maximum(np.tanh(np.float32(0.25) * (a @ b) + np.float32(0.5) * c + v), 0)) * 2 / 3 - 1
    assert compare("C", single.astype(np.float32), expected, f32).passed
    assert not compare("C", single.astype(np.float32) + np.float32(1e-4), expected, f32).passed


def test_moves_and_pointwise() -> None:
    x = np.array([[0.1, 300.0], [-2.5, 1e9]], np.float32)
    whole = reference(Move(Matrix(2, 2), Matrix(2, 2, "i8")), {"X": x, "Y": x.astype(np.int8)}, {})
    assert whole.value.tolist() == [[0, 127], [-2, 127]]
    assert compare("Y", np.array([[0, 127], [-2, 127]], np.int8), whole, i8).passed
    half = reference(Move(Matrix(2, 2), Matrix(2, 2, "f16")), {"X": x, "Y": x}, {})
    with np.errstate(over="ignore"):
        assert compare("Y", x.astype(np.float16), half, f16).passed
    t, row = Matrix(2, 2, name="x"), Vector(2, name="row")
    chain = Pointwise(lambda t, row: t * 2 + row, t, row, Matrix(2, 2, name="y"))
    found = reference(chain, {"x": x, "row": x[0], "y": x}, {})
    assert compare("y", x * 2 + x[:1], found, f32).passed


def test_ops_of_a_swapped_product_see_the_callers_c() -> None:
    bias = Vector(8, name="bias")

    def finish(spec):
        chain = spec.tile(8, 8).to(Block).epilog(add(bias)).split(8).load(A, SH).load(B, SH).tile(2, 2).to(Thread)
        return chain.split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()

    rng = np.random.default_rng(0)
    shapes = (("A", (16, 32)), ("B", (32, 8)), ("C", (16, 8)), ("bias", (8,)))
    arrays = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes}
    plain = reference(finish(matmul(16, 8, 32, beta=0.5)), arrays, {})
    swapped = reference(finish(matmul(16, 8, 32, beta=0.5).swap()), arrays, {})
    np.testing.assert_allclose(swapped.value.T, plain.value, rtol=1e-12)
    np.testing.assert_allclose(swapped.error.T, plain.error, rtol=1e-6)


def test_sums_of_eight_bit_floats_are_bounded_as_wgmma_keeps_them() -> None:
    spec = matmul(64, 64, 256, "e4m3", layout="TN")
    errors = {}
    for preset in (hopper.cooperative, ada.gemm):
        schedule = preset(spec, hopper.Plan(64, 64, 1)) if preset is hopper.cooperative else preset(spec)
        arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=1)
        errors[preset] = reference(schedule, arrays, {}).error
    # Eight instructions, each cut 13 bits below its largest addend; mma.sync sums in all bits of f32.
    assert (errors[hopper.cooperative] > 8 * errors[ada.gemm]).all()


def test_an_overflow_of_f64_expects_an_infinity() -> None:
    beyond = pair(np.inf, np.nan)
    assert compare("C", np.array([np.inf], np.float32), beyond, f32).passed
    assert not compare("C", np.array([-np.inf], np.float32), beyond, f32).passed
    assert not compare("C", np.array([3.0], np.float32), beyond, f32).passed


def test_zero_times_what_may_be_anything_is_not_known() -> None:
    zero, unknown = Bounded(np.zeros(1), np.zeros(1)), Bounded(np.ones(1), np.full(1, np.inf))
    tree = Binary("mul", Arg(0, f32), Arg(1, f32))
    assert evaluate(tree, (zero, unknown), {}).error == np.inf
    assert evaluate(tree, (zero, Bounded(np.ones(1), np.ones(1))), {}).error == 0


def test_what_a_type_cannot_hold_is_infinite() -> None:
    """Where the error decides, anything may come; infinities that meet, or that a zero meets, leave nothing known."""
    value, error = np.array([1.0, 7e4, -7e4, 65500.0]), np.array([0.0, 10.0, 10.0, 100.0])
    with np.errstate(all="ignore"):
        found = evaluate(Cast(Arg(0, f32), f16), (Bounded(value, error),), {})
        sides = Bounded(found.value[None], found.error[None]), exact(np.array([[0, 1, 1, 0]]).T)
        total = product(*sides, Summing(f32))
    np.testing.assert_array_equal(found.value, [1, np.inf, -np.inf, np.inf])
    np.testing.assert_array_equal(found.error, [0, 0, 0, np.inf])
    assert np.isnan(total.value).all()
    assert np.isinf(total.error).all()
    whole = evaluate(Cast(Arg(0, f32), dtype("e4m3")), (Bounded(value, error),), {})
    assert np.isfinite(whole.value).all()  # eight bits saturate


def test_nothing_is_wrong_where_infinities_met() -> None:
    unknown = pair(np.nan, np.inf)
    for got in (np.nan, np.inf, 3.0):
        found = compare("C", np.array([got], np.float16), unknown, f16)
        assert (found.word, found.unverified) == ("not verified", 1)


@pytest.mark.parametrize("function", [attention_gradients.of_queries, attention_gradients.of_keys])
def test_weights_that_overflow_are_no_mistake(function: Callable[..., Any]) -> None:
    """On whole numbers exp(s - lse) is more than f16 holds: infinities, and NaN where zeros meet them."""
    arrays = [fi.tensor(1, 1, 24, 16, dtype="f16", name=name) for name in ("q", "k", "v", "dy")]
    rows = [fi.tensor(1, 1, 24, name=name) for name in ("lse", "delta")]
    schedule = attention_gradients.mma(function(*arrays, *rows), warps=1, chunk=16)
    found = verify(schedule, lambda data: schedule.simulate(*data.inputs, out=data.out))
    assert found.passed
    assert found.exact is not None
    assert found.exact.nans > 0
    data = make("exact", schedule, Interface.of(schedule.lowered()), {})
    wanted = references(schedule, data)
    schedule.simulate(*data.inputs, out=data.out)
    known = next(iter(wanted.values()))
    data.outs[0][np.isfinite(known.value) & (known.error < 1)] += 2
    assert held(schedule, data, wanted).word == "wrong"


def test_a_quotient_of_two_infinities_is_not_known() -> None:
    with np.errstate(all="ignore"):
        found = evaluate(Binary("div", Arg(0, f32), Arg(1, f32)), [pair(-np.inf, np.inf), pair(np.inf, np.inf)], {})
    assert np.isnan(found.value).all()
    assert np.isinf(found.error).all()
