"""Lowered Hopper schedules: right on the simulator, and nothing that orders their work can be left out."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    Cluster,
    ColMajor,
    Grouped,
    Hilbert,
    RowMajor,
    Warpgroup,
    matmul,
    relu,
    stmatrix,
    through_shared,
    tma,
)
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import mathematical, reference

LAYOUTS = ("TN", "NN", "NT", "TT")
SMALL = Plan(m=128, n=64, stages=3)
TURNS = Plan(m=64, n=64, stages=3)


def scheduled(name: str, sizes: tuple[int, int, int], plan: Plan | None, **kinds: Any) -> Any:
    spec = matmul(*sizes, arch="sm_90", **{"dtype": "bf16", "layout": "TN", **kinds})
    return getattr(hopper, name)(spec, plan)


def check(schedule: Any, **more: Any) -> Any:
    """Simulate on random inputs, and compare with f64 within the rounding of the schedule's types."""
    found = schedule.simulate(**more)
    tensor = schedule.program.spec.C
    result = mathematical(tensor, found.out)
    written = ~np.isnan(result) if found.report.blocks < found.report.grid else None
    expected = reference(schedule, found.arrays, {})
    comparison = compare("C", result, expected, tensor.dtype, written)
    assert comparison.passed, str(comparison)
    return found.report


def rings(
    sizes: tuple[int, int, int] = (248, 136, 200),
    order: Any = RowMajor,
    ring: int = 2,
    width: int = 64,
    stages: int = 3,
    inflight: int = 1,
    rows: int = 2,
    pingpong: bool = False,
    ops: tuple[Any, ...] = (),
    **kinds: Any,
) -> Any:
    """Schedule a product with what the presets leave no choice of."""
    spec = matmul(*sizes, arch="sm_90", **{"dtype": "bf16", "layout": "TN", **kinds})
    store = through_shared(stmatrix(), tma(2 * width), panel=(64, width), at=Warpgroup, ring=ring)
    tiled = spec.tile(rows * 128, 64).to(Cluster).persistent(order).tile(128, 64).to(Block)
    chain = tiled.epilog(*ops, memory=FR, store=store).split(64).pipeline(stages, inflight=inflight)
    chain = chain.specialize(registers=(24, 240)).load(A, SH, tma(128)).load(B, SH, tma(128))
    if pingpong:
        return chain.tile(128, 64).to(Warpgroup).staggered(2).split(16).unroll().tile(64, 64).unroll().done()
    return chain.tile(64, 64).to(Warpgroup).split(16).unroll().done()


@pytest.mark.product
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "sizes", "plan"),
    [
        ("cooperative", (248, 120, 200), SMALL),
        ("cooperative", (128, 256, 128), Plan(m=128, n=64, stages=3, cluster=(2, 1), swapped=True)),
        ("pingpong", (128, 128, 320), Plan(m=64, n=64, stages=3, cluster=(1, 2))),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_preset(name: str, sizes: tuple[int, int, int], plan: Plan, layout: str) -> None:
    check(scheduled(name, sizes, plan, layout=layout))


@pytest.mark.product
@pytest.mark.parametrize(("name", "plan"), [("cooperative", SMALL), ("pingpong", TURNS)], ids=str)
@pytest.mark.parametrize(
    "kinds",
    [
        {"dtype": "f16"},
        {"dtype": "f16", "acc": "f16"},
        {"dtype": "bf16", "out": "f32"},
        {"dtype": "i8"},
        {"dtype": "u8"},
        {"dtype": "tf32"},
        {"dtype": "e4m3"},
        {"dtype": "e5m2", "out": "bf16"},
    ],
    ids=lambda kinds: ":".join(kinds.values()),
)
def test_a_preset_of_each_type(name: str, plan: Plan, kinds: dict[str, str]) -> None:
    check(scheduled(name, (144, 80, 144), plan, **kinds))


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("cooperative", Plan(m=64, n=64, consumers=1)),
        ("cooperative", Plan(m=192, n=64, consumers=3)),
        ("cooperative", Plan(m=256, n=64, stages=2)),
        ("cooperative", Plan(m=128, n=64, panels=2, stages=2)),
        ("cooperative", Plan(m=128, n=64, panels=3, stages=2, cluster=(2, 1))),
        ("cooperative", Plan(m=128, n=64, cluster=(2, 2), stages=4)),
        ("pingpong", Plan(m=128, n=48, swapped=True, cluster=(2, 1))),
        ("pingpong", Plan(m=64, n=128, panels=2, group=1)),
        ("cooperative", Plan(m=128, n=168)),
        ("cooperative", Plan(m=64, n=80, consumers=1, cluster=(2, 1))),
        ("pingpong", Plan(m=128, n=144)),
        ("split_k", Plan(m=64, n=72, consumers=1, ways=2)),
        ("split_k", Plan(m=64, n=48, consumers=1, ways=2, through="cluster")),
        ("gemm", None),
    ],
    ids=str,
)
def test_plans_of_every_form(name: str, plan: Plan | None) -> None:
    check(scheduled(name, (264, 136, 264), plan))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_of_two_panels(layout: str) -> None:
    check(scheduled("cooperative", (136, 72, 256), Plan(m=128, n=64, panels=2, stages=2), layout=layout))


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("cooperative", SMALL),
        ("cooperative", Plan(m=128, n=64, stages=3, cluster=(2, 1))),
        ("pingpong", TURNS),
        ("pingpong", Plan(m=64, n=64, stages=3, cluster=(1, 2))),
    ],
    ids=str,
)
def test_work_for_one_cluster_or_for_two(name: str, plan: Plan) -> None:
    """Where blocks cannot be more than a few, the expressions of their trips are simplified the most."""
    cluster = plan.cluster[0] * plan.cluster[1]
    for rows in (1, 2):
        made = scheduled(name, (rows * plan.m * plan.cluster[0] - 8, 64 * plan.cluster[1], 72), plan)
        for clusters in range(1, rows + 1):
            check(made, launched=clusters * cluster)


@pytest.mark.product
@pytest.mark.parametrize("order", [RowMajor, ColMajor, Grouped(2), Hilbert(2)], ids=str)
@pytest.mark.parametrize("pingpong", [False, True])
def test_orders_of_persistent_blocks(order: Any, pingpong: bool) -> None:
    made = rings((392, 136, 72), order, pingpong=pingpong)
    for launched in (2, 6):
        assert check(made, launched=launched).blocks == launched


@pytest.mark.product
@pytest.mark.parametrize("ring", [1, 2, 3])
@pytest.mark.parametrize("width", [64, 16])
@pytest.mark.parametrize("pingpong", [False, True])
def test_rings_of_staging_slots(ring: int, width: int, pingpong: bool) -> None:
    check(rings(ring=ring, width=width, pingpong=pingpong, inflight=ring % 2))


@pytest.mark.product
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("chunks", [1, 3, 5])
@pytest.mark.parametrize("pingpong", [False, True])
def test_rings_longer_and_shorter_than_the_loop(stages: int, chunks: int, pingpong: bool) -> None:
    check(rings((392, 64, 64 * chunks), stages=stages, rows=1, pingpong=pingpong), launched=1)


def test_ops_and_coefficients() -> None:
    check(rings(ops=(relu,), alpha=0.5))


@pytest.mark.parametrize(
    ("name", "sizes", "plan"),
    [
        ("cooperative", (256, 256, 256), Plan(cluster=(2, 1))),
        ("cooperative", (512, 128, 256), Plan(m=256, n=128, cluster=(2, 1))),
        ("pingpong", (512, 192, 256), Plan(n=192, cluster=(2, 1))),
        ("gemm", (2048, 2048, 256), None),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_cluster_takes_seconds(name: str, sizes: tuple[int, int, int], plan: Plan | None) -> None:
    assert check(scheduled(name, sizes, plan), blocks=1).elapsed_s < 10


@pytest.mark.parametrize(
    ("name", "sizes", "plan"),
    [
        ("cooperative", (512, 64, 320), Plan(m=128, n=64, stages=3, cluster=(2, 1))),
        ("pingpong", (256, 64, 320), TURNS),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_every_derived_statement_is_needed(without: Any, name: str, sizes: tuple[int, int, int], plan: Plan) -> None:
    made = scheduled(name, sizes, plan)
    kernel = made.lowered()
    launched = 2 if plan.cluster != (1, 1) else 1
    arrays = random_arrays(Interface.of(kernel), {})
    codes: set[str] = set()
    for statement, broken in without(kernel):
        try:
            simulate(broken, arrays, launched=launched)
        except SimulationError as error:
            codes.add(error.code)
        else:
            pytest.fail(f"nothing missed {statement}")
    assert {"missing-proxy-fence", "missing-wgmma-fence", "deadlock", "race", "not-arrived"} <= codes


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", range(8, 257, 8))
@pytest.mark.parametrize("swapped", [False, True])
def test_every_width(n: int, swapped: bool) -> None:
    sizes = (n + 16, 136, 136) if swapped else (136, n + 16, 136)
    check(scheduled("cooperative", sizes, Plan(128, n, swapped=swapped)))
    check(scheduled("cooperative", sizes, Plan(64, n, 1, swapped=swapped)))
    if n <= 192:
        check(scheduled("pingpong", sizes, Plan(128, n, swapped=swapped)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("swapped", [False, True])
def test_every_plan(layout: str, cluster: tuple[int, int], swapped: bool) -> None:
    forms = [("cooperative", 64, 1), ("cooperative", 128, 2), ("cooperative", 256, 2), ("cooperative", 192, 3)]
    forms += [("pingpong", 64, 2), ("pingpong", 128, 2)]
    for (name, m, consumers), panels in product(forms, (1, 2)):
        n = 64 * panels
        plan = Plan(m, n, consumers, swapped=swapped, cluster=cluster, panels=panels, stages=2 + panels % 2)
        sizes = (m * cluster[0] + 8, n * cluster[1] + 24, 264)
        kinds = [{"dtype": "bf16"}, {"dtype": "f16", "acc": "f16"}]
        if layout == "TN" and not swapped:
            kinds += [{"dtype": "e4m3"}, {"dtype": "i8"}, {"dtype": "tf32"}, {"dtype": "bf16", "out": "f32"}]
        for kind in kinds:
            wide = (sizes[0] // 16 * 16 + 16, sizes[1] // 16 * 16, 272) if kind["dtype"] in ("e4m3", "i8") else sizes
            check(scheduled(name, wide, plan, layout=layout, **kind))
