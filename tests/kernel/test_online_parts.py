"""Online loops whose keys units share: each has values of its own, and they meet once behind the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import FR, RF, SH, Block, FireironError, Warp, by_atomics, by_cluster, vector
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Compute, For, Statement, walk
from fireiron.schedules import attention
from fireiron.simulate import simulate

KEYS = 150


def shared(how: str, keys: int = KEYS) -> Any:
    """Give attention of 16 queries whose keys blocks, warps, blocks of a cluster, or all of these share."""
    q, k, v = (fi.tensor(1, 1, n, 32, dtype="f16") for n in (16, keys, keys))
    chain = attention.attention(q, k, v).tile(b=1, h=1, i=16).to(Block)
    if "grid" in how:
        chain = chain.split("j", ways=3).parallel(Block)
    if "cluster" in how:
        chain = chain.split("j", ways=2).parallel(Block, by_cluster())
    chain = chain.epilog(memory=FR)
    chain = chain.split("j", ways=2).parallel(Warp) if "warps" in how else chain
    chain = chain.load("q", SH, fi.cp_async())
    slack = 10 if "slack" in how else 0
    chain = chain.split(j=32).online(slack, "speculate" in how).pipeline(2)
    chain = chain.load("k", SH, fi.cp_async()).load("v", SH, fi.cp_async())
    chain = chain if "warps" in how else chain.tile(i=16).to(Warp)
    return chain.each(
        s=lambda s: s.split(d=16).unroll().load("q", FR, fi.ldmatrix()).load("k", FR, fi.ldmatrix())
        .tile(16, 8).unroll().done(),
        o=lambda o: o.split(j=16).unroll().load("v", FR, fi.ldmatrix()).tile(16, 8).unroll().done(),
    )  # fmt: skip


def weighed(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) / np.sqrt(q.shape[-1])
    with np.errstate(invalid="ignore"):
        parts = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bhje->bhie", parts / parts.sum(-1, keepdims=True), v.astype(np.float64))


HURT: dict[str, Callable[[Any, Any], None]] = {
    "normal": lambda q, k: None,
    "parts that outgrow each other": lambda q, k: (q.fill(1), np.copyto(k, np.arange(k.shape[2])[:, None] / 8)),
    "parts that fall": lambda q, k: (q.fill(4), np.copyto(k, -np.arange(k.shape[2])[:, None] / 4)),
    "one key of all": lambda q, k: (q.fill(8), k.fill(-8), k[:, :, 33].fill(8)),
    "parts of -inf alone": lambda q, k: (q.fill(1), k[:, :, :60].fill(-np.inf)),
    "a score of inf": lambda q, k: (q.fill(1), k[:, :, 50].fill(np.inf)),
}


def data(hurt: str = "normal", keys: int = KEYS) -> Any:
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(1, 1, n, 32)).astype(np.float16) for n in (16, keys, keys))
    HURT[hurt](q, k)
    return q, k, v


@pytest.mark.product
@pytest.mark.parametrize("how", ["grid", "warps", "cluster", "grid warps", "warps slack", "grid slack speculate"])
@pytest.mark.parametrize("hurt", HURT)
def test_data_built_to_hurt(hurt: str, how: str) -> None:
    arrays = data(hurt)
    out = shared(how).simulate(*arrays).arrays["y"]
    np.testing.assert_allclose(out, weighed(*arrays), rtol=0, atol=3e-3)


@pytest.mark.parametrize("keys", [1, 20, 33])
def test_parts_without_keys(keys: int) -> None:
    arrays = data(keys=keys)
    out = shared("grid warps", keys).simulate(*arrays).arrays["y"]
    np.testing.assert_allclose(out, weighed(*arrays), rtol=0, atol=3e-3)


def test_warps_meet_behind_the_loop_alone() -> None:
    loop = between(shared("warps").cuda("sm_80"), "for (int j", "units meet")
    assert "__syncwarp" in loop
    assert "__syncthreads" not in loop


def between(text: str, first: str, last: str) -> str:
    start = text.index(first)
    return text[start : text.index(last, start)]


def outcome(body: Any, arrays: Any, schedule: Any) -> Any:
    q, k, v = arrays
    named = {"q": q, "k": k, "v": v, "y": np.zeros(q.shape, np.float16)}
    simulate(attrs.evolve(schedule.lowered(), body=body), named)
    return np.allclose(named["y"], weighed(q, k, v), rtol=0, atol=3e-3)


@pytest.mark.parametrize(("how", "sum_"), [("warps", "o"), ("warps", "total"), ("grid", "other")])
def test_parts_that_are_not_corrected_are_wrong(how: str, sum_: str) -> None:
    schedule, arrays = shared(how), data("parts that outgrow each other")
    body = schedule.lowered().body
    looped = {id(s) for x in walk(body) if isinstance(x, For) and x.kind == "chunks" for s in walk(x.body)}

    def dropped(s: Statement) -> Any:
        fixes = (
            isinstance(s, Compute)
            and s.dst.buffer.name.rstrip("0123456789") == sum_
            and any(v.buffer.name.startswith("top_factor") for v in s.inputs)
            and id(s) not in looped
        )
        return () if fixes else s

    assert outcome(body, arrays, schedule)
    planted = rewrite(body, dropped)
    assert planted != body
    assert not outcome(planted, arrays, schedule)


def test_rows_in_registers() -> None:
    """A row's largest value and its sum, by blocks that each have a part of it."""

    @fi.program(x="m n")
    def logsumexp(x: Any) -> Any:
        top = fi.max(x, "n").named("top")
        return top + fi.log(fi.sum(fi.exp(x - top), "n"))

    chain = logsumexp(fi.Matrix(3, 700, "f32", name="x")).tile(m=1).to(Block).split("n", ways=3).parallel(Block)
    chain = chain.split(n=128).online().split("n", ways=2).parallel(Warp).load("x", RF, vector())
    x = np.random.default_rng(0).normal(size=(3, 700)).astype(np.float32) * 9
    made = chain.epilog(memory=RF).done().simulate(x).arrays["y"]
    top = x.max(1).astype(np.float64)
    np.testing.assert_allclose(made, top + np.log(np.exp(x - top[:, None]).sum(1)), rtol=1e-5)


def test_atomics_do_not_correct() -> None:
    q, k, v = (fi.tensor(1, 1, n, 32, dtype="f16") for n in (16, KEYS, KEYS))
    chain = attention.attention(q, k, v).tile(b=1, h=1, i=16).to(Block).split("j", ways=3)
    chain = chain.parallel(Block, by_atomics()).epilog(memory=FR).split(j=8).online()
    with pytest.raises(FireironError, match="parallel-atomics"):
        chain.load("k", SH, vector()).load("v", SH, vector()).tile(i=1).to(fi.Thread).done()
