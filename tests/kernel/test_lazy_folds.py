"""Folds with slack: right on data that outgrow it, by votes that each count, and without them where nothing does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import SH, Block, Value, Warp
from fireiron.algebra.expr import as_expr
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.rewrite import replaced, rewrite
from fireiron.kernel.ir.statements import Compute, For, If, Region, Statement, Vote, walk
from fireiron.language.levels import FR
from fireiron.schedules import attention
from fireiron.simulate import simulate

CHUNK = 32


def heads(slack: float = 10, speculate: bool = True, keys: int = 3 * CHUNK, causal: bool = False) -> Any:
    q, k, v = (fi.tensor(1, 1, n, 64, dtype="f16") for n in (64, keys, keys))
    spec = attention.attention(q, k, v, causal=causal)
    return attention.wgmma(spec, groups=1, keys=CHUNK, stages=2, persistent=False, slack=slack, speculate=speculate)


def by_mma(slack: float, speculate: bool) -> Any:
    """The same by products that are there when they end."""
    q, k, v = (fi.tensor(1, 1, n, 64, dtype="f16") for n in (64, 3 * CHUNK, 3 * CHUNK))
    chain = attention.attention(q, k, v).tile(b=1, h=1, i=32).to(Block).epilog(memory=FR)
    chain = chain.load("q", SH, fi.cp_async()).split(j=CHUNK).online(slack, speculate).pipeline(2)
    chain = chain.load("k", SH, fi.cp_async()).load("v", SH, fi.cp_async()).tile(i=16).to(Warp)
    return chain.each(
        s=lambda s: s.split(d=16).unroll().load("q", FR, fi.ldmatrix()).load("k", FR, fi.ldmatrix())
        .tile(i=16, j=8).unroll().done(),
        o=lambda o: o.split(j=16).unroll().load("v", FR, fi.ldmatrix()).tile(i=16, e=8).unroll().done(),
    )  # fmt: skip


def weighed(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) / np.sqrt(q.shape[-1])
    with np.errstate(invalid="ignore"):
        parts = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bhje->bhie", parts / parts.sum(-1, keepdims=True), v.astype(np.float64))


def grow(q: Any, k: Any) -> None:
    """Let every row outgrow its first chunk's largest score in each chunk behind it."""
    q.fill(1)
    k[:] = np.arange(k.shape[2])[:, None] / 8


HURT: dict[str, Callable[[Any, Any], None]] = {
    "normal": lambda q, k: None,
    "rows that outgrow every chunk": grow,
    "one row outgrows one chunk": lambda q, k: (k[:, :, :40].fill(0), q[:, :, 5].fill(8), k[:, :, 70].fill(8)),
    "scores of -inf at first": lambda q, k: (q.fill(1), k[:, :, :40].fill(-np.inf)),
    "a score of inf": lambda q, k: (q.fill(1), k[:, :, 50].fill(np.inf)),
    "scores that fall far": lambda q, k: (q.fill(4), np.copyto(k, -np.arange(k.shape[2])[:, None] / 4)),
}


def data(hurt: str = "normal") -> Any:
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(1, 1, n, 64)).astype(np.float16) for n in (64, 3 * CHUNK, 3 * CHUNK))
    HURT[hurt](q, k)
    return q, k, v


@pytest.mark.product
@pytest.mark.parametrize("make", [heads, by_mma])
@pytest.mark.parametrize("speculate", [False, True])
@pytest.mark.parametrize("hurt", HURT)
def test_data_built_to_hurt(hurt: str, speculate: bool, make: Callable[..., Any]) -> None:
    arrays = data(hurt)
    out = make(10, speculate).simulate(*arrays).arrays["y"]
    np.testing.assert_allclose(out, weighed(*arrays), rtol=0, atol=3e-3)


@pytest.mark.parametrize(("keys", "causal"), [(20, False), (75, False), (75, True), (160, True)])
def test_masks(keys: int, causal: bool) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(1, 1, n, 64)).astype(np.float16) for n in (64, keys, keys))
    k[:] *= np.arange(keys)[:, None] / 8
    scores = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) / 8
    if causal:
        scores = np.where(np.arange(keys) <= np.arange(64)[:, None] + keys - 64, scores, -np.inf)
    parts = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhij,bhje->bhie", parts / parts.sum(-1, keepdims=True), v.astype(np.float64))
    out = heads(keys=keys, causal=causal).simulate(q, k, v).arrays["y"]
    np.testing.assert_allclose(out, expected, rtol=0, atol=3e-3)


def votes(schedule: Any) -> list[str]:
    loops = [s for s in walk(schedule.lowered().body) if isinstance(s, For) and s.kind == "chunks"]
    return [s.var.name for loop in loops for s in walk(loop.body) if isinstance(s, Vote)]


def test_votes() -> None:
    assert votes(heads()) == ["trusts", "again", "far", "trusts2", "again2", "far2"]  # of two trips that stand together
    assert votes(heads(speculate=False)) == ["again"]  # one trip: two in sequence would spill registers
    assert votes(heads(slack=0, speculate=False)) == []
    assert "__any_sync(0xffffffff, outgrown[0])" in heads().cuda("sm_90a")


def test_a_chunk_alone_outgrows_nothing() -> None:
    assert not any(isinstance(s, Vote) for s in walk(heads(keys=20).lowered().body))


def test_the_first_chunk_asks_nobody() -> None:
    """It stands ahead of the loop, and folds."""
    body = heads().lowered().body
    assert sum(isinstance(s, Vote) for s in walk(body)) == 6  # three of each of two trips


def outcome(body: Any, arrays: Any, schedule: Any) -> str:
    kernel = attrs.evolve(schedule.lowered(), body=body)
    q, k, v = arrays
    named = {"q": q, "k": k, "v": v, "y": np.zeros(q.shape, np.float16)}
    try:
        simulate(kernel, named)
    except SimulationError as error:
        return error.code
    return "right" if np.allclose(named["y"], weighed(q, k, v), rtol=0, atol=3e-3) else "wrong"


def never(name: str) -> Callable[[Any], Any]:
    """Let a vote always say no."""

    def plant(body: Any) -> Any:
        out: list[Statement] = []
        for i, s in enumerate(body):
            if isinstance(s, Vote) and s.var.name == name:
                return (*out, *replaced(body[i + 1 :], {s.var: as_expr(0)}))
            if isinstance(s, For | If | Region):
                s = attrs.evolve(s, body=plant(s.body))
            out.append(s)
        return tuple(out)

    def roles(body: Any) -> Any:
        return tuple(
            attrs.evolve(s, roles=tuple(attrs.evolve(r, body=plant(r.body)) for r in s.roles))
            if hasattr(s, "roles")
            else s
            for s in body
        )

    return roles


def uncorrected(name: str) -> Callable[[Any], Any]:
    """Leave a sum as it is when its value moves."""

    def corrects(s: Statement) -> bool:
        return (
            isinstance(s, Compute)
            and s.dst.buffer.name == name
            and any(v.buffer.name == "top_factor_rf" for v in s.inputs)
        )

    return lambda body: rewrite(body, lambda s: () if corrects(s) else s)


@pytest.mark.parametrize("speculate", [False, True])
@pytest.mark.parametrize(
    "plant", [never("again"), uncorrected("o"), uncorrected("total")], ids=["never again", "o", "total"]
)
def test_planted_mistakes_are_found(plant: Callable[[Any], Any], speculate: bool) -> None:
    schedule, arrays = heads(speculate=speculate), data("rows that outgrow every chunk")
    body = schedule.lowered().body
    assert outcome(body, arrays, schedule) == "right"
    assert plant(body) != body
    assert outcome(plant(body), arrays, schedule) != "right"


@fi.program(q="b h i d", k="b h j d", v="b h j e")
def least_first(q: Value, k: Value, v: Value) -> Value:
    """Weigh by 2**-score: the fold that others follow is a smallest value, which sums do not raise."""
    s = fi.einsum("bhid,bhjd->bhij", q, k, name="s")
    part = fi.exp2(fi.min(s, "j").named("top") - s).named("part")
    return fi.einsum("bhij,bhje->bhie", (part / fi.sum(part, "j").named("total")).cast(v.dtype), v, name="o")


def test_speculation_is_given_up_where_no_sum_raises_a_value() -> None:
    """A warp folds each chunk first once a chunk has outgrown it: then it counts no more sums in vain."""
    q, k, v = (fi.tensor(1, 1, n, 64, dtype="f16") for n in (64, 3 * CHUNK, 3 * CHUNK))
    schedule = attention.wgmma(
        least_first(q, k, v), groups=1, keys=CHUNK, stages=2, persistent=False, slack=10, speculate=True
    )
    assert votes(schedule) == ["trusts", "again", "trusts2", "again2"]
    q, k, v = data("rows that outgrow every chunk")
    found: list[bool] = []
    for change in (lambda body: body, never("trusts"), never("again")):
        kernel, y = schedule.lowered(), np.zeros(q.shape, np.float16)
        simulate(attrs.evolve(kernel, body=change(kernel.body)), {"q": -q, "k": k, "v": v, "y": y})
        found.append(np.allclose(y, weighed(q * 8 * np.log(2), k, v), rtol=0, atol=3e-3))
    assert found == [True, True, False]


def test_flags_that_nothing_has_set_are_refused() -> None:
    schedule, arrays = heads(), data()

    def unset(s: Statement) -> Statement:
        flag = isinstance(s, Compute) and s.dst.buffer.name == "outgrown"
        return attrs.evolve(s, write=as_expr(0)) if flag else s

    body = rewrite(schedule.lowered().body, unset)
    assert outcome(body, arrays, schedule) == "uninitialised-read"
