"""The quick model: it ranks a preset's points as the cost model does, before anything is lowered."""

from math import inf

import pytest

from fireiron import matmul
from fireiron.algebra.arch import arch
from fireiron.estimate.tiling import Tiling, quick_us
from fireiron.front.best import presets
from fireiron.front.model_choice import SHORTLIST, Question
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
    assert min(legal[:SHORTLIST]) <= 1.1 * min(drawn)


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
    assert parted > 1.2 * whole
    few = matmul(128, 128, 65536, "f16", layout="TN").matmul
    whole, parted = (quick_us(Tiling(**{**_fields(TILING), "split_k": n}), few, 16, arch("sm_80")) for n in (1, 8))
    assert parted < 0.5 * whole


def test_tilings_of_points_are_those_of_their_schedules():
    for preset in presets():
        declared = space_of(preset.function)
        if declared.tiling is None:
            continue
        kind, layout = ("f32", "NN") if preset.name == "simt.sgemm" else ("f16", "TN")
        spec = matmul(1024, 1024, 512, kind, layout=layout)
        for found in declared.of(spec).points(5, seed=1):
            tiling = declared.tiling(spec, found.keywords)
            try:
                schedule = preset.build(spec, found)
            except Exception:  # not every point is legal
                continue
            assert schedule.lowered(declared.since or "sm_80").threads == tiling.threads, found


def _fields(tiling):
    return {name: getattr(tiling, name) for name in Tiling.__match_args__}
