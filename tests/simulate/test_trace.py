"""Traces and timelines: what a block did, in order; long loops cut short; roles in rows; a model beside the order."""

from __future__ import annotations

import pytest

from fireiron import RF, SH, A, B, Block, Thread, matmul, symbol
from fireiron.estimate.model import GL_LATENCY
from fireiron.schedules import ampere, simt
from fireiron.show.schedule_time import Box, time_of
from fireiron.show.timeline import drawn
from fireiron.simulate.trace import Event, Touch, Trace, trace


def test_a_trace_has_the_pipeline_in_order() -> None:
    found = trace(ampere.gemm(matmul(128, 128, 128, "f16"), stages=3).lowered())
    kinds = [e.kind for e in found.events if e.kind != "run"]
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
    whole = ampere.gemm(matmul(128, 128, 32 * 50, "f16"), stages=stages)
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
    found = trace(ampere.gemm(matmul(128, 128, 32 * 8, "f16"), stages=3).lowered())
    order, model = time_of(found, "simulated"), time_of(found, "modelled")
    waits = [box for box in order.boxes if box.row == "wait"]
    first = next(fill for fill in order.fills if fill.touch == Touch("a_sh", "SH", 2))
    assert first.landed in [box.start for box in waits]
    # The third chunk is started at the first iteration and awaited two products later.
    fill = next(fill for fill in model.fills if fill.touch == Touch("a_sh", "SH", 2))
    assert fill.landed - fill.start >= GL_LATENCY
    assert fill.landed < fill.end
    stalls = [box for box in model.boxes if box.stall]
    assert [box.chunk for box in stalls] == [0]  # two chunks ahead cover the latency afterwards


def test_a_staged_load_is_in_flight_behind_the_products() -> None:
    found = trace(simt.sgemm(matmul(128, 128, 64)).lowered())
    model = time_of(found, "modelled")
    rows = [box.row for box in model.boxes if box.chunk == 0]
    assert rows == ["load", "compute", "put"]


def test_without_a_pipeline_each_chunk_stalls() -> None:
    schedule = (
        matmul(64, 64, 64).tile(32, 32).to(Block).epilog(memory=RF).split(16).load(A, SH).load(B, SH)
        .tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    model = time_of(trace(schedule.lowered()), "modelled")
    order = time_of(trace(schedule.lowered()), "simulated")
    assert [reason for _, _, reason in order.barriers] == [
        "Block: a_sh is written before it is read",
        "Block: a_sh is read before it is overwritten",
    ] * 4
    assert [box.chunk for box in model.boxes if box.stall] == [0, 1, 2, 3]
    assert model.total > order.total


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
