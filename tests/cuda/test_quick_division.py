"""Quotients whose divisor a function rounds: divided without branches, and bounded by two units in the last place."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fireiron import Vector, add, matmul, relu, silu
from fireiron.algebra.dtypes import f32, f64
from fireiron.algebra.scalar import Arg, Binary, Constant, Unary
from fireiron.algebra.unary import QUICK_ROUNDINGS, is_quick
from fireiron.cuda.scalars import scalar
from fireiron.jit.disassemble import disassemble
from fireiron.schedules import hopper
from fireiron.verify.bounded import evaluate, exact

X, Y = Arg(0, f32), Arg(1, f32)
STEEP = Binary("add", Constant(1, f32), Unary("exp", Unary("neg", X)))


def test_where_it_is() -> None:
    assert scalar(Binary("div", X, STEEP), ("x",)) == "divide_quick(x, 1.0f + expf(-x))"
    assert scalar(Binary("div", X, Y), ("x", "y")) == "x / y"
    assert scalar(Binary("div", Unary("exp", X), Y), ("x", "y")) == "expf(x) / y"
    assert is_quick(Binary("div", X, STEEP))
    assert not is_quick(Binary("div", X, Unary("neg", Y)))  # exact
    assert not is_quick(Binary("div", Arg(0, f64), Unary("exp", Arg(0, f64))))
    assert not is_quick(Binary("mul", X, STEEP))


@pytest.mark.parametrize("op", [silu, lambda x: silu(x) / (2 + relu(x))], ids=["quick", "exact"])
def test_machine_code_has_no_branch(op: object) -> None:
    """The exact division of the second op branches: else nothing would be found here."""
    spec = matmul(256, 128, 64, "bf16", layout="TN", arch="sm_90a").then(add(Vector(128, "bf16", name="bias")), op)  # pyright: ignore[reportArgumentType]
    kernel = hopper.gemm(spec, hopper.Plan(128, 64, stages=3)).compile("sm_90a")
    calls = len(re.findall(r"\bCALL\b", disassemble(kernel.cubin)))
    assert (calls > 0) == (op is not silu)


def test_it_is_bounded() -> None:
    x = exact(np.linspace(-80, 80, 1001).astype(np.float32))
    quick = evaluate(Binary("div", X, STEEP), [x], {})
    divisor = evaluate(STEEP, [x], {})
    plain = evaluate(Binary("div", X, Y), [x, divisor], {})
    assert (quick.value == plain.value).all()
    more = quick.error - plain.error
    assert (more[x.value != 0] >= QUICK_ROUNDINGS * 2.0**-24 * np.abs(quick.value[x.value != 0])).all()
    assert (quick.error <= 1e-5 * np.abs(quick.value) + 1e-37).all()
