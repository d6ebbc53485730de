"""The quick model: it ranks a preset's points as the cost model does, before anything is lowered."""

from math import inf

import pytest

from fireiron import matmul
from fireiron.algebra.arch import arch
from fireiron.estimate.tiling import Tiling, quick_us
from fireiron.front.best import choose, presets
from fireiron.front.model_choice import Question
from fireiron.tune.candidates import Candidate, judge
from fireiron.tune.space import space_of

SPEC = matmul(1024, 1024, 1024, "f16", layout="TN")
TILING = Tiling((128, 128), 32, (64, 32), 16, 128.0, stages=4, slots=2)


@pytest.mark.parametrize(
    ("preset", "size", "kind", "layout", "target"),
    [
        ("ampere.gemm", (1656, 4024, 1480), "f16", "NN", "sm_80"),
        ("ada.gemm", (185, 635, 1361), "f16", "NT", "sm_120"),
        ("turing.gemm", (512, 2048, 768), "f16", "TN", "sm_75"),
        ("simt.sgemm", (239, 416, 235), "f32", "TN", "sm_90a"),
    ],
)
def test_what_is_judged_is_as_fast_as_any_of_a_random_draw(preset, size, kind, layout, target):
    spec = matmul(*size, kind, layout=layout)
    named = next(p for p in presets() if p.name == preset)
    question = Question(spec, target)
    short, space = question.shortlist(named), question.space(named)
    legal = [us for p in short if (us := judge(Candidate(named, p), spec, target).modelled_us) is not None]
    drawn = [judge(Candidate(named, p), spec, target).modelled_us or inf for p in space.points(8, seed=3)]
    assert min(legal[: space_of(named.function).judged]) <= 1.1 * min(drawn)


def test_what_does_not_fit_is_infinitely_slow():
    target = arch("sm_80")

    def us(**changes):
        return quick_us(Tiling(**{**_fields(TILING), **changes}), SPEC.matmul, 16, target)

    assert 0 < us() < 1000
    assert us(stages=100) == inf  # shared memory
    assert us(block=(64, 32), warp=(128, 32)) == inf  # a warp's tile is larger than the block's
    assert us(block=(1024, 1024), warp=(32, 32)) == inf  # threads
    assert us(block=(256, 256), warp=(256, 256)) == inf  # registers
    assert us(block=(128, 256), warp=(64, 64), staged=1.0) > us(block=(128, 256), warp=(64, 64))


def test_partial_sums_cost_what_they_move():
    deep = matmul(4096, 4096, 8192, "f16", layout="TN").matmul
    whole, parted = (quick_us(Tiling(**{**_fields(TILING), "split_k": n}), deep, 16, arch("sm_80")) for n in (1, 8))
    assert parted > 1.1 * whole
    few = matmul(128, 128, 65536, "f16", layout="TN").matmul
    whole, parted = (quick_us(Tiling(**{**_fields(TILING), "split_k": n}), few, 16, arch("sm_80")) for n in (1, 8))
    assert parted < 0.5 * whole


CORES = Tiling((64, 64), 8, (64, 64), 1, 32.0, stages=2, thread=(16, 8))
COUNTS = arch("sm_90a").gpu.sms


def _cores_us(rows=COUNTS, **changes):
    """Model tiles of 64x64, of which `rows` stand in a column, on CUDA cores."""
    matmul_of_tiles = matmul(64 * rows, 64, 4096).matmul
    return quick_us(Tiling(**{**_fields(CORES), **changes}), matmul_of_tiles, 32, arch("sm_90a"))


def test_a_last_wave_of_few_warps_leaves_schedulers_idle():
    """A block of one warp keeps one of four schedulers busy: nine blocks an SM take as long as twelve."""
    assert _cores_us(9 * COUNTS) == pytest.approx(_cores_us(12 * COUNTS), rel=0.1)
    assert _cores_us(9 * COUNTS) > 1.3 * _cores_us(8 * COUNTS)


def test_lanes_take_turns_or_idle():
    assert _cores_us(8 * COUNTS, thread=(8, 8)) > 1.01 * _cores_us(8 * COUNTS)  # more loads for the same sums
    halves, whole = (_cores_us(8 * COUNTS, warp=(64, 32), thread=thread) for thread in ((16, 8), (8, 8)))
    assert halves > 1.7 * whole  # 16 lanes idle


def test_copies_through_registers_are_under_way_for_one_trip():
    small = {"warp": (32, 32), "thread": (8, 4)}
    deep, staged = ({**small, "stages": 4, "staged": x} for x in (0.0, 1.0))
    assert _cores_us(**staged) > 1.2 * _cores_us(**deep)
    assert _cores_us(**staged) == pytest.approx(_cores_us(**{**staged, "stages": 2}), rel=0.02)


def test_registers_are_kept_for_as_many_blocks_as_asked():
    wide = {"block": (128, 128), "warp": (64, 32), "thread": (8, 8), "staged": 4.0}  # 128 registers of copies
    assert _cores_us(8 * COUNTS, **wide, resident=2) < _cores_us(8 * COUNTS, **wide)


def test_so_many_blocks_must_leave_registers_for_the_tensors():
    """With NVRTC 13.0, three blocks of 256 threads of 8x8 sums spilled 752 B: it took 3.5 times as long as torch."""
    spec = matmul(5504, 4864, 3968, dtype="f32", layout="NN")
    tilings = (Tiling((128, 128), 16, (32, 64), 1, 32, stages=4, thread=(8, 8), stream=n) for n in (1, 2, 3))
    times = [quick_us(tiling, spec.matmul, 32, arch("sm_90a")) for tiling in tilings]
    assert times[0] < inf
    assert times[1] < inf
    assert times[2] == inf


def test_tilings_of_points_are_those_of_their_schedules():
    for preset in presets():
        declared = space_of(preset.function)
        if declared.tiling is None:
            continue
        kinds = {"sgemm": ("f32", "NN"), "dgemm": ("f64", "TN")}
        kind, layout = kinds.get(preset.name.partition(".")[2], ("f16", "TN"))
        spec = matmul(1024, 1024, 512, kind, layout=layout)
        for found in declared.of(spec).points(5, seed=1):
            tiling = declared.tiling(spec, found.keywords)
            if tiling is None:  # the model leaves the point out
                continue
            try:
                schedule = preset.build(spec, found)
            except Exception:  # not every point is legal
                continue
            assert schedule.lowered(declared.since or "sm_80").threads == tiling.threads, found


@pytest.mark.parametrize(
    ("size", "kind", "preset"),
    [
        ((832, 912, 880), "f64", "ampere.dgemm"),
        ((1520, 1344, 1872), "f32", "ampere.sgemm"),
        ((2048, 2048, 1024), "f32", "simt.sgemm"),  # whose tiles divide the sizes and fill their waves
        ((1536, 1408, 2048), "f32", "ampere.sgemm"),  # whose tiles leave half of a wave empty
    ],
)
def test_a_preset_that_gives_no_tiles_for_a_product_is_left_out(size, kind, preset):
    assert str(choose(matmul(*size, kind), "sm_90a").candidate).startswith(preset)


def test_equal_shares_take_less_time_than_waves_that_are_nearly_empty():
    """Of 133 tiles one block of each SM has one, and a block of the first SM another."""
    rows = COUNTS + 1
    whole, shared = (_cores_us(rows, block=(64, 64), warp=(32, 64), thread=(8, 8), **more) for more in
                     ({"resident": 1}, {"stream": 1}))  # fmt: skip
    assert shared < whole
    assert _cores_us(rows, stream=100) == inf  # an SM holds fewer blocks


def _fields(tiling):
    return {name: getattr(tiling, name) for name in Tiling.__match_args__}
