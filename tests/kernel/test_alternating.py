"""Registers that change places between two trips: what the loop becomes, and that results and orders stay right."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import tensor
from fireiron.algebra.expr import as_int
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Advance, Commit, For, If, Region, Statement, Wait, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import attention
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def loops(body: tuple[Statement, ...]) -> list[For]:
    return [s for s in walk(body) if isinstance(s, For) and s.var.name.endswith("_pair")]


def scheduled(keys: int, causal: bool = False, queries: int = 64, chunk: int = 16) -> attention.Schedule:
    q = tensor(1, 1, queries, 64, dtype="bf16")
    k, v = (tensor(1, 1, keys, 64, dtype="bf16") for _ in range(2))
    spec = attention.attention(q, k, v, causal=causal)
    return attention.wgmma(spec, groups=1, keys=chunk, speculate=True, slack=24.0)


def test_two_trips_stand_in_a_loop_without_copies() -> None:
    (loop,) = loops(scheduled(96).lowered().body)
    assert sum(isinstance(s, Advance) for s in loop.body) == 4  # keys' slot and values', twice
    assert not any(isinstance(s, Region) and s.title == "part_a_next to part_a_fr" for s in walk(loop.body))


@pytest.mark.parametrize(("keys", "trips", "last"), [(80, 2, 0), (96, 2, 1), (32, 0, 1)])
def test_a_trip_is_left_where_they_are_odd(keys: int, trips: int, last: int) -> None:
    """Chunks of 16 keys, one of them ahead of the loop: an even number of chunks leaves one trip."""
    body = scheduled(keys).lowered().body
    assert [as_int(s.extent) for s in loops(body)] == ([trips] if trips else [])
    copies = [s for s in walk(body) if isinstance(s, Region) and s.title == "part_a_next to part_a_fr"]
    assert len(copies) == 1 + last  # the first chunk's, and the last trip's


@pytest.mark.parametrize(
    ("queries", "keys", "causal", "chunk"),
    [(64, 80, False, 16), (64, 96, False, 16), (128, 128, True, 16), (192, 192, True, 64)],
)
def test_results_and_orders_are_right(queries: int, keys: int, causal: bool, chunk: int) -> None:
    """A mask leaves an odd number of trips to all tiles, or to every second one: these end behind a branch."""
    kernel = scheduled(keys, causal, queries, chunk).lowered()
    assert unordered(kernel) == ()
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays)
    q, k, v = (arrays[name].astype(np.float64) for name in ("q", "k", "v"))
    scores = np.einsum("bhid,bhjd->bhij", q, k) / 8
    if causal:
        scores = np.where(np.arange(queries)[:, None] >= np.arange(keys), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhij,bhjd->bhid", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(arrays["y"].astype(np.float64), expected, rtol=2e-2, atol=2e-2)


def test_products_run_under_the_branches_of_a_chunk() -> None:
    """Each half awaits the scores alone ahead of its branches, and what weighs the values behind them."""
    (loop,) = loops(scheduled(96).lowered().body)
    pending = [s.pending for s in loop.body if isinstance(s, Wait)]
    assert pending == [1, 0, 1, 0]
    waits = [i for i, s in enumerate(loop.body) if isinstance(s, Wait)]
    assert any(
        isinstance(s, If) and not any(isinstance(x, Commit) for x in walk((s,))) for s in loop.body[waits[0] : waits[1]]
    )
