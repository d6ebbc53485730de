"""The reference of programs: plain NumPy in f64 gives the same, and results outside its bound are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Matrix, Thread, Vector, Warp, symbol, vector
from fireiron.algebra.dtypes import DType
from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar, Select
from fireiron.language.folds import Fold
from fireiron.language.reductions import fold
from fireiron.language.steps import Program
from fireiron.verify.bounded import Bounded, exact
from fireiron.verify.comparison import compare
from fireiron.verify.reference import references
from fireiron.verify.steps import Facts, of_steps

Arrays = dict[str, np.ndarray[Any, Any]]


def random(*shape: int) -> np.ndarray[Any, Any]:
    """Give numbers that f32 holds."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape).astype(np.float32).astype(np.float64)


def of(program: Program, **arrays: np.ndarray[Any, Any]) -> dict[str, Bounded]:
    return of_steps(program, lambda tensor: exact(arrays[tensor.name]), {"eps": 1e-3})


def agrees(found: Bounded, expected: np.ndarray[Any, Any]) -> None:
    """Demand NumPy's values, and a bound that an f32 computation needs: above 0, and small."""
    np.testing.assert_allclose(found.value, expected, rtol=1e-6, atol=1e-7)  # 1 / n is rounded to f32
    assert (found.error >= 0).all()
    assert (found.error < 1e-2 * (1 + np.abs(expected))).all()


X = Matrix(5, 33)


def of_x(function: Callable[[Any], Any], **dims: str) -> Program:
    return fi.program(x=dims.get("x", "m n"))(function)(X).computed


def test_softmax() -> None:
    x = random(5, 33)
    e = np.exp(x - x.max(1, keepdims=True))
    agrees(of(of_x(lambda x: fi.softmax(x, "n")), x=x)["y"], e / e.sum(1, keepdims=True))
    e = np.exp(x - x.max(0))
    agrees(of(of_x(lambda x: fi.softmax(x, "m")), x=x)["y"], e / e.sum(0))
    cube = random(2, 3, 4)
    e = np.exp(cube - cube.max((1, 2), keepdims=True))
    program = fi.program(x="b m n")(lambda x: fi.softmax(x, "m n"))(fi.tensor(2, 3, 4)).computed
    agrees(of(program, x=cube)["y"], e / e.sum((1, 2), keepdims=True))


def test_logsumexp() -> None:
    x = random(5, 33)
    expected = np.log(np.exp(x).sum(1))
    agrees(of(of_x(lambda x: fi.logsumexp(x, "n")), x=x)["y"], expected)
    agrees(of(of_x(lambda x: fi.log_softmax(x, "n")), x=x)["y"], x - expected[:, None])


def test_layernorm() -> None:
    def layernorm(x: Any, gain: Any, bias: Any, eps: Any) -> Any:
        mean, variance = fi.mean_and_variance(x, over="n")
        return (x - mean) * fi.rsqrt(variance + eps) * gain + bias

    made = fi.program(x="m n", gain="n", bias="n")(layernorm)
    program = made(X, Vector(33, name="gain"), Vector(33, name="bias"), eps="eps").computed
    x, gain, bias = random(5, 33), random(33), random(34)[1:]
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3) * gain + bias
    agrees(of(program, x=x, gain=gain, bias=bias)["y"], expected)


@pytest.mark.parametrize("subscripts", ["mk,kn->mn", "mk,kn->nm", "mk,kn->m", "mk,kn->n"])
def test_einsum(subscripts: str) -> None:
    a, b = Matrix(5, 33, name="a"), Matrix(33, 7, name="b")
    program = fi.program(a="m k", b="k n")(lambda a, b: fi.einsum(subscripts, a, b))(a, b).computed
    x, y = random(5, 33), random(33, 7)
    agrees(of(program, a=x, b=y)["y"], np.einsum(subscripts, x, y))


def test_einsum_of_one_array_with_itself_and_of_three() -> None:
    x = random(5, 33)
    agrees(of(of_x(lambda x: fi.einsum("ik,jk->ij", x, x)), x=x)["y"], x @ x.T)
    agrees(of(of_x(lambda x: fi.einsum("mn->nm", x)), x=x)["product"], x.T)

    def three(x: Any) -> Any:
        return fi.einsum("ia,ja,ij->ij", x, x, fi.einsum("ik,jk->ij", x, x))

    x = random(5, 33)
    agrees(of(of_x(three), x=x)["y"], (x @ x.T) ** 2)


def test_a_step_read_at_other_dims() -> None:
    def gram(x: Any) -> Any:
        e = fi.exp(x).named("e")
        return fi.einsum("ik,jk->ij", e, e)

    x = random(5, 33)
    agrees(of(of_x(gram), x=x)["y"], np.exp(x) @ np.exp(x).T)


@pytest.mark.parametrize(
    ("function", "plain"),
    [(fi.sum, np.sum), (fi.max, np.max), (fi.min, np.min), (fi.prod, np.prod), (fi.mean, np.mean)],
)
@pytest.mark.parametrize(("over", "axis"), [("n", 1), ("m", 0)])
def test_folds(function: Callable[..., Any], plain: Callable[..., Any], over: str, axis: int) -> None:
    x = random(5, 33)
    agrees(of(of_x(lambda x: function(x, over)), x=x)["y"], plain(x, axis=axis))


def test_largest_and_smallest_are_exact() -> None:
    x = random(5, 33)
    for function in (fi.max, fi.min):
        assert not of(of_x(lambda x, f=function: f(x, "n")), x=x)["y"].error.any()


def test_a_bound_covers_any_order_and_not_more_than_needed() -> None:
    x = random(5, 33)
    found = of(of_x(lambda x: fi.sum(x, "n")), x=x)["y"]
    for order in (x, x[:, ::-1], np.sort(x, axis=1)):
        chain = np.cumsum(order.astype(np.float32), axis=1, dtype=np.float32)[:, -1]
        assert (np.abs(chain - found.value) <= found.error).all()
    missing = x.copy()
    missing[:, 7] = 0  # a row without one of its elements
    assert (np.abs(missing.sum(1) - found.value) > found.error).all()


def binary(op: Any, x: Scalar, y: Scalar) -> Scalar:
    return Binary(op, x, y)


def chan(dtype: DType) -> Fold:
    """Fold mean and variance by Chan's formulas: a state of count, mean, and the sum of squared distances."""
    n, mean, square, n2, mean2, square2 = (Arg(i, dtype) for i in range(6))
    one, zero = Constant(1.0, dtype), Constant(0.0, dtype)
    total = binary("add", n, n2)
    away = binary("sub", mean2, mean)
    share = Select(binary("eq", total, zero), zero, binary("div", n2, total))  # of two empty states
    return Fold(
        "chan",
        (dtype, dtype, dtype),
        (0.0, 0.0, 0.0),
        (one, Arg(0, dtype), zero),
        (
            total,
            binary("add", mean, binary("mul", away, share)),
            binary("add", binary("add", square, square2),
                   binary("mul", binary("mul", away, away), binary("mul", n, share))),
        ),
        (mean, binary("div", square, n)),
    )  # fmt: skip


def spread(dtype: DType) -> Fold:
    """Fold the smallest and the largest value at once: a state of two scalars."""
    low, high, low2, high2 = (Arg(i, dtype) for i in range(4))
    x = Arg(0, dtype)
    return Fold(
        "spread", (dtype, dtype), (float("inf"), -float("inf")), (x, x),
        (binary("min", low, low2), binary("max", high, high2)), (binary("sub", high, low),),
    )  # fmt: skip


@fi.program(x="m n")
def statistics(x: Any) -> Any:
    return fold(x, "n", chan, "chan")


@fi.program(x="m n")
def centred(x: Any) -> Any:
    mean, variance = fold(x, "n", chan, "chan")
    return (x - mean) * fi.rsqrt(variance + 1e-5)


@fi.program(x="m n")
def width(x: Any) -> Any:
    return fold(x, "n", spread, "spread")[0]


def test_folds_of_users() -> None:
    x = random(5, 33)
    found = of(statistics(X).computed, x=x)
    np.testing.assert_allclose(found["y0"].value, x.mean(1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["y1"].value, x.var(1), rtol=1e-9)
    np.testing.assert_allclose(of(width(X).computed, x=x)["y"].value, np.ptp(x, axis=1), rtol=1e-12)


WAYS: dict[str, Callable[[Any], Any]] = {
    "lanes": lambda s: s.tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).epilog(memory=RF).done(),
    "warps": lambda s: (
        s.tile(m=1).to(Block).split("n", ways=4).parallel(Warp).load("x", RF, vector()).epilog(memory=RF).done()
    ),
    "chunks": lambda s: s.tile(m=1).to(Block).split(n=64).load("x", RF, vector()).epilog(memory=RF).done(),
    "thread": lambda s: s.tile(m=32).to(Block).tile(m=1).to(Thread).split(n=1).done(),
}


@pytest.mark.product
@pytest.mark.parametrize("columns", [32, 100, 129])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [statistics, centred, width], ids=lambda p: p.name)
def test_folds_of_users_on_the_simulator(program: Any, way: str, columns: int) -> None:
    schedule = WAYS[way](program(Matrix(5, columns)))
    x = random(5, columns) + 3.0
    arrays = schedule.simulate(x.astype(np.float32)).arrays
    mean, variance = x.mean(1), x.var(1)
    if program is statistics:
        np.testing.assert_allclose(arrays["y0"], mean, rtol=1e-5)
        np.testing.assert_allclose(arrays["y1"], variance, rtol=1e-5)
    elif program is centred:
        expected = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5)
        np.testing.assert_allclose(arrays["y"], expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(arrays["y"], np.ptp(x, axis=1), rtol=1e-6)
    for name, bound in references(schedule, arrays, {}).items():
        tensor = next(t for t in schedule.computed.outputs if t.name == name)
        found = compare(name, arrays[name], bound, tensor.dtype)
        assert found.passed, str(found)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 300), (9, 256)])
@pytest.mark.parametrize(
    "way",
    [
        lambda s: s.tile(m=1).to(Block).split(n=128).load("x", RF, vector()).epilog(memory=RF).done(),
        lambda s: s.tile(m=1).to(Block).split(n=128).split("n", ways=2).parallel(Warp).load("x", RF, vector()).done(),
        lambda s: s.tile(m=32).to(Block).tile(m=1).to(Thread).split(n=1).done(),
    ],
    ids=["lanes", "warps", "thread"],
)
def test_dims_that_the_call_gives(way: Callable[[Any], Any], rows: int, columns: int) -> None:
    spec = fi.program(x="m n")(lambda x: fi.softmax(x, "n"))(Matrix(symbol("M"), symbol("N")))
    schedule = way(spec)
    arrays = schedule.simulate(M=rows, N=columns).arrays
    found = compare("y", arrays["y"], references(schedule, arrays, {})["y"], schedule.computed.outputs[0].dtype)
    assert found.passed, str(found)


def test_bounds_are_statistical_only_where_numbers_are_drawn_apart() -> None:
    """Products of drawn numbers cancel; squares do not, and neither do numbers of one sign."""
    a, b = Matrix(5, 4096, name="a"), Matrix(4096, 5, name="b")
    product = fi.program(a="m k", b="k n")(lambda a, b: fi.einsum("mk,kn->mn", a, b))(a, b).computed
    gram = fi.program(a="m k")(lambda a: fi.einsum("ik,jk->ij", a, a))(a).computed
    positive = fi.program(a="m k", b="k n")(lambda a, b: fi.einsum("mk,kn->mn", abs(a), abs(b)))(a, b).computed
    x, y = random(5, 4096), random(4097, 5)[1:]

    def bound(program: Program, drawn: bool) -> np.ndarray[Any, Any]:
        arrays = {"a": x, "b": y}
        found = of_steps(program, lambda t: exact(arrays[t.name]), {}, Facts(drawn=drawn))
        return found[program.outputs[0].name].error

    assert (bound(product, drawn=True) < 0.5 * bound(product, drawn=False)).all()
    for program in (gram, positive):
        np.testing.assert_array_equal(bound(program, drawn=True), bound(program, drawn=False))
