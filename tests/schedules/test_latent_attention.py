"""Latent attention: the first columns of one cache are the values; a tile of it is loaded once."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import attention as schedules

PLANS = {"simt": {"rows": 32}, "mma": {"warps": 2}, "decode": {"ways": 2}}


def spec_of(lead: tuple[int, ...], queries: int, keys: int, depth: int, width: int, dtype: str) -> Any:
    program = schedules.latent.on(q="b h g i d") if len(lead) == 3 else schedules.latent
    q, cache = fi.tensor(*lead, queries, depth, dtype=dtype), fi.tensor(*lead[:2], keys, depth, dtype=dtype)
    return program(q, cache, width=width, lse=True, out=(dtype, "f32"))


@pytest.mark.parametrize(
    ("preset", "lead", "queries", "keys", "depth", "width"),
    [
        ("simt", (1, 2), 10, 20, 40, 32),
        ("mma", (1, 2), 20, 70, 48, 32),
        ("decode", (1, 1, 8), 2, 200, 96, 64),
        ("decode", (1, 1, 16), 1, 70, 576, 512),
    ],
)
def test_values(preset: str, lead: Any, queries: int, keys: int, depth: int, width: int) -> None:
    """Wide values are parted between blocks, each of which computes the scores of its queries."""
    rng = np.random.default_rng(0)
    q, cache = (rng.normal(size=x).astype(np.float16) for x in ((*lead, queries, depth), (*lead[:2], keys, depth)))
    schedule = getattr(schedules, preset)(spec_of(lead, queries, keys, depth, width, "f16"), **PLANS[preset])
    made, sums = list(schedule.simulate(q, cache).arrays.values())[:2]
    wide = q.reshape(*lead[:2], prod(lead[2:]), queries, depth).astype(float)
    scores = np.einsum("bhgid,bhjd->bhgij", wide, cache.astype(float)) * depth**-0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    total = weights.sum(-1, keepdims=True)
    want = np.einsum("bhgij,bhje->bhgie", weights / total, cache[..., :width].astype(float))
    np.testing.assert_allclose(made, want.reshape(made.shape), rtol=4e-3, atol=4e-3)
    lse = np.log(total[..., 0]) + scores.max(-1)
    np.testing.assert_allclose(sums, lse.reshape(sums.shape), rtol=1e-4, atol=1e-4)


def test_one_load_serves_both_products() -> None:
    """The cache comes to shared memory once; the second product reads the first columns of the same lines."""
    source = schedules.mma(spec_of((1, 2), 64, 256, 96, 64, "f16"), warps=2).cuda("sm_80")
    assert [line.strip() for line in source.splitlines() if "k_sh2" in line] == []
    assert "load k_sh to k_fr: " in source
    assert "load k_sh to k_fr2: " in source


@pytest.mark.parametrize("rows", [32, 8])
def test_part_of_an_array(rows: int) -> None:
    """A product of an array and its own first columns; where a tile has all columns, one load serves both factors."""

    @fi.program(x="m k")
    def product(x: Any, columns: int = 24) -> Any:
        return fi.einsum("mk,mn->kn", x, x[fi.index("m"), fi.dim("n", columns)])

    chain = product(fi.Matrix(48, 32, name="x")).tile(k=rows, n=8).to(fi.Block).epilog(memory=fi.RF).split(m=16)
    schedule = chain.load("x", fi.SH, fi.vector()).tile(k=1, n=1).to(fi.Thread).done()
    x = np.random.default_rng(0).normal(size=(48, 32)).astype(np.float32)
    np.testing.assert_allclose(schedule.simulate(x).out, x.T @ x[:, :24], rtol=1e-4, atol=1e-4)
    reads = [line for line in schedule.cuda("sm_80").splitlines() if "fmaf(" in line]
    assert sum(line.count("x_sh[") for line in reads) == (2 if rows == 32 else 1)


def test_golden(golden: Any) -> None:
    """576 columns, of which 512 are values, 16 heads of queries: two blocks have 256 columns each."""
    spec = spec_of((8, 1, 16), 1, 4096, 576, 512, "bf16")
    schedule = schedules.decode(spec)
    golden(schedule.cuda("sm_90a"), "schedules/attention_latent_decode.cu")
    assert not schedule.compile("sm_90a").resources.spills
