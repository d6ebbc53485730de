"""What calls take: tensors of any rank, results that are allocated, products without elements, NaN, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import simt, turing

NAN = float("nan")


def dense(name: str, *shape: int) -> fi.Tensor:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return fi.Tensor(name, shape, fi.f32, tuple(strides))


def tiled(chain: Any, batch: int | None = 1) -> Any:
    inner = chain.tile(4, 8, batch=batch).to(fi.Block).tile(1, 2, batch=batch).to(fi.Thread)
    return inner.unroll().done()


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3), (2, 1, 2, 3)])
def test_pointwise_moves_and_init_of_every_rank(lead: tuple[int, ...]) -> None:
    shape = (*lead, 10, 16)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    b = np.arange(16, dtype=np.float32)
    batch = 1 if lead else None
    for made, inputs, wanted in (
        (
            fi.Pointwise(lambda x, b: x * 2 + b, dense("x", *shape), dense("b", 16), dense("y", *shape)),
            (x, b),
            x * 2 + b,
        ),
        (fi.Move(dense("x", *shape), dense("y", *shape)), (x,), x),
        (fi.Init(dense("y", *shape), 3.0), (), np.full(shape, 3, np.float32)),
    ):
        schedule = tiled(made, batch)
        out = np.full(shape, np.nan, np.float32)
        assert (schedule.simulate(*inputs, out=out).out == wanted).all()
        assert all((schedule.tree(), schedule.cuda("sm_80"), str(schedule.explain("sm_80"))))
        if inputs:
            assert (schedule(*inputs) == wanted).all()  # the result is allocated


def test_names_in_the_order_of_calls() -> None:
    kernel = tiled(fi.Pointwise(lambda x, b: x + b, dense("x", 8, 16), dense("b", 16), dense("y", 8, 16)), None)
    roles = {p.buffer.name: p.role for p in kernel.lowered().parameters}
    assert roles == {"x": "input", "b": "input", "y": "output"}


@pytest.mark.parametrize("layout", ["NN", "TN", "NT", "TT"])
@pytest.mark.parametrize("sizes", [(0, 8, 4), (4, 8, 0), (4, 0, 8), (0, 0, 0), (4, 0, 0)])
def test_products_without_elements(sizes: tuple[int, int, int], layout: str) -> None:
    m, n, k = sizes
    a = np.ones((k, m) if layout[1] == "T" else (m, k), np.float32)
    b = np.ones((n, k) if layout[0] == "T" else (k, n), np.float32)
    found = fi.gemm(a, b, layout=layout)
    assert (found.shape, found.dtype) == ((m, n), np.float32)
    assert not found.any()
    out = np.full((m, n), np.nan, np.float32)
    assert fi.gemm(a, b, layout=layout, out=out) is out
    assert not out.any()


def test_an_epilog_of_a_sum_over_nothing() -> None:
    bias = np.arange(8, dtype=np.float32)
    a, b = np.ones((4, 0), np.float32), np.ones((0, 8), np.float32)
    assert (fi.gemm(a, b, epilog=lambda acc, bias: acc + bias, bias=bias) == bias).all()
    with pytest.raises(fi.FireironError, match="wrong-shape"):
        fi.gemm(a, np.ones((3, 8), np.float32))


def test_a_schedule_writes_nothing_where_there_is_nothing_to_write() -> None:
    schedule = simt.sgemm(fi.matmul(fi.symbol("M"), 64, fi.symbol("K")))
    assert schedule(np.ones((0, 8), np.float32), np.ones((8, 64), np.float32)).shape == (0, 64)
    with pytest.raises(fi.FireironError, match="K is 0"):
        schedule(np.ones((4, 0), np.float32), np.ones((0, 64), np.float32))


def test_rows_that_run_backwards_are_named() -> None:
    with pytest.raises(fi.FireironError, match=r"a has element strides \(-32, 1\)") as caught:
        fi.gemm(np.ones((32, 32), np.float32)[::-1], np.ones((32, 32), np.float32))
    assert caught.value.code == "wrong-stride"


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (fi.relu, [NAN, 0, 1, 2]),
        (lambda x: fi.maximum(0, x), [NAN, 0, 1, 2]),
        (lambda x: fi.minimum(x, 1), [NAN, -1, 1, 1]),
        (lambda x: fi.clamp(x, 0, 1), [NAN, 0, 1, 1]),
        (lambda x: fi.sigmoid(x) * 0, [NAN, 0, 0, 0]),
    ],
)
def test_nan_stays_nan_as_in_torch(op: Callable[[Any], Any], wanted: list[float]) -> None:
    x = np.array([[NAN, -1, 1, 2]], np.float32)
    made = fi.Pointwise(op, dense("x", 1, 4), dense("y", 1, 4)).tile(1, 4).to(fi.Block).tile(1, 1).to(fi.Thread).done()
    assert np.array_equal(made(x), np.array([wanted], np.float32), equal_nan=True)


def test_two_parameters_of_one_name() -> None:
    a, c = fi.Matrix(fi.symbol("M"), 64, name="M"), fi.Matrix(fi.symbol("M"), 64, name="C")
    with pytest.raises(fi.FireironError, match="M is the name of two of its tensors, sizes and scalars"):
        simt.sgemm(fi.MatMul(a, fi.Matrix(64, 64, name="B"), c))
    few, many = fi.symbol("M", multiple_of=4), fi.symbol("M", multiple_of=8)
    with pytest.raises(fi.FireironError, match=r"same-name|shape-mismatch"):
        simt.sgemm(fi.MatMul(fi.Matrix(few, 64), fi.Matrix(64, 64), fi.Matrix(many, 64)))


def test_a_tensor_called_as_a_function() -> None:
    spec = fi.MatMul(fi.Matrix(64, 64, name="fmaf"), fi.Matrix(64, 64), fi.Matrix(64, 64))
    with pytest.raises(fi.FireironError, match="fmaf is the name of a function") as caught:
        simt.sgemm(spec).cuda()
    assert caught.value.code == "name-taken"


def test_a_seed_below_zero_is_a_wrong_command(capsys: pytest.CaptureFixture[str]) -> None:
    from fireiron.front.cli import main

    assert main(["simulate", "simt.sgemm", "--seed", "-1"]) == 2
    assert "'-1' is no number from 0 on" in capsys.readouterr().err


@pytest.mark.parametrize(("spec", "arch"), [(None, None), (3, None), (fi.matmul(64, 64, 64), np.zeros(3))])
def test_best_of_what_is_no_product(spec: Any, arch: Any) -> None:
    with pytest.raises(fi.FireironError) as caught:
        fi.best(spec, arch)
    assert caught.value.code == "argument-kind"


def _moments() -> Any:
    return simt.listing2(fi.matmul(128, 128, 16))


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (lambda: turing.sizes(3), "argument-kind", "sizes takes a product, not 3"),
        (lambda: _moments().simulate(at=fi.Thread), "argument-kind", "at= takes a moment, not Thread"),
        (lambda: _moments().simulate(break_at=3), "argument-kind", "break_at= takes a moment, not 3"),
        (
            lambda: fi.gemm(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32), out=[]),
            "not-an-array",
            "out is a list, which is no array",
        ),
    ],
)
def test_what_drawn_calls_gave(wrong: Callable[[], Any], code: str, said: str) -> None:
    with pytest.raises(fi.FireironError) as caught:
        wrong()
    assert (caught.value.code, caught.value.message) == (code, said)
