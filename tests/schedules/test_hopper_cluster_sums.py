"""Hopper schedules whose blocks add sums in a cluster: printed, compiled without spills, and told by the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    Warp,
    Warpgroup,
    by_cluster,
    conform,
    cp_async,
    ldmatrix,
    matmul,
    stmatrix,
    through_shared,
    tma,
)
from fireiron.cuda.printer import source
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan

Golden = Callable[[str, str], None]


def tn(*sizes: Any, dtype: str = "bf16") -> Any:
    return matmul(*sizes, dtype=dtype, layout="TN", arch="sm_90a")


def plan(m: int, n: int, ways: int, **more: Any) -> Plan:
    return Plan(m=m, n=n, ways=ways, through="cluster", **{"consumers": 1, **more})


def test_prints(golden: Golden) -> None:
    golden(
        hopper.split_k(tn(16, 4096, 4096), plan(64, 16, 4, swapped=True, stages=4)).cuda(),
        "schedules/hopper_cluster_sums.cu",
    )


@pytest.mark.parametrize(
    ("size", "chosen", "shares"),
    [
        ((1, 4096, 4096), plan(64, 8, 4, swapped=True), 1),
        ((16, 4096, 4096), plan(64, 16, 4, swapped=True, panels=2), 2),
        ((128, 4096, 8192), plan(64, 64, 8), 4),
        ((512, 512, 8192), plan(128, 128, 8, consumers=2), 8),
        ((512, 512, 8192), plan(128, 96, 4, consumers=2, pingpong=True), 3),
    ],
    ids=lambda x: "" if isinstance(x, Plan | int) else "x".join(map(str, x)),
)
def test_compiles_without_spills(size: tuple[int, int, int], chosen: Plan, shares: int) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    assert chosen.shares(2) == shares
    schedule = hopper.gemm(tn(*size), chosen)
    assert not [f for f in schedule.check("sm_90a") if f.severity == "error"]
    resources = schedule.compile().resources
    assert not resources.spills
    assert not resources.stack
    assert not resources.warnings


def test_blocks_of_a_tile_are_a_cluster() -> None:
    kernel = hopper.split_k(tn(512, 512, 1024), plan(64, 64, 4)).lowered()
    assert kernel.cluster == 4
    assert str(kernel.grid) == "256"
    assert not [p for p in kernel.parameters if "partial" in str(getattr(p, "buffer", ""))], "no workspace"


def test_a_block_finishes_a_part_of_the_tile() -> None:
    def made(shares: int | None, width: int) -> Any:
        store = through_shared(stmatrix(), tma(2 * width), panel=(64, width), at=Warpgroup)
        return (
            tn(256, 256, 1024).tile(64, 64).to(Block).persistent().epilog(memory=FR, store=store)
            .split(ways=4, multiple_of=64).parallel(Block, reduce=by_cluster(shares))
            .split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
            .tile(64, 64).to(Warpgroup).split(16).unroll().done()
        )  # fmt: skip

    assert "store C: Move(64, 16)(FR, GL)(Block)" in made(None, 16).cuda()
    assert "store C: Move(64, 32)(FR, GL)(Block)" in made(2, 32).cuda()
    assert "if (rank < 2) {" in made(2, 32).cuda()
    assert "store C: Move(64, 64)(FR, GL)(Block)" in made(1, 64).cuda()
    tree = made(2, 32).tree()
    assert "split 4 ways parallel Block in a cluster, in 2 shares" in tree
    assert "reduce: 4 sums in order through acc_sh in SH of the cluster, 16 KiB" in tree


def test_what_threads_hold_unlike_is_finished_whole() -> None:
    # Warps beside each other hold different columns: no run of columns is held alike by all threads.
    text = (
        matmul(128, 128, 256, "f16", layout="TN", arch="sm_90a").tile(64, 64).to(Block)
        .epilog(memory=FR, store=conform(4))
        .split(ways=4, multiple_of=32).parallel(Block, reduce=by_cluster())
        .split(32).pipeline(2).load(A, SH, cp_async(16)).load(B, SH, cp_async(16))
        .tile(32, 32).to(Warp).split(16).unroll().load(A, FR, ldmatrix()).load(B, FR, ldmatrix())
        .tile(16, 8).unroll().done().cuda()
    )  # fmt: skip
    assert "if (rank < 1) {" in text
    assert "store C: Move(64, 64)(FR, GL)(Block)" in text


def test_one_way_is_no_cluster() -> None:
    text = (
        tn(128, 128, 256).tile(64, 64).to(Block).persistent().epilog(memory=FR, store=conform(4))
        .split(ways=1, multiple_of=64).parallel(Block, reduce=by_cluster())
        .split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 64).to(Warpgroup).split(16).unroll().done().cuda()
    )  # fmt: skip
    assert "__cluster_dims__" not in text
    assert "summed" not in text


def test_hangs_are_found() -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    schedule = hopper.split_k(tn(512, 512, 1024), plan(64, 64, 4))
    assert not schedule.compile(debug=True).resources.spills
    bounded = source(schedule.lowered(), bounded=True)
    assert "mbarrier_wait_cluster_bounded(&summed[0]" in bounded
