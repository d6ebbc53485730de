"""Maxima of multiples: the factor leaves the fold, and no bit of the result moves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Thread, program
from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Arg, Binary, Constant, Select
from fireiron.language.folds import add_of, max_of
from fireiron.language.monotone import factor_outside, is_scale
from fireiron.language.steps import Step


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


def bounded(factor: fi.Value) -> fi.Value:
    """Make a factor that is a finite number above 0, or NaN."""
    return fi.where(factor >= 0.0, fi.minimum(fi.maximum(factor, 1e-30), 1e30), math.nan)


FACTORS: dict[str, Callable[[fi.Value], fi.Value]] = {
    "a scale": bounded,
    "infinite": lambda w: fi.maximum(w, 1e-30),
    "below 0": lambda w: fi.minimum(w, 1e30),
}


@program(x="i j", w="i")
def sharp(x: fi.Value, w: fi.Value, kind: str) -> tuple[fi.Value, fi.Value]:
    scores = x * FACTORS[kind](w)
    top = fi.max(scores, "j").named("top")
    return top, fi.sum(fi.exp2(scores - top), "j").named("total")


@pytest.mark.parametrize("kind", FACTORS)
def test_a_factor_that_is_read_leaves_an_online_maximum(kind: str) -> None:
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(32, 24)).astype(np.float32), abs(rng.normal(size=32)).astype(np.float32)
    if kind.startswith("a scale"):
        w[3], w[4] = 0.0, -1.0
    spec = sharp(fi.tensor(32, 24, name="x"), fi.tensor(32, name="w"), kind)
    chain = spec.tile(i=32).to(Block).epilog(memory=RF).split(j=8).online().tile(i=1).to(Thread).done()
    with np.errstate(invalid="ignore"):
        found = chain.simulate(x, w).arrays
    top, total = (found[t.name] for t in spec.computed.outputs)
    f = np.where(w >= 0, np.maximum(w, np.float32(1e-30)), np.float32(np.nan))[:, None]
    np.testing.assert_array_equal(top, (x * f).max(1))  # in all bits
    np.testing.assert_allclose(total, np.exp2((x * f).astype(float) - top[:, None]).sum(1), rtol=1e-5)
    assert np.isnan(total).sum() == kind.startswith("a scale")
    assert ("_unscaled[" in chain.cuda("sm_80")) == kind.startswith("a scale")


def test_bounds_of_a_scale() -> None:
    x, small, large = Arg(0, f32), Constant(1e-30, f32), Constant(1e30, f32)
    raised = Binary("max", x, small)
    assert not is_scale(x, (), {})
    assert not is_scale(raised, (), {})
    assert not is_scale(Binary("min", x, large), (), {})
    assert not is_scale(Constant(0.0, f32), (), {})
    assert is_scale(Binary("min", raised, large), (), {})
    assert not is_scale(Select(x, Binary("min", raised, large), Constant(0.0, f32)), (), {})
    assert is_scale(Select(x, Binary("min", raised, large), Constant(math.nan, f32)), (), {})
