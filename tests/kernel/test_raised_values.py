"""Values that chunks' sums raise: right on data that outgrow them by any amount, and chunks are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest

import fireiron as fi
from fireiron import SH, Block, Value, Warp
from fireiron import max as largest
from fireiron import sum as summed
from fireiron.algebra.expr import as_expr
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.rewrite import replaced, rewrite
from fireiron.kernel.ir.statements import Call, Compute, For, If, Region, Roles, Statement, Vote, walk
from fireiron.language.lazy import doubling
from fireiron.language.levels import FR
from fireiron.language.online import online
from fireiron.schedules import attention
from fireiron.simulate import simulate

ROWS, CHUNK, KEYS = 64, 32, 160
SLACK = 24


def heads(dtype: str = "bf16", keys: int = KEYS, lse: bool = False, slack: float = SLACK) -> Any:
    q, k, v = (fi.tensor(1, 1, n, 64, dtype=dtype) for n in (64, keys, keys))
    spec = attention.attention(q, k, v, lse=lse)
    return attention.wgmma(spec, groups=1, keys=CHUNK, stages=2, persistent=False, slack=slack, speculate=True)


def by_mma(dtype: str = "bf16", slack: float = SLACK) -> Any:
    """The same by products that are there when they end."""
    q, k, v = (fi.tensor(1, 1, n, 64, dtype=dtype) for n in (64, KEYS, KEYS))
    chain = attention.attention(q, k, v).tile(b=1, h=1, i=32).to(Block).epilog(memory=FR)
    chain = chain.load("q", SH, fi.cp_async()).split(j=CHUNK).online(slack, True).pipeline(2)
    chain = chain.load("k", SH, fi.cp_async()).load("v", SH, fi.cp_async()).tile(i=16).to(Warp)
    return chain.each(
        s=lambda s: s.split(d=16).unroll().load("q", FR, fi.ldmatrix()).load("k", FR, fi.ldmatrix())
        .tile(i=16, j=8).unroll().done(),
        o=lambda o: o.split(j=16).unroll().load("v", FR, fi.ldmatrix()).tile(i=16, e=8).unroll().done(),
    )  # fmt: skip


def data(powers: float, dtype: str = "bf16", rows: slice = slice(None)) -> Any:
    """Make scores that grow by so many powers of 2 from chunk to chunk, in some rows."""
    rng = np.random.default_rng(3)
    kind = np.float16 if dtype == "f16" else ml_dtypes.bfloat16
    q, k, v = (rng.normal(size=(1, 1, n, 64)) for n in (ROWS, KEYS, KEYS))
    k[:] = k / 8
    q[..., 0], k[..., 0] = 0, np.arange(KEYS) // CHUNK * 8
    q[:, :, rows, 0] = powers * np.log(2)
    return tuple(x.astype(kind) for x in (q, k, v))


def weighed(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    with np.errstate(invalid="ignore"):
        top = scores.max(-1, keepdims=True)
        parts = np.exp(scores - top)
    total = parts.sum(-1, keepdims=True)
    return np.einsum("bhij,bhje->bhie", parts / total, v), (top + np.log(total))[..., 0]


def outcome(schedule: Any, arrays: Any, change: Callable[[Any], Any] = lambda body: body) -> str:
    kernel = schedule.lowered()
    body = change(kernel.body)
    q, k, v = arrays
    named = {"q": q, "k": k, "v": v, "y": np.zeros(q.shape, q.dtype)}
    try:
        simulate(attrs.evolve(kernel, body=body), named)
    except SimulationError as error:
        return error.code
    return "right" if np.allclose(named["y"].astype(np.float64), weighed(q, k, v)[0], rtol=0, atol=2e-2) else "wrong"


def decided(name: str, value: int) -> Callable[[Any], Any]:
    """Let votes of one name always have one result."""

    def plant(body: Any) -> Any:
        out: list[Statement] = []
        for i, s in enumerate(body):
            if isinstance(s, Vote) and s.var.name.rstrip("0123456789") == name:
                return (*out, *plant(replaced(body[i + 1 :], {s.var: as_expr(value)})))
            if isinstance(s, For | If | Region):
                s = attrs.evolve(s, body=plant(s.body))
            if isinstance(s, Roles):
                s = attrs.evolve(s, roles=tuple(attrs.evolve(r, body=plant(r.body)) for r in s.roles))
            out.append(s)
        return tuple(out)

    return plant


def without(drop: Callable[[Statement], bool]) -> Callable[[Any], Any]:
    """Leave statements out where a value is raised."""

    def statement(s: Statement) -> Any:
        if isinstance(s, Region) and "raised" in s.title:
            return attrs.evolve(s, body=rewrite(s.body, lambda x: () if drop(x) else x))
        return s

    return lambda body: rewrite(body, statement)


def writes(*names: str) -> Callable[[Statement], bool]:
    return lambda s: isinstance(s, Compute) and s.dst.buffer.name in names


EVERY = pytest.mark.exhaustive


@pytest.mark.parametrize("make", [heads, by_mma])
@pytest.mark.parametrize("powers", [5, *(pytest.param(n, marks=EVERY) for n in (20, 30, 100)), 55, 140, -30])
def test_values_are_raised_by_any_amount(powers: float, make: Callable[..., Any]) -> None:
    assert outcome(make(), data(powers)) == "right"


@pytest.mark.parametrize("rows", [slice(5, 6), slice(17, 64, 2)])
def test_rows_of_a_warp_outgrow_their_values_apart(rows: slice) -> None:
    assert outcome(heads(), data(30, rows=rows)) == "right"


def test_f16_weights() -> None:
    assert outcome(heads("f16", slack=10), data(12, "f16")) == "right"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (np.inf, 40),
        (-np.inf, 130),
        (np.nan, 130),
        *(pytest.param(*other, marks=EVERY) for other in ((np.inf, 130), (-np.inf, 40), (np.nan, 40))),
    ],
)
def test_scores_that_are_no_numbers(value: float, place: int) -> None:
    q, k, v = data(3)
    q[:] = 1
    k[:, :, place] = value
    y = heads().simulate(q, k, v).arrays["y"]
    np.testing.assert_allclose(y.astype(np.float64), weighed(q, k, v)[0], rtol=0, atol=2e-2)


def test_logarithms_of_sums() -> None:
    arrays = data(30)
    found = heads(lse=True).simulate(*arrays).arrays["lse"]
    np.testing.assert_allclose(found, weighed(*arrays)[1], rtol=2**-8)  # bf16


def test_chunks_are_computed_again_only_where_their_sums_may_not_be_finite() -> None:
    assert outcome(heads(), data(30), decided("far", 0)) == "right"
    assert outcome(heads(), data(55), decided("far", 0)) == "right"
    assert outcome(heads(), data(150), decided("far", 0)) == "wrong"


def test_headroom_lets_scores_grow_unnoticed() -> None:
    """By 60 powers of 2 of headroom and 24 of slack: no chunk's statements that correct it run."""
    uncorrected = without(writes("total_chunk"))
    assert outcome(heads(), data(19), uncorrected) == "right"
    assert outcome(heads(), data(23), uncorrected) == "wrong"


@pytest.mark.parametrize("make", [heads, by_mma])
@pytest.mark.parametrize(
    "drop",
    [
        lambda s: isinstance(s, Compute) and s.dst.buffer.name.startswith("part_a"),
        writes("total_chunk"),
        writes("total"),
        lambda s: isinstance(s, Call) and s.lane is not None,
    ],
    ids=["terms", "the chunk's sum", "the sum", "lanes"],
)
def test_planted_mistakes_are_found(drop: Callable[[Statement], bool], make: Callable[..., Any]) -> None:
    schedule, arrays = make(), data(30)
    body = schedule.lowered().body
    assert without(drop)(body) != body
    assert outcome(schedule, arrays, without(drop)) != "right"


@fi.program(x="i j")
def scaled_sum(x: Value) -> Value:
    top = largest(x, "j")
    return summed(fi.exp(x - top), "j") * fi.exp(top / 64)


@fi.program(x="i j")
def warm(x: Value) -> Value:
    top = largest(x, "j")
    return summed(fi.exp2((x - top) * 0.25), "j")


@fi.program(x="i j")
def smallest(x: Value) -> Value:
    low = fi.min(x, "j")
    return summed(fi.exp(low - x), "j")


def test_what_a_value_rises_by() -> None:
    def unit(spec: Any) -> float | None:
        program, law = online(spec.computed, "j")
        (name,) = law.factors
        return doubling(law, next(s for s in program.steps if s.name == name))

    x = fi.tensor(64, 256, dtype="f32")
    q = fi.tensor(1, 1, 64, 64, dtype="bf16")
    assert unit(attention.attention(q, q, q)) == 1
    assert unit(scaled_sum(x)) == pytest.approx(np.log(2))
    assert unit(warm(x)) == 4
    assert unit(smallest(x)) is None


def test_a_raised_value_has_a_line_of_its_own_in_the_code() -> None:
    loops = [s for s in walk(heads().lowered().body) if isinstance(s, For) and s.kind == "chunks"]
    titles = {s.title for loop in loops for s in walk(loop.body) if isinstance(s, Region)}
    assert "top: raised as the chunk's sums tell" in titles


def test_threads_of_few_registers_compute_chunks_again() -> None:
    q, k, v = (fi.tensor(1, 1, 192, 64, dtype="bf16") for _ in range(3))
    schedule = attention.wgmma(attention.attention(q, k, v), groups=3, keys=64, slack=40, speculate=True)
    body = schedule.lowered().body
    assert any(isinstance(s, Vote) and s.var.name == "trusts" for s in walk(body))
    assert not any(isinstance(s, Region) and "raised" in s.title for s in walk(body))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(1, 1, 192, 64)).astype(ml_dtypes.bfloat16) for _ in range(3)]
    given[1][..., 0], given[0][..., 0] = np.arange(192), 8
    out = schedule.simulate(*given).arrays["y"].astype(np.float64)
    np.testing.assert_allclose(out, weighed(*given)[0], rtol=0, atol=2e-2)
