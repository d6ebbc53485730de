"""Hints to the L2 cache in whole schedules on the GPU: loads, multicast loads, stores and additions stay right."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    Cluster,
    Warpgroup,
    by_tma,
    matmul,
    stmatrix,
    through_shared,
    tma,
)
from fireiron.atoms.tma import POLICIES
from fireiron.jit.driver import driver
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan


@pytest.fixture(autouse=True)
def needs_hopper():
    number = driver().compute_capability(0)
    if number != 90:
        pytest.skip(f"wgmma is for sm_90a alone, this GPU is sm_{number}")


def whole(rng, *shape):
    """Draw numbers whose sums are exact."""
    return rng.integers(-1, 2, shape).astype("f2")


def exact(schedule, m, n, k, c=None):
    """Run twice on whole numbers, and compare every element."""
    kernel = schedule.compile()
    rng = np.random.default_rng(m + n + k)
    for _ in range(2):
        a, b = whole(rng, m, k), whole(rng, n, k)
        out = np.zeros((m, n), "f2") if c is None else c.copy()
        wanted = a.astype("f8") @ b.astype("f8").T + (0 if c is None else c)
        np.testing.assert_array_equal(np.asarray(kernel(a, b, out=out)).astype("f8"), wanted)


@pytest.mark.parametrize("cluster", [None, (2, 1), (1, 2), (2, 2)], ids=str)
@pytest.mark.parametrize("policy", POLICIES)
def test_loads_multicasts_and_stores(policy, cluster):
    m, n, k = 456, 328, 520
    store = through_shared(stmatrix(), tma(l2=policy), panel=(64, 64), at=Warpgroup)
    spec = matmul(m, n, k, "f16", layout="TN")
    tiled = spec.tile(64, 64).to(Block)
    if cluster:
        tiled = spec.tile(cluster[0] * 64, cluster[1] * 64).to(Cluster).persistent().tile(64, 64).to(Block)
    chain = tiled.epilog(memory=FR, store=store).split(64).pipeline(4, inflight=1).specialize()
    chain = chain.load(A, SH, tma(l2=policy)).load(B, SH, tma(l2=policy))
    schedule = chain.tile(64, 64).to(Warpgroup).split(16).unroll().done()
    assert ("multicast_hinted" in schedule.cuda("sm_90a")) == bool(cluster)
    exact(schedule, m, n, k)


@pytest.mark.parametrize("policy", POLICIES)
def test_additions(policy):
    m, n, k = 264, 328, 1024
    schedule = (
        matmul(m, n, k, "f16", layout="TN", beta=1.0).tile(64, 64).to(Block).persistent()
        .epilog(memory=FR, store=through_shared(stmatrix(), tma(l2=policy), panel=(64, 64), at=Warpgroup))
        .split(ways=3, multiple_of=64).parallel(Block, reduce=by_tma())
        .split(64).pipeline(4, inflight=1).specialize().load(A, SH, tma(l2=policy)).load(B, SH, tma(l2=policy))
        .tile(64, 64).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    assert "tma_add_2d_hinted" in schedule.cuda("sm_90a")
    exact(schedule, m, n, k, np.random.default_rng(0).integers(-50, 50, (m, n)).astype("f2"))


@pytest.mark.parametrize("keep", ["left", "right"])
@pytest.mark.parametrize(
    "plan",
    [
        {"m": 64, "n": 16, "consumers": 1, "swapped": True, "ways": 4},
        {"m": 128, "n": 64, "cluster": (2, 1)},
        {"m": 128, "n": 64, "stream": True},
        {"m": 128, "n": 64, "pingpong": True},
    ],
    ids=str,
)
def test_plans_that_keep_an_operand(plan, keep):
    m, n, k = 16 if plan.get("swapped") else 520, 1032, 1024
    schedule = hopper.gemm(matmul(m, n, k, "f16", layout="TN"), Plan(**plan, keep=keep))
    exact(schedule, m, n, k)
