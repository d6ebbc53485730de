"""Maxima of multiples: the factor leaves the fold, and no bit of the result moves."""

from __future__ import annotations

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Thread, program
from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Arg, Binary, Constant
from fireiron.language.monotone import factor_outside
from fireiron.language.steps import Step, add_of, max_of


@program(x="i j")
def scaled(x: fi.Value, factor: float) -> fi.Value:
    return fi.max(x * factor, "j").named("y")


@pytest.mark.parametrize("factor", [0.3, -0.3])
def test_all_bits(factor: float) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(32, 8)).astype(np.float32)
    x[0, 1], x[1, 2], x[2] = np.nan, np.inf, -np.inf
    chain = scaled(fi.tensor(32, 8, name="x"), factor).tile(i=32).to(Block).epilog(memory=RF).tile(i=1).to(Thread)
    with np.errstate(invalid="ignore"):
        found = chain.done().simulate(x).arrays["y"]
    np.testing.assert_array_equal(found, (x * np.float32(factor)).max(1))
    code = chain.done().cuda("sm_80")
    assert ("__fmul_rn(x[" not in code) == (factor > 0)


def test_other_folds_stay() -> None:
    body = Binary("mul", Arg(0, f32), Constant(2.0, f32))
    for step in (Step("s", (), (), body, add_of(f32)), Step("s", (), (), Arg(0, f32), max_of(f32))):
        assert factor_outside(step) is step
