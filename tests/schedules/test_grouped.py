"""Products in batches and in groups of rows: right on every path, in every layout, without spills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import (
    RF,
    A,
    B,
    Block,
    ColMajor,
    Grouped,
    Hilbert,
    MatMul,
    Matrix,
    RowMajor,
    Thread,
    Vector,
    add,
    matmul,
    relu,
    scale,
    symbol,
)
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.schedules import ampere, hopper, simt, turing, volta
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import mathematical, reference

Right = Callable[..., Any]
LAYOUTS = ("NN", "NT", "TN", "TT")
# Empty groups first, in the middle and last; a single row; more than a tile; exactly one.
ENDS = (0, 0, 1, 130, 130, 258, 300, 300)


def grouped(schedule: Any, ends: Sequence[int], seed: int = 0, launched: int | None = None, **sizes: Any) -> Any:
    """Simulate on random arrays with these ends; rows of C that no group has must keep what they held."""
    kernel, spec = schedule.lowered(), schedule.matmul
    arrays = random_arrays(Interface.of(kernel), sizes, seed)
    arrays["offsets"] = np.array(ends, np.int32)
    c = arrays["C"]
    c[...] = np.arange(c.size).reshape(c.shape) % 7
    expected = reference(schedule, {**arrays, "C": c.copy()}, {})
    before = mathematical(spec.C, c.copy())
    report = simulate(kernel, arrays, sizes, launched=launched)
    got = mathematical(spec.C, arrays["C"])
    rows = slice(min(ends[-1], max(before.shape)), None)
    behind = (..., rows) if spec.swapped else (rows, slice(None))
    np.testing.assert_array_equal(got[behind], before[behind])
    found = compare("C", got, expected, spec.C.dtype)
    assert found.passed, str(found)
    return report


def finished(blocks: Any, *ops: Any) -> Any:
    """Give each thread of a block 2x2 elements."""
    threads = blocks.epilog(*ops, memory=RF).tile(2, 2).to(Thread).split(1)
    return threads.load(A, RF).load(B, RF).tile(1, 1).unroll().done()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_on_cuda_cores(layout: str) -> None:
    grouped(simt.sgemm(matmul(300, 70, 40, groups=len(ENDS), layout=layout)), ENDS)
    grouped(simt.sgemm(matmul(310, 70, 40, groups=len(ENDS), layout=layout)), ENDS)


@pytest.mark.product
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f16", "tf32", "i8"])
def test_groups_by_mma(layout: str, dtype: str) -> None:
    small: dict[str, Any] = {"m": 64, "n": 64, "warp": (32, 32), "stages": 3}
    grouped(ampere.gemm(matmul(310, 72, 96, dtype, groups=len(ENDS), layout=layout), **small), ENDS)


@pytest.mark.product
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("preset", [volta.gemm, turing.gemm], ids=["volta", "turing"])
def test_groups_by_older_instructions(preset: Callable[..., Any], layout: str) -> None:
    grouped(preset(matmul(310, 72, 96, "f16", groups=len(ENDS), layout=layout)), ENDS)


def test_notes_name_what_is_predicated_and_no_more() -> None:
    found = ampere.gemm(matmul(4096, 768, 256, "f16", layout="TN", groups=64)).check("sm_80")
    noted = [f.message.split(" is ")[0] for f in found if f.code == "partial-tiles"]
    assert any("store C" in title for title in noted)
    assert not any(title.startswith(("Init", "MatMul")) for title in noted)  # blocks without a tile pass as a whole


def test_groups_are_taken_for_alike_where_they_are_not_known() -> None:
    alone = ampere.gemm(matmul(4096, 4096, 1024, "f16", layout="TN")).estimate("sm_80")
    parted = ampere.gemm(matmul(4096, 4096, 1024, "f16", layout="TN", groups=8)).estimate("sm_80")
    assert alone.flops <= parted.flops <= 1.3 * alone.flops
    assert parted.time_us < 1.5 * alone.time_us


def test_groups_of_any_size() -> None:
    sizes = (symbol("M"), symbol("N", multiple_of=8), symbol("K", multiple_of=8))
    schedule = ampere.gemm(matmul(*sizes, "f16", layout="TN", groups=symbol("G")), m=64, n=64, warp=(32, 32))
    grouped(schedule, (5, 5, 70), M=70, N=72, K=40, G=3)
    grouped(schedule, (1,), M=1, N=8, K=8, G=1)
    grouped(schedule, (0, 0), M=9, N=8, K=8, G=2)


def test_groups_share_out_k_too() -> None:
    schedule = ampere.gemm(matmul(150, 64, 256, "f16", groups=3), m=64, n=64, warp=(32, 32), ways=2, split_k=2)
    grouped(schedule, (30, 30, 140))


@pytest.mark.parametrize("swapped", [False, True])
def test_rows_that_belong_to_a_group_must_be_written(swapped: bool) -> None:
    """A kernel without a body writes nothing: of 310 rows the 300 of groups are missing."""
    spec = matmul(310, 48, 16, groups=len(ENDS))
    schedule = finished((spec.swap() if swapped else spec).tile(16, 16, batch=1).to(Block))
    kernel = schedule.lowered()
    arrays = random_arrays(Interface.of(kernel), {})
    arrays["offsets"] = np.array(ENDS, np.int32)
    with pytest.raises(SimulationError) as caught:
        simulate(attrs.evolve(kernel, body=()), arrays)
    assert caught.value.code == "uncovered-output"
    assert f"{300 * 48} elements of the output C" in caught.value.message


@pytest.mark.parametrize("order", [RowMajor, ColMajor, Grouped(2), Hilbert(2)], ids=str)
def test_groups_in_every_order(order: Any) -> None:
    blocks = matmul(90, 50, 8, groups=4).tile(16, 16, batch=1).to(Block)
    grouped(finished(blocks.layout(order)), (20, 20, 61, 90))


def test_permuted_groups() -> None:
    most = 2 * ((64 + 2 * 15) // 16)
    blocks = matmul(64, 32, 8, groups=2).tile(16, 16, batch=1).to(Block)
    grouped(finished(blocks.permute(lambda i: most - 1 - i)), (20, 64))


@pytest.mark.parametrize("swapped", [False, True])
def test_what_an_epilog_reads_lies_in_the_group(swapped: bool) -> None:
    bias, scale = Vector(48, name="bias"), Vector(90, name="scale", along=ColMajor)
    spec = matmul(90, 48, 16, groups=3, alpha=0.5, beta=2.0)
    blocks = (spec.swap() if swapped else spec).tile(16, 16, batch=1).to(Block)
    grouped(finished(blocks, add(bias), add(scale), relu), (33, 40, 85))


@pytest.mark.parametrize("rows", [320, 40])  # a value for each row, and one for eight neighbours
@pytest.mark.parametrize("path", ["simt", "mma", "swapped", "wgmma"])
def test_what_a_prolog_reads_lies_in_the_group(path: str, rows: int) -> None:
    kind, layout = ("f32", "NN") if path == "simt" else ("f16", "TN")
    spec = matmul(320, 72, 64, kind, layout=layout, groups=len(ENDS), out="f32")
    spec = spec.prolog(A, scale(Matrix(rows, 1, name="by")))
    if path == "simt":
        grouped(simt.sgemm(spec), ENDS)
    elif path == "wgmma":
        grouped(hopper.gemm(spec, Plan(m=64, n=64, consumers=1)), ENDS)
    else:
        grouped(ampere.gemm(spec.swap() if path == "swapped" else spec, m=64, n=64, warp=(32, 32)), ENDS)


def test_the_search_goes_on_from_where_it_was() -> None:
    text = hopper.gemm(matmul(4096, 512, 256, "bf16", layout="TN", groups=64), Plan()).cuda("sm_90a")
    assert text.count("int group = -1, group_first = 0, group_begin = 0, group_rows = 0;") == 2  # each role its own
    assert "find_group(&offsets[0], 64, 4096, 128, 2, tile, group, group_first, group_begin, group_rows);" in text


def test_flops_count_each_row_once() -> None:
    assert simt.sgemm(matmul(300, 70, 40, groups=8)).flops() == 2 * 300 * 70 * 40
    assert simt.sgemm(matmul(300, 70, 40, batch=8)).flops() == 8 * 2 * 300 * 70 * 40


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_with_room_between(right: Right, layout: str) -> None:
    a = Matrix(40, 24, "f16", ColMajor if layout[1] == "T" else RowMajor, batch=3, batch_stride=2000)
    b = Matrix(24, 48, "f16", ColMajor if layout[0] == "T" else RowMajor, batch=3, ld=56, batch_stride=4096)
    spec = MatMul(a, b, Matrix(40, 48, "f16", batch=3, batch_stride=2048))
    right(ampere.gemm(spec, m=32, n=32, warp=(16, 16), stages=2))


def test_batches_are_counted_through_in_groups_of_rows(right: Right) -> None:
    blocks = matmul(90, 50, 8, batch=3).tile(16, 16, batch=1).to(Block)
    right(finished(blocks.layout(Grouped(2))))


PLANS = (
    Plan(128, 256),
    Plan(256, 128),
    Plan(192, 128, consumers=3),
    Plan(128, 192, pingpong=True),
    Plan(128, 128, pingpong=True, swapped=True, cluster=(2, 1)),
    Plan(64, 256, consumers=1),
)


SHARED_OUT = (
    Plan(128, 64, stages=3),
    Plan(128, 64, stages=3, ways=2),
    Plan(128, 64, stages=3, pingpong=True, ways=2),
    Plan(128, 64, stages=3, cluster=(2, 1), ways=3),
    Plan(64, 16, consumers=1, stages=3, swapped=True, ways=2),
)
STREAMS = (Plan(128, 64, stages=3, stream=True), Plan(64, 16, consumers=1, stages=3, swapped=True, stream=True))


@pytest.mark.product
@pytest.mark.parametrize("launched", [None, 4])
@pytest.mark.parametrize("plan", SHARED_OUT, ids=str)
def test_hopper_groups_share_out_k_too(plan: Plan, launched: int | None) -> None:
    spec = matmul(210, 72, 320, "bf16", layout="TN", groups=7)
    grouped(hopper.gemm(spec, plan), (0, 0, 1, 130, 130, 200, 200), launched=launched)


@pytest.mark.product
@pytest.mark.parametrize("launched", [None, 4])
@pytest.mark.parametrize("plan", SHARED_OUT + STREAMS, ids=str)
def test_hopper_batches_share_out_k_too(plan: Plan, launched: int | None) -> None:
    schedule = hopper.gemm(matmul(140, 72, 320, "bf16", layout="TN", batch=3), plan)
    kernel, c = schedule.lowered(), schedule.matmul.C
    arrays = random_arrays(Interface.of(kernel), {})
    expected = reference(schedule, arrays, {})
    simulate(kernel, arrays, launched=launched)
    found = compare("C", mathematical(c, arrays["C"]), expected, c.dtype)
    assert found.passed, str(found)


def test_hopper_plans_share_out_k_by_streams_of_batches_alone() -> None:
    assert any(plan.stream for plan in hopper.plans(matmul(1000, 1000, 4096, "bf16", layout="TN", batch=4)))
    parted = hopper.plans(matmul(1000, 1000, 4096, "bf16", layout="TN", groups=4))
    assert not any(plan.stream for plan in parted)  # only the kernel knows how many tiles there are


# A batch differs from groups by how a tile's matrix is found, in every plan alike.
@pytest.mark.product
@pytest.mark.parametrize(
    ("plan", "kind", "layout", "out"),
    [
        pytest.param(plan, kind, *form, marks=pytest.mark.exhaustive if n and kind == "batch" else ())
        for n, plan in enumerate(PLANS)
        for kind in ("groups", "batch")
        for form in (("TN", "bf16"), ("NN", "bf16"), ("TN", "f32"))
        if not plan.swapped or form[1] == "bf16"
    ],
    ids=str,
)
def test_hopper_compiles_without_spills(plan: Plan, kind: str, layout: str, out: str) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    spec = matmul(2048, 768, 512, "bf16", layout=layout, out=out, **{kind: 16})
    resources = hopper.gemm(spec, plan).compile("sm_90a", cache=False).resources
    assert (resources.stack, resources.spill_stores, resources.spill_loads, resources.warnings) == (0, 0, 0, ())


def test_hopper_groups_as_printed(golden: Callable[[str, str], None]) -> None:
    spec = matmul(symbol("M", maximum=2**20), 768, 512, "bf16", layout="TN", groups=16)
    golden(hopper.gemm(spec, Plan(128, 256)).cuda("sm_90a"), "schedules/hopper_groups.cu")


def test_hopper_batches_take_maps_of_three_dimensions() -> None:
    kernel = hopper.gemm(matmul(1024, 768, 512, "bf16", layout="TN", batch=4), Plan()).lowered("sm_90a")
    boxes = [p.box for p in kernel.parameters if type(p).__name__ == "TensorMap"]
    assert all(len(box) == 3 and box[-1] == 1 for box in boxes)
    assert len(boxes) == 3


def test_hopper_plans_for_groups_waste_little() -> None:
    best = hopper.plans(matmul(32768, 4096, 4096, "bf16", layout="TN", groups=64))[0]
    assert best.cluster == (1, 1)  # tiles of ragged groups end at different times: clusters were 9 % slower
    assert best.pingpong
    fewer = hopper.clocks(best, matmul(32768, 4096, 4096, "bf16", layout="TN"))
    assert fewer < hopper.clocks(best, matmul(32768, 4096, 4096, "bf16", layout="TN", groups=64)) < 1.2 * fewer


def test_lines_that_tensor_maps_do_not_take_go_by_mma() -> None:
    schedule = hopper.gemm(matmul(100, 40, 41, "bf16", layout="TN", groups=2))
    assert "cp.async" in str(schedule.tree()) or "copy" in str(schedule.tree())
    grouped(schedule, (33, 100))
