"""Hopper schedules that share out K: printed as golden files, compiled without spills, ranked by the model."""

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
    Warpgroup,
    by_atomics,
    by_tma,
    conform,
    matmul,
    relu,
    stmatrix,
    stream_k,
    symbol,
    through_shared,
    tma,
)
from fireiron.base.errors import DecompositionError
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan

Golden = Callable[[str, str], None]
FEW = Plan(m=64, n=16, consumers=1, swapped=True, stages=4)


def tn(*sizes: Any, dtype: str = "bf16") -> Any:
    return matmul(*sizes, dtype=dtype, layout="TN", arch="sm_90a")


def test_split_k_prints(golden: Golden) -> None:
    golden(hopper.split_k(tn(16, 4096, 4096), Plan(m=64, n=16, consumers=1, swapped=True, stages=4, ways=2)).cuda(),
           "schedules/hopper_split_k.cu")  # fmt: skip


def test_shares_print(golden: Golden) -> None:
    plan = Plan(m=64, n=64, consumers=1, ways=8, through="grid", stages=4)
    golden(hopper.split_k(tn(64, 64, 4096, dtype="f16"), plan).cuda(), "schedules/hopper_shares.cu")


def test_stream_k_prints(golden: Golden) -> None:
    golden(hopper.stream_k(tn(16, 4096, 4096), FEW).cuda(), "schedules/hopper_stream_k.cu")


@pytest.mark.parametrize(
    ("size", "plan"),
    [
        ((1, 4096, 4096), Plan(m=64, n=8, consumers=1, swapped=True, ways=2)),
        ((16, 4096, 4096), Plan(m=64, n=16, consumers=1, swapped=True, ways=4, panels=2)),
        ((64, 4096, 8192), Plan(m=128, n=64, consumers=2, swapped=True, cluster=(2, 1), ways=2)),
        ((128, 8192, 28672), Plan(m=128, n=128, consumers=2, swapped=True, stream=True)),
        ((512, 512, 8192), Plan(m=128, n=256, ways=8)),
        ((512, 512, 8192), Plan(m=128, n=192, pingpong=True, swapped=True, ways=4)),
        ((3200, 3200, 4096), Plan(m=128, n=256, stream=True, cluster=(2, 1))),
        ((472, 224, 59520), Plan(m=128, n=224, ways=31, through="grid")),
        ((264, 448, 55104), Plan(m=192, n=128, consumers=3, ways=16, through="grid", cluster=(2, 1))),
        ((128, 128, 65536), Plan(m=64, n=64, consumers=1, ways=33, through="grid", swapped=True)),
        ((3200, 3200, 4096), Plan(m=192, n=192, consumers=3, stream=True)),
    ],
    ids=lambda x: "" if isinstance(x, Plan) else "x".join(map(str, x)),
)
def test_compiles_without_spills(size: tuple[int, int, int], plan: Plan) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    resources = hopper.gemm(tn(*size), plan).compile().resources
    assert not resources.spills
    assert not resources.stack
    assert not resources.warnings


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["f16", "i8"])
@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
def test_every_layout_compiles(dtype: str, layout: str) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    for plan in (Plan(m=64, n=64, consumers=1, ways=3), Plan(m=128, n=128, stream=True)):
        spec = matmul(640, 192, 1536, dtype, layout=layout, arch="sm_90a")
        assert not hopper.gemm(spec, plan).compile().resources.spills


def test_sizes_may_be_symbols() -> None:
    spec = tn(symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=64))
    for plan in (Plan(m=128, n=64, ways=3), Plan(m=128, n=64, stream=True)):
        text = hopper.gemm(spec, plan).cuda()
        assert "partial" in text
        assert ("count_in" in text) == (not plan.stream)


def test_a_block_of_roles_counts_in_by_those_that_compute() -> None:
    text = hopper.split_k(tn(512, 512, 1024), Plan(m=128, n=64, ways=2)).cuda()
    assert "count_in(&arrived[tile], 2, thread == 0, 0, 256)" in text
    turns = hopper.split_k(tn(512, 512, 1024), Plan(m=128, n=64, ways=2, pingpong=True)).cuda()
    assert "count_in(&arrived[tile], 2, thread % 128 == 0, 1 + thread / 128, 128)" in turns


def test_sums_of_clusters_are_told_apart() -> None:
    text = hopper.split_k(tn(512, 512, 1024), Plan(m=128, n=64, ways=2, cluster=(2, 1))).cuda()
    assert "arrived[tile * 2 + rank]" in text


def test_atomics_and_ops_follow_the_sum() -> None:
    made = (
        tn(256, 256, 512).tile(64, 128).to(Block).persistent().epilog(lambda x: relu(x + 1), memory=FR)
        .split(ways=2, multiple_of=64).parallel(Block, reduce=by_atomics())
        .split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    text = made.cuda()
    assert text.index("add_f32x4(&partial") < text.index("count_in(&") < text.index("// Pointwise(FR)(Block)")
    assert text.index("// Pointwise(FR)(Block)") < text.index("max_bf16_pair(floats_to_bf16_pair(")


def test_streams_take_any_order_and_number_of_units() -> None:
    made = (
        tn(256, 384, 512).tile(64, 128).to(Block).persistent(share=stream_k(20)).epilog(memory=FR)
        .split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    kernel = made.lowered()
    assert kernel.persistent
    assert str(kernel.grid) == "20"
    assert "_stream_" in made.name
    few = (
        tn(64, 128, 256).tile(64, 128).to(Block).persistent(share=stream_k(20)).epilog(memory=FR)
        .split(64).pipeline(3).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    assert str(few.lowered().grid) == "4", "no more units than chunks"


@pytest.mark.parametrize("units", [1, 7])
def test_any_number_of_units_is_checked_and_estimated(units: int) -> None:
    schedule = (
        tn(520, 776, 1024).tile(64, 128).to(Block).persistent(share=stream_k(units)).epilog(memory=FR)
        .split(64).pipeline(4, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    assert str(schedule.lowered().grid) == str(units)
    assert not [f for f in schedule.check("sm_90a") if f.severity == "error"]
    assert schedule.estimate("sm_90a").time_us > 0


def test_the_model_shares_out_k_where_tiles_are_few() -> None:
    assert hopper.plans(tn(128, 128, 65536))[0].ways > 4
    best = hopper.plans(tn(4096, 4096, 4096))[0]
    assert best.ways == 1
    assert not best.stream
    assert any(plan.stream for plan in hopper.plans(tn(2176, 2176, 4096)))


def test_skinny_products_are_swapped_and_as_wide_as_their_rows() -> None:
    for rows, width in ((1, 8), (16, 16)):
        plan = next(p for p in hopper.plans(tn(rows, 4096, 4096)) if p.swapped)
        assert width <= plan.n <= 2 * width
        text = hopper.skinny(tn(rows, 4096, 4096)).cuda()
        assert f"wgmma_m64n{plan.n}k16" in text


def added(size: tuple[int, int, int] = (256, 256, 1024), **more: Any) -> Any:
    spec = matmul(*size, "bf16", layout="TN", arch="sm_90a", beta=more.get("beta", 1.0), alpha=2.0)
    store = through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup, ring=2)
    return (
        spec.tile(64, 128).to(Block).persistent()
        .epilog(*more.get("ops", ()), memory=FR, store=more.get("store", store))
        .split(ways=3, multiple_of=64).parallel(Block, reduce=by_tma())
        .split(64).pipeline(3, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip


def test_bulk_stores_add_to_c() -> None:
    made = added()
    text = made.cuda()
    assert "tma_add_2d(&C_map" in text
    assert "tma_store" not in text
    assert "partial" not in text, "no workspace"
    (c,) = (p for p in made.lowered().parameters if getattr(p, "role", "") == "update")
    assert c.buffer.name == "C"
    assert "by bulk additions to C" in made.tree()


@pytest.mark.parametrize(
    ("more", "fact"),
    [
        ({"beta": 0.0}, "the epilog makes something else than alpha"),
        ({"ops": (relu,)}, "the epilog makes something else than alpha"),
        ({"store": conform()}, "C is not stored in bulk"),
    ],
    ids=["beta", "ops", "store"],
)
def test_what_cannot_be_added_in_parts_is_refused(more: dict[str, Any], fact: str) -> None:
    with pytest.raises(DecompositionError, match=fact) as caught:
        added(**more)
    assert caught.value.code == "parallel-reduce"


@pytest.mark.parametrize("ops", [(), (relu,), (lambda x: x + 1,)], ids=["none", "relu", "sum"])
def test_sums_that_are_loaded_do_not_serialise_the_next_tiles_products(ops: Any) -> None:
    spec = matmul(520, 264, 2048, "bf16", layout="TN")
    schedule = (
        spec.tile(64, 128).to(Block).persistent().epilog(*ops, memory=FR)
        .split(ways=5, multiple_of=64).parallel(Block, reduce=by_atomics())
        .split(64).pipeline(4, inflight=1).specialize().load(A, SH, tma()).load(B, SH, tma())
        .tile(64, 128).to(Warpgroup).split(16).unroll().done()
    )  # fmt: skip
    assert not schedule.compile("sm_90a").findings
