"""Traces and timelines: what a block did, in order; long loops cut short; roles in rows; a model beside the order."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from fireiron import FR, RF, SH, A, B, Block, Thread, Vector, Warp, add, cp_async, ldmatrix, matmul, symbol
from fireiron.algebra.arch import arch
from fireiron.algebra.machine import MACHINES
from fireiron.schedules import hopper, simt
from fireiron.schedules.hopper import Plan
from fireiron.show.clock import time_of
from fireiron.show.schedule_time import Box
from fireiron.show.timeline import drawn
from fireiron.show.whole import all_iterations
from fireiron.simulate.events import Event, Touch, Trace
from fireiron.simulate.trace import trace


def pipelined(k: int, stages: int) -> Any:
    """Give a product whose chunks arrive by asynchronous copies."""
    return (
        matmul(128, 128, k, "f16").tile(128, 128).to(Block).epilog(memory=FR).split(32).pipeline(stages)
        .load(A, SH, cp_async(16)).load(B, SH, cp_async(16)).tile(64, 64).to(Warp)
        .split(16).unroll().load(A, FR, ldmatrix()).load(B, FR, ldmatrix()).tile(16, 8).unroll().done()
    )  # fmt: skip


def test_a_trace_has_the_pipeline_in_order() -> None:
    found = trace(pipelined(128, 3).lowered())
    kinds = [e.kind for e in found.events if e.kind not in ("run", "meet")]
    assert kinds == ["commit", "commit", *["wait", "sync", "commit"] * 4]
    started = [e.writes[0] for e in found.events if e.flies]
    assert started == [Touch(name, "SH", chunk % 3) for chunk in range(4) for name in ("a_sh", "b_sh")]
    assert found.left_out == 0
    assert found.outer == {"k"}


def test_every_instruction_of_a_nest_is_counted() -> None:
    found = trace(simt.listing2(matmul(128, 128, 16)).lowered())
    products = [e for e in found.events if e.what == "fma.f32"]
    assert sum(e.count for e in products) == 8 * 8 * 16
    assert {e.loops[0] for e in products} == {("k", 0), ("k", 1)}


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_long_loop_runs_its_ends(stages: int) -> None:
    whole = pipelined(32 * 50, stages)
    found = trace(whole.lowered(), chunks=6)
    (gap,) = (e for e in found.events if e.kind == "gap")
    assert gap.what == f"{found.left_out} of 50 iterations of k left out"
    assert found.left_out % stages == 0
    assert found.left_out >= 50 - 6 - stages
    chunks = [e.loops[0][1] for e in found.events if e.kind == "sync"]
    assert chunks == sorted(set(chunks))
    assert len(chunks) == 50 - found.left_out
    assert (chunks[0], chunks[-1]) == (0, 49)


def test_a_trace_of_symbols_takes_sizes() -> None:
    schedule = simt.sgemm(matmul(symbol("M"), 128, 64))
    assert trace(schedule.lowered(), {"M": 256}).events
    assert trace(schedule.lowered()).events


def test_copies_in_flight_land_at_their_wait_in_the_order_and_earlier_in_the_model() -> None:
    found = trace(pipelined(32 * 8, 3).lowered())
    order, model = time_of(found, "simulated"), time_of(found, "modelled")
    waits = [box for box in order.boxes if box.row == "wait"]
    first = next(fill for fill in order.fills if fill.touch == Touch("a_sh", "SH", 2))
    assert first.landed in [box.start for box in waits]
    # The third chunk is started at the first iteration and awaited two products later.
    fill = next(fill for fill in model.fills if fill.touch == Touch("a_sh", "SH", 2))
    assert fill.landed - fill.start >= MACHINES[90].latency
    assert fill.landed < fill.end
    stalls = [box for box in model.boxes if box.stall]
    assert [box.chunk for box in stalls] == [0]  # two chunks ahead cover the latency afterwards


def test_a_staged_load_is_in_flight_behind_the_products() -> None:
    found = trace(simt.sgemm(matmul(128, 128, 64)).lowered())
    model = time_of(found, "modelled")
    rows = [box.row for box in model.boxes if box.chunk == 0]
    assert rows == ["load", "compute", "put"]


def test_loads_of_straight_code_are_issued_together_in_the_model() -> None:
    """A product of two operands in registers waits for both at once; so do an epilog's loads of its bias."""
    schedule = (
        matmul(64, 64, 64).tile(16, 16).to(Block).epilog(add(Vector(64, name="bias")), memory=RF).tile(1, 1).to(Thread)
        .split(1).load(A, RF).load(B, RF).done()
    )  # fmt: skip
    model = time_of(trace(schedule.lowered(), chunks=64), "modelled")
    by_chunk = Counter(box.chunk for box in model.boxes if box.stall > 100)
    assert by_chunk == {**dict.fromkeys(range(64), 1), None: 1}


def test_without_a_pipeline_each_chunk_stalls() -> None:
    schedule = (
        matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).load(A, SH).load(B, SH)
        .tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    model = time_of(trace(schedule.lowered()), "modelled")
    order = time_of(trace(schedule.lowered()), "simulated")
    assert [mark.what for mark in order.barriers] == [
        "Block: a_sh is written before it is read",
        "Block: a_sh is read before it is overwritten",
    ] * 4
    assert [box.chunk for box in model.boxes if box.stall] == [0, 1, 2, 3]
    assert model.total > order.total


MAKES: dict[str, Any] = {
    "no ring": lambda: (simt.listing2(matmul(128, 128, 8 * 14)), 0),
    "copies in flight": lambda: (pipelined(32 * 17, 3), 0),
    "roles": lambda: (
        hopper.cooperative(matmul(512, 512, 1024, "f16", out="f16", layout="TN"), Plan(128, 128, stages=4)),
        2,
    ),
    "turns": lambda: (
        hopper.pingpong(matmul(512, 512, 1024, "f16", out="f16", layout="TN"), Plan(64, 64, stages=4)),
        3,
    ),
}


@pytest.mark.product
@pytest.mark.parametrize("policy", ["simulated", "modelled"])
@pytest.mark.parametrize("name", MAKES)
def test_left_out_iterations_take_their_time(name: str, policy: Any) -> None:
    schedule, tiles = MAKES[name]()
    kernel = schedule.lowered(90)
    settled = all_iterations(kernel, policy, arch("sm_90a"), {}, 0, tiles)
    assert settled.gaps
    every = trace(kernel, chunks=1000, tiles=tiles)
    assert every.left_out == 0
    assert settled.total == pytest.approx(time_of(every, policy).total, rel=1e-9)
    for chunks in (1, 4):
        found = time_of(trace(kernel, chunks=chunks, tiles=tiles), policy, periods=settled.periods)
        assert found.gaps
        assert found.total == pytest.approx(settled.total, rel=0.01)


def roles() -> Trace:
    """Give what a producer and a consumer do: both rows go on their own in the model."""
    load = [
        Event("run", "tma", role="load", reads=(Touch("A", "GL"),), writes=(Touch("a_sh", "SH", i % 2),), clocks=32)
        for i in range(3)
    ]
    math = [
        Event("run", "wgmma", role="math", reads=(Touch("a_sh", "SH", i % 2), Touch("acc", "RF")),
              writes=(Touch("acc", "RF"),), clocks=512)
        for i in range(3)
    ]  # fmt: skip
    return Trace(tuple(e for pair in zip(load, math, strict=True) for e in pair), 256, {"a_sh": 2}, 0)


def test_named_roles_are_rows_of_their_own() -> None:
    model = time_of(roles(), "modelled")
    assert {box.role for box in model.boxes} == {"load", "math"}

    def first(role: str) -> Box:
        return next(box for box in model.boxes if box.role == role)

    assert (first("load").start, first("math").row) == (0, "wait")
    picture = drawn(roles(), "modelled")
    assert "load: " in str(picture)
    assert ">math</text>" in picture.svg()


def test_a_split_over_blocks_counts_in() -> None:
    found = trace(simt.sgemm(matmul(128, 128, 256), split_k=2).lowered())
    assert [e.what for e in found.events if e.kind == "sync"].count("Grid: the block counts in") == 1
    order = time_of(found, "simulated")
    last = max(box.end for box in order.boxes if box.row == "compute")
    assert all(box.row == "store" for box in order.boxes if box.start >= last)


def gemm(plan: Plan) -> Trace:
    """Trace a product on Hopper, of 12 chunks a tile."""
    make = hopper.pingpong if plan.pingpong else hopper.cooperative
    schedule = make(matmul(512, 512, 768, "f16", out="f16", layout="TN"), plan)
    return trace(schedule.lowered(90), chunks=6, tiles=2)


def test_roles_wait_for_phases_and_peers() -> None:
    found = gemm(Plan(128, 64, cluster=(2, 1), stages=4))
    assert {e.role for e in found.events} == {"", "load", "math 0", "math 1"}
    assert {e.rank for e in found.events} == {0, 1}
    assert found.tiles == 2
    (multicast,) = {e.what for e in found.events if e.what.endswith("multicast")}
    landing = next(e for e in found.events if e.what == multicast)
    assert landing.points == ((0, "full", 0, 0), (1, "full", 0, 0))
    awaited = [e.points[0] for e in found.events if e.kind == "await" and e.role == "math 0" and e.rank == 0]
    # Each phase in turn, and left-out iterations turn no ring.
    assert awaited == [(0, "full", i % 4, i // 4) for i in range(16)]
    assert found.left_out == 2 * 3 * 2 * 4  # blocks, roles, tiles, iterations


@pytest.mark.parametrize("policy", ["simulated", "modelled"])
def test_products_wait_for_their_data_and_loads_for_free_slots(policy: Any) -> None:
    found = gemm(Plan(128, 64, stages=4))
    times = time_of(found, policy)
    for fill in times.fills:
        assert fill.start < fill.landed <= fill.end
    for name, slot in {(fill.touch.buffer, fill.touch.slot) for fill in times.fills if fill.touch.buffer == "a_sh"}:
        mine = sorted((f for f in times.fills if (f.touch.buffer, f.touch.slot) == (name, slot)), key=lambda f: f.start)
        assert len(mine) == 4
        assert all(a.end <= b.start for a, b in itertools.pairwise(mine))
    products = sorted(b.start for b in times.boxes if b.row == "compute" and b.role == "math 0")
    landed = sorted(f.landed for f in times.fills if f.touch.buffer == "b_sh")
    assert all(start >= there for start, there in zip(products, landed, strict=True))


def test_the_tensor_cores_take_one_product_at_a_time_in_the_model() -> None:
    times = time_of(gemm(Plan(128, 64, stages=4)), "modelled")
    spans = sorted((b.start, b.end) for b in times.boxes if b.row == "compute")
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert {b.role for b in times.boxes if b.row == "compute"} == {"math 0", "math 1"}


def test_units_that_take_turns_have_tiles_of_their_own() -> None:
    found = gemm(Plan(128, 64, pingpong=True, stages=4))
    times = time_of(found, "modelled")
    tiles = {(b.role, b.label): b for b in times.boxes if b.row == "tile"}
    assert [label for role, label in tiles if role == "load"] == ["tile 0", "tile 16"]
    assert {role for role, _ in tiles} == {"load", "math 0", "math 1"}
    assert {label for role, label in tiles if role != "load"} == {"tile 0", "tile 16"}
    # The main loop of the second runs under the epilogue of the first.
    first = [b for b in times.boxes if b.role == "math 0" and b.row in ("put", "store")]
    second = [b for b in times.boxes if b.role == "math 1" and b.row == "compute"]
    assert second[0].start < max(b.end for b in first)
    assert min(b.start for b in first) < second[-1].end
    assert "turn: main loops take turns" in {mark.what for mark in times.barriers}


def test_a_stream_of_work_is_traced() -> None:
    spec = matmul(512, 512, 1024, "f16", out="f16", layout="TN")
    found = trace(hopper.stream_k(spec).lowered(90))
    assert time_of(found, "modelled").total > 0
