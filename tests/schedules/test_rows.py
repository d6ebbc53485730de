"""The row presets: right on the simulator at every width, with registers for every architecture."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import (
    RF,
    Block,
    FireironError,
    Matrix,
    Value,
    Vector,
    Warp,
    index,
    mean,
    mean_and_variance,
    program,
    softmax,
    symbol,
    tensor,
    vector,
)
from fireiron.algebra.expr import as_expr, as_int
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import CountIn
from fireiron.language.decompositions import Tile, Widest
from fireiron.schedules import pointwise, reductions, rows
from fireiron.schedules._rows import LANES, part_of, row_of
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references
from fireiron.verify.verification import Data, verify


def made(name: str, width: int, dtype: str = "bf16", lines: int = 5, arch: str | None = None) -> Any:
    x, y = Matrix(lines, width, dtype), Matrix(lines, width, dtype)
    gain, bias = Vector(width, dtype, name="gain"), Vector(width, dtype, name="bias")
    mask, target = Matrix(lines, width, "u8"), Vector(lines, "i32", name="target")
    given: dict[str, tuple[Any, ...]] = {
        "softmax": (x,), "log_softmax": (x,), "layernorm": (x, gain, bias), "rms_norm": (x, gain),
        "add_rms_norm": (x, y, gain), "add_layernorm": (x, y, gain, bias),
        "dropped_add_layernorm": (x, y, gain, bias, mask), "quantised_rms_norm": (x, gain), "softmax_backward": (x, y),
        "rms_norm_backward": (x, y, gain), "layernorm_backward": (x, y, gain),
        "rms_norm_gradients": (x, y, gain), "layernorm_gradients": (x, y, gain),
        "cross_entropy": (x, target), "cross_entropy_with_gradient": (x, target), "top": (x,),
    }  # fmt: skip
    out = {
        "quantised_rms_norm": ("i8", "f32"),
        "cross_entropy": "f32",
        "top": (dtype, "i32"),
        "cross_entropy_with_gradient": ("f32", dtype),
        "rms_norm_gradients": (dtype, "f32"),
        "layernorm_gradients": (dtype, "f32", "f32"),
    }
    return getattr(rows, name)(*given[name], out=out.get(name), arch=arch)


def right(schedule: Any) -> Any:
    """Simulate on whole numbers and on random ones, and hold all outputs against the reference."""
    simulated: list[Any] = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out, **data.numbers))

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)
    return simulated[-1]


NAMES = ("softmax", "log_softmax", "layernorm", "rms_norm", "add_rms_norm", "add_layernorm")


@pytest.mark.product
@pytest.mark.parametrize("width", [8, 48, 100, 384, 1000, 1200, 4096])
@pytest.mark.parametrize("name", NAMES)
def test_right_at_every_width(name: str, width: int) -> None:
    right(rows.row(made(name, width)))


FURTHER = (
    "dropped_add_layernorm", "quantised_rms_norm", "softmax_backward", "rms_norm_backward", "layernorm_backward",
    "cross_entropy", "cross_entropy_with_gradient",
)  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("width", [100, 1200])
@pytest.mark.parametrize("name", FURTHER)
def test_what_networks_put_around_rows(name: str, width: int) -> None:
    right(rows.row(made(name, width)))


@pytest.mark.parametrize(("width", "lines", "blocks"), [(64, 37, 3), (100, 5, 0), (1000, 70, 2), (1200, 9, 4)])
def test_gradients_of_what_all_rows_share(width: int, lines: int, blocks: int) -> None:
    """Blocks have some rows each: for the input's gradient that is a tile, for gain's and bias's a part of a fold."""
    for name in ("layernorm_gradients", "rms_norm_gradients"):
        schedule = rows.row(made(name, width, lines=lines), blocks=blocks)
        right(schedule)
    assert schedule.lowered().grid == as_expr(blocks or 1)


@pytest.mark.parametrize(("width", "lines", "blocks"), [(64, 37, 10), (264, 21, 4)])
def test_sums_over_rows_in_two_levels(width: int, lines: int, blocks: int) -> None:
    """Groups of blocks combine their parts first: of 10 blocks, three groups of 4, 4 and 2."""
    for name in ("layernorm_gradients", "rms_norm_gradients"):
        right(rows.row(made(name, width, lines=lines), blocks=blocks, two_levels=True))


@pytest.mark.parametrize(("counter", "wrong"), [("arrived", 3), ("arrived2", 2)])
def test_each_level_waits_for_all_of_its_blocks(counter: str, wrong: int) -> None:
    """Ten blocks: a group that counts to 3, or groups that count to 2, combine parts that are not written."""
    schedule = rows.row(made("rms_norm_gradients", 64, lines=37), blocks=10, two_levels=True)
    kernel = schedule.lowered()

    def early(s: Any) -> Any:
        mine = isinstance(s, CountIn) and s.counter.buffer.name == counter
        return (attrs.evolve(s, count=as_expr(wrong)) if mine else s,)

    body = rewrite(kernel.body, early)
    assert body != kernel.body
    arrays = random_arrays(Interface.of(kernel), {})
    expected = references(schedule, arrays, {})
    try:
        simulate(attrs.evolve(kernel, body=body), arrays)
    except SimulationError:
        return
    assert not all(compare(t.name, arrays[t.name], expected[t.name], t.dtype).passed for t in schedule.computed.outputs)


def test_the_last_blocks_of_groups_read_less() -> None:
    """At 132 blocks no block reads more than 12 parts at once; one level reads 132. Dead shared memory is reused."""
    spec = made("layernorm_gradients", 4096, lines=16384, arch="sm_90a")
    text = rows.row(spec).cuda("sm_90a")
    assert "count_in(&arrived[block / 12], 12)" in text
    assert "count_in(&arrived2[0], 11)" in text
    assert "before by_bias_sh" in text


@pytest.mark.parametrize("late", [True, False])
def test_folds_share_a_barrier_wherever_pointwise_steps_stand(late: bool) -> None:
    """Four folds, the last two of distances from a mean, meet at two barriers in any order of the pointwise steps."""

    @program(x="m n", y="m n")
    def apart(x: Value, y: Value) -> Value:
        middle, variance = mean_and_variance(x, "n")
        away = (x - middle).named("away")
        slope, scale = mean(y * away, "n").named("slope"), (variance + 1).named("scale")
        shift = mean(y, "n").named("shift")
        return y * scale + away * slope + shift if late else shift + away * slope + y * scale

    schedule = rows.row(apart(Matrix(3, 1024), Matrix(3, 1024, name="y")), warps=4)
    assert schedule.cuda("sm_90a").count("__syncthreads()") == 2
    right(schedule)


@pytest.mark.parametrize(
    ("width", "lanes", "warps", "units", "blocks"),
    [
        (16, 2, 1, 21, 1),
        (88, 4, 1, 5, 2),
        (264, 16, 1, 6, 2),
        (512, 32, 1, 8, 2),
        (1024, 32, 2, 8, 1),
        (2560, 32, 5, 3, 1),
        (6568, 32, 13, 1, 1),
    ],
)
def test_rows_beside_sums_have_as_many_lanes_as_they_fill(
    width: int, lanes: int, warps: int, units: int, blocks: int
) -> None:
    """Of many rows, several share a warp where they are narrow; few rows go to fewer blocks, which combine sums."""
    few, many = (rows.row(made("layernorm_gradients", width, lines=n, arch="sm_90a")) for n in (5, 262144))
    assert many.lowered().threads == 32 * warps * units
    assert as_int(many.lowered().grid) == 132 * blocks
    assert (f"to Lanes{lanes} " in str(many)) == (lanes < 32)
    assert (as_int(few.lowered().grid) or 0) <= 5
    assert few.compile("sm_90a").findings == () == many.compile("sm_90a").findings


@pytest.mark.product
@pytest.mark.parametrize("lines", [37, 320])
@pytest.mark.parametrize("width", [8, 24, 56, 88, 152])
def test_narrow_rows_beside_sums_share_a_warp(width: int, lines: int) -> None:
    """The end of a row is guarded in some lanes of it, and the last rows of a warp's in some groups of lanes."""
    for name in ("layernorm_gradients", "rms_norm_gradients"):
        schedule = rows.row(made(name, width, lines=lines), blocks=2, rows=32)
        assert re.search(r"load dy to SH .split m \d+ ways to (Lanes|Thread)", str(schedule))
        right(schedule)


@pytest.mark.product
@pytest.mark.parametrize("name", ["layernorm_gradients", "rms_norm_gradients"])
@pytest.mark.parametrize("width", [200, 264, 1000])
def test_widths_beside_sums_need_no_branches(name: str, width: int) -> None:
    """Only the end of a row is guarded, element by element: no statement depends on the lane alone."""
    schedule = rows.row(made(name, width, lines=40), blocks=2)
    assert "if (lane +" not in schedule.cuda("sm_90a")
    right(schedule)


@pytest.mark.parametrize("name", ["layernorm", "rms_norm"])
def test_gradients_by_the_statistics_of_the_forward_pass(name: str) -> None:
    x, dy, gain = Matrix(24, 200), Matrix(24, 200, name="dy"), Vector(200, name="gain")
    statistics = [Vector(24, name=word) for word in ("middle", "deviation")[name == "rms_norm" :]]
    program = getattr(rows, f"{name}_gradients")
    schedule = rows.row(program(x, dy, gain, *statistics), blocks=2, rows=2, warps=2)
    loop = schedule.cuda("sm_90a").split("by_gain: add over m")[0]
    assert loop.count("__syncthreads();  // ") == 1
    right(schedule)
    chance = np.random.default_rng(7)
    a, b, c = chance.normal(size=(24, 200)), chance.normal(size=(24, 200)), chance.normal(size=200)
    middle, deviation = a.mean(1) if name == "layernorm" else 0 * a[:, 0], (a.var(1) + 1e-5) ** -0.5
    if name == "rms_norm":
        deviation = ((a * a).mean(1) + 1e-6) ** -0.5
    given = [v.astype(np.float32) for v in ((middle, deviation) if name == "layernorm" else (deviation,))]
    found = schedule.simulate(*(v.astype(np.float32) for v in (a, b, c)), *given).arrays["y0"]
    normed = (a - middle[:, None]) * deviation[:, None]
    g = b * c
    centre = g.mean(1, keepdims=True) * (name == "layernorm")
    expected = (g - centre - normed * (g * normed).mean(1, keepdims=True)) * deviation[:, None]
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("width", "warps", "vectors"), [(26800, 15, 2), (27000, 27, 1), (27648, 27, 1), (28672, 28, 1), (32000, 32, 1)]
)
def test_rows_whose_gain_and_bias_do_not_both_fit_have_a_ring(width: int, warps: int, vectors: int) -> None:
    """The bias is then read from the L2 cache, by many warps. Warps' whole vectors need more room than the row."""
    part = part_of(row_of(made("layernorm", width, lines=7000, arch="sm_90a", dtype="bf16")))
    assert (part.stages, part.warps, part.vectors) == (2, warps, vectors)


@pytest.mark.product
@pytest.mark.parametrize("name", ["layernorm", "rms_norm"])
@pytest.mark.parametrize("suffix", ["backward", "gradients"])
def test_a_gradient_by_another_way_is_added(name: str, suffix: str) -> None:
    arrays = [Matrix(12, 200, name=word) for word in ("x", "dy", "more")]
    program = getattr(rows, f"{name}_{suffix}")
    schedules = [
        rows.row(program(*arrays[:2], Vector(200, name="gain"), **named))
        for named in (dict[str, Any](), {"more": arrays[2]})
    ]
    right(schedules[1])
    drawn = np.random.default_rng(8).normal(size=(3, 12, 200)).astype(np.float32)
    gain = drawn[0, 0] + 2
    alone = schedules[0].simulate(drawn[0], drawn[1], gain).arrays
    added = schedules[1].simulate(drawn[0], drawn[1], gain, drawn[2]).arrays
    first, *others = sorted(word for word in alone if word.startswith("y"))
    assert np.allclose(added[first], alone[first] + drawn[2], atol=1e-6)
    assert all(np.allclose(added[word], alone[word], atol=1e-5) for word in others)


@pytest.mark.parametrize("name", ["layernorm", "rms_norm"])
def test_gradients_of_wide_rows_are_two_kernels(name: str) -> None:
    """The second one sums over rows, by the first one's statistics."""
    x, dy, gain = Matrix(20, 136), Matrix(20, 136, name="dy"), Vector(136, name="gain")
    words = ("deviation",) if name == "rms_norm" else ("middle", "deviation")
    first = rows.row(getattr(rows, f"{name}_backward")(x, dy, gain, statistics=True))
    second = getattr(rows, "rms_norm_by_gain" if name == "rms_norm" else "layernorm_by_weights")
    sums = reductions.reduction(second(x, dy, *(Vector(20, name=word) for word in words)))
    right(first)
    right(sums)
    a, b, c = np.random.default_rng(9).normal(size=(3, 20, 136)).astype(np.float32)
    whole = rows.row(getattr(rows, f"{name}_gradients")(x, dy, gain), blocks=2)
    by_x, *by_weights = results(whole, a, b, c[0])
    same, *statistics = results(first, a, b, c[0])
    assert np.allclose(same, by_x, atol=1e-5)
    for made, wanted in zip(results(sums, a, b, *statistics), by_weights, strict=True):
        assert np.allclose(made, wanted, atol=1e-4)


def results(schedule: Any, *arrays: Any) -> list[Any]:
    """Simulate a schedule, and list its outputs."""
    found = schedule.simulate(*arrays).arrays
    return [found[t.name] for t in schedule.computed.outputs]


def test_a_ring_of_rows_meets_once_for_each_fold() -> None:
    """The slots of a fold's states alternate: the barrier of the trip between separates reads and the next writes."""
    loop = rows.row(made("rms_norm_gradients", 2048, lines=300), warps=8, stages=2).cuda("sm_90a")
    assert loop.split("by_gain: add over m")[0].count("__syncthreads();  // ") == 1


@pytest.mark.parametrize("name", ["layernorm_backward", "layernorm_gradients"])
def test_gradients_of_layer_norms_meet_at_two_barriers(name: str) -> None:
    loop = rows.row(made(name, 2048, lines=300), warps=8, stages=1).cuda("sm_90a").split("by_gain: add over m")[0]
    assert loop.count("__syncthreads();  // ") == 2


def test_narrow_rows_of_sums_have_longer_rings() -> None:
    """Three rows of 1216 columns are 14 KiB of two inputs: three of them on their way hide the latency."""
    tree = str(rows.row(made("layernorm_gradients", 1216, lines=262144, arch="sm_90a"), warps=5, rows=3).tree())
    assert "pipeline 4" in tree


def test_statistics_of_rows_wait_in_the_ring() -> None:
    """Statistics of the forward pass are on their way with their rows, where asynchronous copies take them."""
    given = [Matrix(4096, 64, "bf16"), Matrix(4096, 64, "bf16", name="dy"), Vector(64, "bf16", name="gain")]
    for dtype, copied in (("f32", True), ("bf16", False)):
        statistics = [Vector(4096, dtype, name=word) for word in ("middle", "deviation")]
        spec = rows.layernorm_gradients(*given, *statistics, out=("bf16", "f32", "f32"), arch="sm_90a")
        schedule = rows.row(spec)
        assert ("deviation to SH" in str(schedule)) == copied


def test_gradients_of_any_number_of_rows() -> None:
    """Warps whose chunks of rows have a size of the call hold parts of one sum each."""
    lines = symbol("M")
    given = Matrix(lines, 96), Matrix(lines, 96, name="dy"), Vector(96, name="gain")
    found = rows.row(rows.layernorm_gradients(*given), blocks=2, rows=2).simulate(M=20)
    assert found.comparison.passed, str(found)


def test_a_kernel_with_sums_over_rows(golden: Callable[[str, str], None]) -> None:
    golden(rows.row(made("rms_norm_gradients", 4096, lines=12288)).cuda("sm_90a"), "schedules/rms_norm_gradients.cu")


def test_gradients_are_the_same_in_every_run() -> None:
    schedule = rows.row(made("layernorm_gradients", 256, lines=40), blocks=4)
    first, second = (schedule.simulate(blocks=order).arrays for order in ((0, 1, 2, 3), (3, 1, 0, 2)))
    assert all(np.array_equal(first[name], second[name], equal_nan=True) for name in ("y0", "y1", "y2"))


@pytest.mark.parametrize("size", [12, 96, 400])
def test_groups_of_channels(size: int) -> None:
    """A group's rows have several channels, each with a gain of its own."""
    gain, bias = (tensor(4, 8, dtype="bf16", name=name) for name in ("gain", "bias"))
    right(rows.row(rows.group_norm(tensor(2, 4, 8, size, dtype="bf16"), gain, bias)))


def test_a_row_of_zeros_is_quantised_to_zeros() -> None:
    schedule = rows.row(made("quantised_rms_norm", 64, "f32", lines=2))
    x = np.stack((np.zeros(64), np.linspace(-3, 3, 64))).astype(np.float32)
    multiples, scale = np.ones((2, 64), np.int8), np.ones(2, np.float32)
    schedule.simulate(x, np.ones(64, np.float32), out=(multiples, scale))
    assert (scale[0], multiples[0].any(), np.abs(multiples[1]).max()) == (0, False, 127)


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("width", [33, 1001])
def test_right_where_lines_are_odd(dtype: str, width: int) -> None:
    right(rows.row(made("layernorm", width, dtype)))


@pytest.mark.parametrize(("blocks", "warps", "width"), [(2, 2, 1200), (4, 4, 1000), (8, 2, 4096)])
def test_a_cluster_shares_a_row(blocks: int, warps: int, width: int) -> None:
    schedule = rows.row(made("layernorm", width), blocks=blocks, warps=warps)
    assert schedule.lowered().cluster == blocks
    right(schedule)


def test_a_wide_row_goes_through_registers_in_chunks() -> None:
    schedule = rows.row(made("softmax", 40000, lines=1), blocks=1, warps=4)
    assert "split n" in schedule.tree()
    right(schedule)


@pytest.mark.parametrize(("name", "online"), [("softmax", True), ("log_softmax", True), ("layernorm", False)])
def test_statistics_of_rows_that_no_memory_keeps_are_found_in_one_pass(name: str, online: bool) -> None:
    """Where a law allows it: a layer norm's variance needs the mean first."""
    schedule = rows.row(made(name, 90000, lines=1, arch="sm_80"))
    assert ("online" in str(schedule.tree())) == online
    assert not schedule.compile("sm_80").resources.spills


def test_vectors_of_wide_rows_are_read_behind_the_folds() -> None:
    """Gain stays beside a ring of two rows, bias is read from L2: a layer norm has as few blocks as an RMS norm."""
    schedules = [rows.row(made(name, 32768, lines=4096)) for name in ("layernorm", "rms_norm")]
    assert [s.lowered().cluster for s in schedules] == [1, 1]
    text = schedules[0].cuda("sm_90a")
    assert text.index("deviation: f32") < text.index("load gain_sh to") < text.index("load bias to bias_rf")


def test_right_where_a_row_waits_in_shared_memory() -> None:
    schedule = rows.row(made("layernorm", 32768, lines=3))
    assert schedule.simulate(launched=2).comparison.passed


def test_rows_of_several_dims() -> None:
    right(rows.row(rows.softmax.on(x="b h n")(tensor(2, 3, 96, dtype="f16"))))


@pytest.mark.product
@pytest.mark.parametrize(
    "arch", [*(pytest.param(a, marks=pytest.mark.exhaustive) for a in ("sm_80", "sm_120")), "sm_90a"]
)
@pytest.mark.parametrize("width", [*(pytest.param(n, marks=pytest.mark.exhaustive) for n in (64, 16384)), 1024, 65536])
def test_no_spills(arch: str, width: int) -> None:
    for name in ("softmax", "layernorm", "add_rms_norm", "layernorm_backward", "cross_entropy_with_gradient"):
        assert not rows.row(made(name, width, arch=arch)).compile(arch).resources.spills


def test_every_width_fits_into_registers_and_shared_memory() -> None:
    """Widths drawn from 8 to 262,144, and one whose last chunk was rounded down to none."""
    drawn = np.random.default_rng(7)
    every = (*NAMES, *FURTHER)
    cases = [("layernorm_backward", 50000, "bf16", "sm_90a")]
    for name in drawn.choice(every, 40):
        width = int(2 ** drawn.uniform(3, 18))
        cases.append((name, width, str(drawn.choice(["bf16", "f32"])), str(drawn.choice(["sm_80", "sm_89", "sm_90a"]))))
    for name, width, dtype, arch in cases:
        rows.row(made(name, width, dtype, 300, arch)).check(arch)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("log_softmax", 49152),
        ("log_softmax", 50257),
        ("softmax_backward", 7168),
        ("softmax_backward", 65536),
        ("add_layernorm", 6144),
        ("add_layernorm", 20480),
        ("layernorm_backward", 128256),
    ],
)
def test_rows_that_fill_the_registers_do_not_spill(name: str, width: int) -> None:
    assert not rows.row(made(name, width, lines=12288, arch="sm_90a")).compile("sm_90a").resources.spills


@pytest.mark.parametrize("width", [640 * 32, 1280 * 32, 152064, 262144])
@pytest.mark.parametrize("name", ["add_layernorm", "softmax_backward", "layernorm_backward"])
def test_what_is_kept_whole_fits_registers(name: str, width: int) -> None:
    row = row_of(made(name, width, arch="sm_90a"))
    part = part_of(row)
    of_lane = width / (part.blocks * part.warps * LANES)
    most = 64 if part.warps > 16 else 128  # registers of a thread
    assert 0 < (part.inner or part.chunk / part.warps or of_lane * LANES) / LANES * row.registers <= most
    assert not part.inner % (LANES * row.lane)


def test_rows_that_no_cluster_keeps_in_registers_stay_in_shared_memory() -> None:
    schedule = rows.row(made("layernorm_backward", 400000, lines=4096, arch="sm_90a"))
    kept = ".load x to SH .load dy to SH .split n 12288 .split n 16 ways to Warp"
    assert f".split n 8 ways to Block {kept}" in plan(schedule)
    assert schedule.cuda("sm_90a").count("__syncthreads();") == 1  # copies alone meet there


@pytest.mark.parametrize(
    ("name", "width", "blocks", "warps", "places", "resident"),
    [
        ("layernorm", 58840, 8, 6, 2, 3),
        ("layernorm", 180384, 8, 15, 2, 1),
        ("layernorm", 231712, 8, 15, 1, 1),
        ("rms_norm", 108016, 8, 9, 2, 2),
        ("add_layernorm", 231712, 16, 15, 2, 1),
        ("softmax_backward", 32928, 8, 6, 2, 3),
        ("rms_norm_backward", 231712, 16, 15, 2, 1),
        ("layernorm_backward", 20480, 4, 4, 2, 3),
        ("layernorm_backward", 98304, 8, 8, 1, 2),
        ("layernorm_backward", 180384, 8, 15, 1, 1),
        ("layernorm_backward", 262144, 16, 16, 2, 1),
    ],
)
def test_registers_of_clusters_keep_wide_rows(
    name: str, width: int, blocks: int, warps: int, places: int, resident: int
) -> None:
    """Gains and biases stay beside; where two rows do not fit, the next row takes the place of the only one."""
    spec = made(name, width, lines=4096, arch="sm_90a")
    schedule, given = rows.row(spec), row_of(spec)
    text = plan(schedule)
    assert f".tile 1 to Block .split n {blocks} ways to Block .split n {warps} ways to Warp" in text
    assert f"__launch_bounds__({32 * warps}, {resident})" in schedule.cuda("sm_90a")
    assert f"pipeline {places}" in str(schedule.tree())
    assert all(f".load {array} to SH" in text for array in (*given.inputs, *given.vectors))
    assert text.count("split n") == 2  # no chunks


@pytest.mark.parametrize("name", ["layernorm", "layernorm_backward"])
def test_clusters_that_share_sms_compute_rows_of_their_own(name: str) -> None:
    """Rows of more than 64 KiB: three clusters, each of the form that this width has, compute five rows."""
    schedule = rows.row(made(name, 34000, arch="sm_90a"))
    assert schedule.lowered().cluster == (4 if name == "layernorm" else 8)
    found = schedule.simulate(launched=3 * schedule.lowered().cluster)
    assert found.comparison.passed, str(found)


@pytest.mark.parametrize(("name", "width"), [("layernorm", 32768), ("softmax", 98304)])
def test_a_third_of_shared_memory_is_read_in_loops(name: str, width: int) -> None:
    assert plan(rows.row(made(name, width, lines=4096, arch="sm_90a"))).count("split n") > 1 + (width > 60000)


@pytest.mark.product
@pytest.mark.parametrize("name", ["layernorm", "add_layernorm", "layernorm_backward"])
@pytest.mark.parametrize(("blocks", "stages"), [(16, 2), (8, 1)])
def test_the_next_row_takes_the_place_of_one_in_registers(name: str, blocks: int, stages: int) -> None:
    """Two clusters compute five rows, one after another, with gains that a block loads once."""
    spec = made(name, 4128, arch="sm_90a")
    schedule = rows.row(spec, blocks=blocks, warps=2, stages=stages, persistent=True)
    assert f"pipeline {stages}" in str(schedule.tree())
    found = schedule.simulate(launched=2 * blocks)
    assert found.comparison.passed, str(found)


ONE_ROW: dict[str, Any] = {
    "softmax": lambda x: fi.softmax(x, "n"),
    "log_softmax": lambda x: fi.log_softmax(x, "n"),
    "norm": lambda x: x * fi.rsqrt(fi.mean(x * x, "n") + 1e-5),
    "cumsum": lambda x: fi.cumsum(x, "n"),
}


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ONE_ROW)
@pytest.mark.parametrize("width", [1, 33, 500, 4096])
def test_a_vector_is_one_row(name: str, width: int, arch: str) -> None:
    schedule = fi.best(program(x="n")(ONE_ROW[name])(tensor(width, dtype="f32"), arch=arch))
    assert schedule.name.startswith("row_")
    found = schedule.simulate()
    assert found.comparison.passed, str(found)


@pytest.mark.parametrize("width", [20001, 40000])
def test_one_wide_row_has_several_blocks(width: int) -> None:
    schedule = rows.row(program(x="n")(ONE_ROW["softmax"])(tensor(width, dtype="f32"), arch="sm_90a"))
    assert "Block" in str(schedule).partition(" ways to ")[2]
    assert schedule.simulate().comparison.passed


def test_arrays_beside_one_row_may_have_its_dim_or_others() -> None:
    two = program(x="a n")(lambda x: fi.softmax(x, "a n"))
    assert rows.row(two(tensor(8, 33, strides=(64, 1)), arch="sm_90a")).simulate().comparison.passed
    scaled = program(x="n", gain="n")(lambda x, gain: fi.softmax(x, "n") * gain)
    assert rows.row(scaled(tensor(100), tensor(100), arch="sm_90a")).simulate().comparison.passed
    outer = program(x="n", t="m")(lambda x, t: fi.softmax(x, "n") * t)
    assert rows.row(outer(tensor(100), tensor(7), arch="sm_90a")).simulate().comparison.passed


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("width", [64, 770, 2048])
def test_gains_may_be_wider_than_the_rows_beside_their_sums(width: int, dtype: str) -> None:
    lines, gain = (tensor(24, width, dtype=dtype), tensor(24, width, dtype=dtype)), tensor(width, dtype="f32")
    for of in (rows.layernorm_gradients, rows.rms_norm_gradients):
        found = rows.row(of(*lines, gain, arch="sm_90a")).simulate()
        assert found.comparison.passed, str(found)


def test_programs_of_other_forms_are_refused() -> None:
    with pytest.raises(FireironError, match="folds no dim") as caught:
        rows.row(program(x="m n")(lambda x: x * 2)(Matrix(8, 64)))
    assert caught.value.code == "row-columns"
    with pytest.raises(FireironError, match="does not say how many n are"):
        rows.row(rows.softmax(Matrix(8, symbol("N"))))


@pytest.mark.parametrize(
    ("name", "width", "ring"),
    [
        ("softmax", 1024, False),
        ("softmax", 16384, False),
        ("softmax", 24576, False),
        ("softmax", 65536, False),
        ("layernorm", 6632, False),
        ("layernorm", 11600, True),
        ("layernorm", 32768, True),
        ("top", 32000, True),  # of chunks
    ],
)
def test_rows_wait_in_a_ring_where_blocks_have_an_sm_alone(name: str, width: int, ring: bool) -> None:
    tree = str(rows.row(made(name, width, lines=4096, arch="sm_90a")).tree())
    assert ("pipeline" in tree) == ring


@pytest.mark.parametrize(("width", "dtype"), [(8, "bf16"), (4, "f32"), (2, "f16")])
def test_a_row_of_one_vector_has_a_lane(width: int, dtype: str) -> None:
    for name in ("softmax", "layernorm"):
        schedule = rows.row(made(name, width, lines=300, dtype=dtype))
        assert " to Thread " in str(schedule)
        right(schedule)


def plan(schedule: Any) -> str:
    return str(schedule).partition(")(Kernel)")[2]


def test_clusters_of_wide_rows_share_the_sms() -> None:
    """A row of 16-bit values in 44 to 64 KiB of each block, and in registers by chunks."""
    for width, blocks in ((32768, ""), (65536, " .split n 2 ways to Block"), (180384, " .split n 8 ways to Block")):
        found = plan(rows.row(rows.softmax(Matrix(4096, width, "bf16"), arch="sm_90a")))
        assert f".tile 1 to Block{blocks} .load x to SH .split n 14336 .split n 8 ways to Warp" in found


@pytest.mark.parametrize(("width", "chunks"), [(8192, False), (32000, True), (128256, True)])
def test_rows_whose_outputs_have_no_columns_are_read_once(width: int, chunks: bool) -> None:
    schedule = rows.row(made("cross_entropy", width, lines=4096, arch="sm_90a"))
    assert (".tile 1 to Block .split n 7168 .split n 4 ways to Warp .load x to RF" in plan(schedule)) == chunks
    assert schedule.cuda("sm_90a").count("x[block") == 2  # the row's values and the target's


@pytest.mark.parametrize(
    ("name", "width"),
    [*(("layernorm_gradients", n) for n in (64, 336, 496, 1024, 8192)), ("rms_norm_gradients", 1088)],
)
def test_gradients_with_sums_do_not_spill(name: str, width: int) -> None:
    """Also where lanes of one warp would have several vectors of a row, some of them fewer than others."""
    made_ = rows.row(made(name, width, lines=12288)).compile("sm_90a")
    assert not made_.resources.spills


def _angles(places: int, half: int) -> list[Any]:
    return [tensor(places, half, name=name) for name in ("cos", "sin")]


@pytest.mark.parametrize(("places", "heads", "width"), [(5, 3, 64), (4, 8, 80), (3, 2, 128)])
def test_heads_turn_by_the_angles_of_their_places(places: int, heads: int, width: int) -> None:
    strides = (places * heads * width, heads * width, width, 1)
    a, b, *out = (tensor(2, places, heads, width // 2, dtype="bf16", name=n, strides=strides) for n in "abcd")
    right(pointwise.pointwise(rows.rotary(a, b, *_angles(places, width // 2), out=tuple(out))))
    x = tensor(2, places, heads, width, dtype="bf16", name="x")
    right(pointwise.pointwise(rows.rotary_pairs(x, *_angles(places, width // 2))))


def test_neighbours_are_read_where_a_thread_holds_them(golden: Callable[[str, str], None]) -> None:
    x = tensor(1, 256, 8, 64, dtype="bf16", name="x")
    schedule = pointwise.pointwise(rows.rotary_pairs(x, *_angles(256, 32), arch="sm_90a"))
    code = schedule.cuda("sm_90a")
    assert code.count("&x[") == 1  # the neighbour comes from the same vector
    golden(code, "schedules/rotary_pairs.cu")


def test_turning_is_that_of_complex_numbers() -> None:
    rng = np.random.default_rng(3)
    x, turn = rng.standard_normal((1, 4, 2, 16)), rng.uniform(0, 6, (4, 8))
    cos, sin, given = (v.astype(np.float32) for v in (np.cos(turn), np.sin(turn), x))
    spec = rows.rotary_pairs(tensor(1, 4, 2, 16, name="x"), *_angles(4, 8))
    got = np.zeros_like(given)
    pointwise.pointwise(spec).simulate(given, cos, sin, out=got)
    wanted = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * turn)[:, None]
    assert np.allclose(got[..., ::2] + 1j * got[..., 1::2], wanted, atol=1e-5)


SOFTMAX: dict[str, Callable[[Any], Any]] = {
    "lanes": lambda s: rows.row(s),
    "a loop": lambda s: (
        s.tile(m=1).to(Block).split(n=64).split("n", ways=2, multiple_of=4).parallel(Warp)
        .load("x", RF, vector()).epilog(memory=RF).done()
    ),
    "online": lambda s: (
        s.tile(m=1).to(Block).split(n=64).online().split("n", ways=2, multiple_of=4).parallel(Warp)
        .load("x", RF, vector()).epilog(memory=RF).done()
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", SOFTMAX)
def test_infinities_and_nan_as_torch_has_them(way: str) -> None:
    """A row with NaN or inf is NaN throughout, so is one of -inf alone; single -inf are 0."""
    x = np.random.default_rng(1).standard_normal((6, 200)).astype(np.float32)
    x[1, 150], x[2, 3], x[3], x[4, :100], x[5, 70:] = np.nan, np.inf, -np.inf, -np.inf, -np.inf
    got = np.zeros_like(x)
    SOFTMAX[way](rows.softmax(Matrix(6, 200))).simulate(x, out=got)
    with np.errstate(invalid="ignore"):
        part = np.exp(x - x.max(-1, keepdims=True))
        wanted = part / part.sum(-1, keepdims=True)
    assert np.isnan(wanted[1:4]).all()
    assert np.allclose(got, wanted, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("way", SOFTMAX)
def test_rows_that_are_masked_throughout_are_zeros(way: str) -> None:
    @program(x="m n", seen="m")
    def masked(x: Any, seen: Any) -> Any:
        return softmax(x, "n", where=index("n") < seen)

    x = np.random.default_rng(1).standard_normal((4, 200)).astype(np.float32)
    seen, got = np.array([200, 0, 70, 1], np.int32), np.ones_like(x)
    x[2, 70:], x[1, 5] = np.inf, np.nan  # what is masked does not count
    SOFTMAX[way](masked(Matrix(4, 200), Vector(4, "i32", name="seen"))).simulate(x, seen, out=got)
    for row, n in enumerate(seen):
        part = np.exp(x[row, :n] - x[row, :n].max(initial=-np.inf))
        assert np.allclose(got[row], np.pad(part / part.sum() if n else part, (0, 200 - n)), atol=1e-6)


@pytest.mark.parametrize(
    ("plan", "barriers"),
    [
        ({"warps": 3}, 2),
        ({"blocks": 2, "warps": 4, "stages": 2}, 2),
        ({"blocks": 2, "warps": 4, "at_once": True}, 0),
    ],
)
def test_rows_of_a_block_share_barriers(plan: dict[str, Any], barriers: int) -> None:
    """Three rows at a time, of eight: the last block has two."""
    schedule = rows.row(made("layernorm", 2048, "f32", 8, "sm_90a"), rows=3, **plan)
    assert schedule.cuda("sm_90a").count("__syncthreads()") == barriers
    right(schedule)


def lying(order: str, sizes: dict[str, int]) -> tuple[int, ...]:
    """Return strides of dims a, p and n, whose order in memory is given, the contiguous one last."""
    found, step = dict[str, int](), 1
    for dim in reversed(order):
        found[dim], step = step, step * sizes[dim]
    return tuple(found[dim] for dim in "apn")


def normed(places: int, width: int, orders: tuple[str, str, str], pad: int = 0) -> Any:
    """Describe the layer norm of a sum of arrays in some orders, whose rows may be `pad` elements apart."""
    sizes = {"a": 2, "p": places, "n": width + pad}
    x, y, out = (tensor(2, places, width, dtype="f16", strides=lying(order, sizes)) for order in orders)
    gains = [Vector(width, "f16", name=name) for name in ("gain", "bias")]
    return rows.add_layernorm.on(x="a p n", residual="a p n")(x, y, *gains, out=(out, out))


@pytest.mark.product
@pytest.mark.parametrize("out", ["apn", "anp"])
@pytest.mark.parametrize(("x", "y"), [("anp", "anp"), ("apn", "anp"), ("anp", "apn"), ("anp", "npa")])
@pytest.mark.parametrize(("places", "width"), [(49, 200), (130, 24), (5, 1600)])
def test_columns_may_lie_apart(places: int, width: int, x: str, y: str, out: str) -> None:
    """Of all inputs, as channels of pixels do, or of some."""
    spec = normed(places, width, (x, y, out))
    right(rows.row(spec))
    assert bool(row_of(spec).across) == ("apn" not in (x, y))
    assert row_of(spec).apart == {("apn", "anp"): ("residual",), ("anp", "apn"): ("x",)}.get((x, y), ())


@program(x="a p n", y="a p n")
def scaled_sum(x: Value, y: Value) -> Value:
    return 2.0 * x + y


@pytest.mark.product
@pytest.mark.parametrize("out", ["apn", "nap", "npa"])
@pytest.mark.parametrize("y", ["apn", "nap", "pna"])
@pytest.mark.parametrize("x", ["apn", "nap", "anp"])
@pytest.mark.parametrize(("places", "width"), [(48, 64), (17, 30)])
def test_points_are_taken_in_the_order_of_memory(places: int, width: int, x: str, y: str, out: str) -> None:
    """Whatever the order of dims in a shape: strides say how an array lies."""
    sizes = {"a": 2, "p": places, "n": width}
    arrays = [tensor(2, places, width, dtype="f16", strides=lying(order, sizes)) for order in (x, y, out)]
    right(pointwise.pointwise(scaled_sum(*arrays[:2], out=arrays[2])))


@pytest.mark.parametrize("dims", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_vectors_are_along_the_contiguous_dim_wherever_a_shape_names_it(dims: tuple[int, ...]) -> None:
    sizes, strides = (6, 48, 64), (48 * 64, 64, 1)
    shape, steps = (tuple(each[d] for d in dims) for each in (sizes, strides))
    x, y, out = (tensor(*shape, dtype="f16", strides=steps) for _ in range(3))
    schedule = pointwise.pointwise(scaled_sum(x, y, out=out))
    right(schedule)
    body = schedule.cuda("sm_90a").partition("extern")[2]
    assert "copy_16B(" in body
    assert "copy_2B(" not in body


@pytest.mark.parametrize("pad", [1, 4])
def test_rows_may_start_between_vectors(pad: int) -> None:
    right(rows.row(normed(3, 64, ("apn", "apn", "apn"), pad)))


def test_vectors_that_folds_read_take_registers() -> None:
    """They are held beside the row; those that only results read are loaded behind the folds."""

    @program(x="m n", seen="n")
    def chosen(x: Value, seen: Value, first: bool) -> Value:
        return fi.sum(fi.where(seen > 0, x, 0.0), "n") if first else softmax(x, "n") * seen

    x, seen = Matrix(3, 4096), Vector(4096, "i32", name="seen")
    folded, behind = (row_of(chosen(x, seen, first=first)) for first in (True, False))
    alone = row_of(rows.softmax(x))
    assert folded.live >= 2
    assert behind.live == alone.live


@pytest.mark.parametrize("width", [40, 1000])
def test_nothing_may_lie_side_by_side(width: int) -> None:
    """Of a slice with steps, such as every second score, lanes read single elements."""
    x = tensor(5, width, dtype="f16", strides=(2 * width, 2))
    spec = rows.softmax(x)
    assert (row_of(spec).lane, row_of(spec).across, row_of(spec).apart) == (1, "", ())
    right(rows.row(spec))


def test_warps_share_rows_whose_columns_lie_apart() -> None:
    schedule = rows.row(normed(40, 90, ("anp", "anp", "anp")), warps=2)
    right(schedule)
    assert ".split n 2 ways to Warp" in plan(schedule)


def test_few_rows_of_many_columns_that_lie_apart_are_refused() -> None:
    with pytest.raises(FireironError) as caught:
        rows.row(normed(32, 2056, ("anp", "anp", "anp")))
    assert caught.value.code == "row-columns"
    assert "lie apart" in caught.value.message


def test_sums_beside_rows_whose_columns_lie_apart_are_refused() -> None:
    x, dy = (tensor(64, 48, dtype="f16", strides=(1, 64)) for _ in range(2))
    with pytest.raises(FireironError) as caught:
        rows.row(rows.layernorm_gradients(x, dy, Vector(48, "f16", name="gain")))
    assert caught.value.code == "row-columns"


@pytest.mark.parametrize("fold", [fi.logsumexp, fi.mean_and_variance, fi.softmax])
def test_few_rows_whose_columns_lie_apart_are_computed_where_warps_are_given(fold: Any) -> None:
    spec = fi.program(x="m n")(lambda x: fold(x, "m"))(tensor(2500, 40, dtype="bf16", name="x"))
    with pytest.raises(FireironError) as caught:
        rows.row(spec)
    assert caught.value.code == "row-columns"
    assert "warps=16" in str(caught.value)
    found = rows.row(spec, warps=16).simulate().comparison
    assert found is not None
    assert found.passed


@pytest.mark.parametrize("width", [96, 768])
def test_such_rows_spill_no_registers(width: int) -> None:
    for orders in (("anp", "anp", "anp"), ("apn", "anp", "apn")):
        assert rows.row(normed(3136, width, orders)).compile("sm_90a").resources.spills == 0


@fi.program(a="b s h d", b="b s h d")
def of_heads(a: Any, b: Any) -> Any:
    return fi.sum(a * b, "d")


@pytest.mark.parametrize(
    ("heads", "tile"),
    [(8, (1, 2, 8)), (12, (1, 4, 4)), (7, (1, 2, 8)), (16, (1, 1, 16)), (3, (1, 16, 1)), (1, (1, 16, 1))],
)
def test_a_block_has_rows_of_several_lines_where_the_last_dim_is_short(heads: int, tile: tuple[int, ...]) -> None:
    given = [fi.tensor(2, 64, heads, 64, dtype="bf16", name=name) for name in "ab"]
    schedule = rows.row(of_heads(*given))
    first = schedule.links[0]
    assert isinstance(first, Tile)
    assert not isinstance(first.sizes, Widest)
    assert tuple(size for _, size in first.sizes) == tile
    found = schedule.simulate(blocks=[0])
    assert found.comparison is not None
    assert found.comparison.passed
