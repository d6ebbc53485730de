"""Folds that depend on folds: the factor that corrects a sum is right on random expressions, and refused elsewhere."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import Matrix
from fireiron.algebra.scalar import Arg
from fireiron.base.errors import DecompositionError
from fireiron.language.online import online
from fireiron.simulate.arithmetic import evaluate_scalar


def traced(expression: Any, over: Any = fi.sum) -> Any:
    """Fold an expression of x and of the largest x over a row."""
    return fi.program(x="m n")(lambda x: over(expression(x, fi.max(x, "n")), "n"))(Matrix(4, 8)).computed


def a_sum(draw: random.Random, x: Any, m: Any, depth: int) -> Any:
    """Draw g(x) + h(m), the parts in any order."""
    if depth == 0:
        return draw.choice([lambda: x - m, lambda: m - x, lambda: x * 0.5 + m, lambda: -m - 0.25, lambda: x])()
    left, right = a_sum(draw, x, m, depth - 1), draw.choice([x * 0.5, m, x - 1.0, -m * 0.25])
    return draw.choice([
        lambda: left + right, lambda: right - left, lambda: -left, lambda: left * 0.5, lambda: left / 2.0,
        lambda: fi.where(x > 0.3, left, left + x), lambda: fi.log(a_product(draw, x, m, depth - 1)),
    ])()  # fmt: skip


def a_product(draw: random.Random, x: Any, m: Any, depth: int) -> Any:
    """Draw g(x) * h(m), with positive factors."""
    if depth == 0:
        return draw.choice([lambda: fi.exp(x - m), lambda: fi.exp(m), lambda: x * x + 1.0, lambda: fi.exp(-x)])()
    left, right = a_product(draw, x, m, depth - 1), fi.exp(a_sum(draw, x, m, depth - 1))
    return draw.choice([
        lambda: left * right, lambda: left / right, lambda: right * 3.0, lambda: left * (x * x + 0.5),
        lambda: left * (x * x) + left * 0.5, lambda: fi.where(x > 0.5, left, 0.0) * 1.0 + left,
    ])()  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_law_on_random_expressions(seed: int) -> None:
    """f(x, m') = f(x, m) * factor(m, m') of sums, f(x, m') = f(x, m) + factor(m, m') of the largest."""
    draw, adds = random.Random(seed), seed % 3 == 0
    program = traced(
        (lambda x, m: a_sum(draw, x, m, 2) + (x - m)) if adds else
        (lambda x, m: a_product(draw, x, m, 2) * fi.exp(x - m)), fi.max if adds else fi.sum
    )  # fmt: skip
    lead = program.steps[0]
    spelled, law = online(program, "n")
    last = next(s for s in reversed(spelled.steps) if s.over)
    ((_, (factor,)),) = law.factors.items()
    assert factor.adds == adds
    rng = np.random.default_rng(seed)
    x, old, new = (rng.uniform(-1, 1, 50).astype(np.float32) for _ in range(3))

    def value(m: Any) -> Any:
        given = [m if ref.name == lead.outs[0].name else x for ref in last.reads]
        return evaluate_scalar(last.body, given, {}).astype(np.float64)

    by = evaluate_scalar(factor.tree, [old, new], {})
    found = value(old) + by if adds else value(old) * by
    np.testing.assert_allclose(found, value(new), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        (lambda x, m: fi.exp(x * m), "x[m, n] * largest[m] has no term"),
        (lambda x, m: fi.exp(x - m) + x, "different factors"),
        (lambda x, m: fi.relu(x - m), "max(x[m, n] - largest[m], 0)"),
        (lambda x, m: fi.where(x > 0.0, x * m, 0.0), "may be 0"),
        (lambda x, m: fi.where(m > 0.0, x, x * x), "where"),
    ],
)  # fmt: skip
def test_what_has_no_factor_is_refused(expression: Any, part: str) -> None:
    with pytest.raises(DecompositionError, match="online-law") as error:
        online(traced(expression), "n")
    assert part in str(error.value)


def test_what_a_sum_is_divided_by_leaves_it() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        p = fi.softmax(fi.einsum("id,jd->ij", q, k, name="s"), over="j")
        return fi.einsum("ij,je->ie", p.cast("f16"), v, name="o")

    shapes = Matrix(8, 16, "f16"), Matrix(12, 16, "f16"), Matrix(12, 16, "f16")
    program = fi.program(q="i d", k="j d", v="j e")(attention)(*shapes).computed
    spelled, law = online(program, "j")
    lines = [str(step) for step in spelled.steps]
    assert "o_sum[i, e] = add over j of f16(part[i, j]) * v[j, e]" in lines
    assert "o[i, e] = o_sum[i, e] * inverse[i]" in lines
    assert dict(law.corrected) == {"total": (("top", 0),), "o": (("top", 0),)}
    assert all(not isinstance(f.tree, Arg) for f in law.factors["top"])
