"""Bounds at the end of an epilog come behind the rounding, where pairs are bounded, and change no bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import Matrix, Vector, add, matmul, maximum, minimum, products, relu, row_max, save, scale
from fireiron.algebra.dtypes import f16, f32
from fireiron.algebra.expr import as_expr
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, parts
from fireiron.kernel.ir.statements import Buffer, Compute, Region, View, walk
from fireiron.kernel.passes.bounds_after_rounding import round_first
from fireiron.language.levels import GL, RF, Thread
from fireiron.schedules import ampere, fused, hopper
from fireiron.schedules.hopper import Plan

SMALL = Plan(m=128, n=64, stages=3)


def bounds(schedule: Any) -> list[str]:
    """List the types in which elements are bounded."""
    return [
        part.dtype.name
        for s in walk(schedule.lowered().body)
        if isinstance(s, Compute)
        for part in parts(s.expr)
        if isinstance(part, Binary) and part.op in ("max", "min")
    ]


def product(dtype: str = "f16", **kinds: Any) -> Any:
    return matmul(128, 64, 64, dtype, layout="TN", arch="sm_90", **kinds)


BIAS = Vector(64, name="bias")


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("preset", ["hopper", "ampere"])
def test_relu_bounds_what_is_rounded(preset: str, dtype: str) -> None:
    spec = product(dtype).then(add(BIAS), relu)
    made = hopper.gemm(spec, SMALL) if preset == "hopper" else ampere.gemm(spec)
    assert set(bounds(made)) == {dtype}


def test_both_bounds_keep_their_order() -> None:
    spec = product().then(lambda x: minimum(maximum(x, -1), 0.5))
    made = hopper.gemm(spec, SMALL)
    assert set(bounds(made)) == {"f16"}
    trees = [s.expr for s in walk(made.lowered().body) if isinstance(s, Compute) and isinstance(s.expr, Binary)]
    assert trees
    assert all(t.op == "min" and isinstance(t.x, Binary) and t.x.op == "max" for t in trees)


@pytest.mark.parametrize(
    "ops", [(relu,), (lambda x: minimum(maximum(x, -0.3), 0.1),), (scale(1e-9), relu), (scale(1e6), relu)]
)
def test_no_bit_changes(ops: tuple[Any, ...]) -> None:
    made = hopper.gemm(product().then(*ops), SMALL)
    eager = hopper.gemm(product(out="f32").then(*ops), SMALL)  # rounded here, after all ops
    first = made.simulate()
    inputs = [first.arrays[name] for name in ("A", "B")]
    with np.errstate(over="ignore"):
        wanted = np.asarray(eager.simulate(*inputs).out).astype(np.float16)
    assert np.array_equal(np.asarray(first.out).view(np.uint16), wanted.view(np.uint16))


def test_products_and_layers_do_too() -> None:
    assert set(bounds(fused.lstm_pattern(256, 256, 128, path="hopper"))) == {"f16"}
    assert set(bounds(fused.mlp(256, 128, 2, path="hopper"))) == {"f16"}
    assert set(bounds(fused.mlp(256, 128, 2, path="ampere"))) == {"f16"}


KEPT = {
    "an output of f32": lambda: hopper.gemm(product(out="f32").then(relu), SMALL),
    "a value that ops behind it read": lambda: hopper.gemm(product().then(relu, add(BIAS)), SMALL),
    "a value that is stored beside C": lambda: hopper.gemm(
        product().then(relu, save(Matrix(128, 64, "f16", name="pre")), scale(2.0)), SMALL
    ),
    "rows that are folded": lambda: hopper.gemm(
        product().then(relu, row_max(Vector(128, name="top", along=product().matmul.B.order)), scale(2.0)), SMALL
    ),
    "an older architecture": lambda: fused.gemm_bias_relu(matmul(128, 64, 64, "f16", layout="TN", arch="sm_75")),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_are_bounded_where_they_are_computed(name: str) -> None:
    assert set(bounds(KEPT[name]())) == {"f32"}


def test_a_sum_that_two_outputs_read_is_bounded_at_once() -> None:
    x, w, u = Matrix(64, 32, "f16", name="x"), Matrix(32, 64, "f16", name="W"), Matrix(32, 64, "f16", name="U")
    outs = (Matrix(64, 64, "f16", name="y"), Matrix(64, 64, "f16", name="z"))
    made = products(outs, (x, w), (x, u), op=lambda p, q: (relu(p), p + q))
    lowered = fused.schedule(made, "ampere").lowered()
    for s in walk(lowered.body):
        if isinstance(s, Compute) and any(isinstance(p, Binary) and p.op == "max" for p in parts(s.expr)):
            assert all(v.buffer.memory != GL for v in s.inputs)
    fused.schedule(made, "ampere").simulate()


def test_nothing_is_computed_where_only_bounds_were() -> None:
    made = hopper.gemm(product().then(relu), SMALL)
    assert not [s for s in walk(made.lowered().body) if isinstance(s, Compute) and isinstance(s.expr, Arg)]


def test_what_ops_read_again_is_bounded_at_once() -> None:
    acc, total = (View(Buffer(name, RF, f32, as_expr(1), unit=Thread), as_expr(0)) for name in ("acc", "total"))
    rounded = View(Buffer("rounded", RF, f16, as_expr(1), unit=Thread), as_expr(0))
    bounded = Compute(acc, Binary("max", Arg(0, f32), Constant(0, f32)), (acc,))
    store = Region("store C", (Compute(rounded, Cast(Arg(0, f32), f16), (acc,)),), "")
    assert round_first((bounded,), store, acc.buffer, 90)[0] == ()
    again = Compute(total, Binary("add", Arg(0, f32), Arg(1, f32)), (total, acc))
    assert round_first((bounded, again), store, acc.buffer, 90) == ((bounded, again), store)
