"""`python -m bench tiles` and `fit-tiles`: points that the quick model ranks, and its constants from their timings."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_lab import FakeLab, Peer

from bench import Case, suites, tiles
from bench.tiles import Timed, fitted, loss, points, run, run_fit, timed_of
from fireiron import Tiling, matmul
from fireiron.algebra.arch import arch
from fireiron.base.errors import UsageError
from fireiron.estimate.tiling import FIT, quick_us

CASES = (Case(512, 384, 256, "f32", "TN"), Case(320, 640, 512, "f64", "NN"))
RESULTS = Path(__file__).parents[2] / "bench" / "results" / "tiles" / "h200.jsonl"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.SUITES, "layouts", suites.Suite("small ones", CASES))


def test_the_models_first_point_comes_first_and_none_twice() -> None:
    found = points(CASES[0], "ampere.sgemm", 12, random.Random(1), "sm_90a")
    assert len({str(each.values) for each in found}) == len(found) == 13
    declared = tiles.space_of(tiles.find("ampere.sgemm").made)
    spec = CASES[0].spec()
    us = [quick_us(declared.tiling(spec, p.values), spec.matmul, 32, arch("sm_90a")) for p in found]
    assert us[0] == min(us)
    known = (declared.tiling(spec, p.keywords) for p in declared.of(spec).points())
    every = sorted(quick_us(t, spec.matmul, 32, arch("sm_90a")) for t in known if t is not None)
    assert all(x <= every[tiles.EARLY] for x in us[:7]), "the first, and half of the others, are early in its order"
    assert max(us[7:]) > every[tiles.EARLY]
    assert points(CASES[1], "ampere.sgemm", 12, random.Random(1), "sm_90a") == [], "f64 is for another preset"


def test_presets_without_tiles_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        points(CASES[0], "hopper.gemm", 2, random.Random(0), "sm_90a")
    assert caught.value.code == "no-tiles"
    assert "ampere.dgemm" in caught.value.fix


def test_timings_are_written_and_the_loss_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = [Peer(name, ours=True) for name in ("first", "second")]
    monkeypatch.setattr(tiles, "points", lambda case, name, count, rng, target: ours if case == CASES[0] else [])
    monkeypatch.setattr(tiles, "compile_ahead", lambda tasks: None)
    monkeypatch.setattr(tiles, "subject", lambda word: Peer("peer"))
    said: list[str] = []
    path = tmp_path / "found.jsonl"
    code = run(
        ["layouts", "--presets", "ampere.sgemm", "-o", str(path)], "it",
        lab=FakeLab(first=30.0, second=24.0, peer=20.0), tell=said.append,
    )  # fmt: skip
    assert code == 0
    assert said == [
        "320x640x512 f64 NN: none of ampere.sgemm has tiles for it",
        "1 cases: the model's first point takes 1.250 times as long as the fastest",
    ]
    assert [json.loads(line)["subject"] for line in path.read_text().splitlines()] == ["first", "second", "peer"]


def test_cases_of_a_type_are_the_suites_own_if_it_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Case] = []
    monkeypatch.setattr(tiles, "points", lambda case, name, count, rng, target: asked.append(case) or [])
    monkeypatch.setattr(tiles, "compile_ahead", lambda tasks: None)
    whole = suites.drawn("dtypes-random", 5)
    run(["dtypes-random", "--seed", "5", "--dtype", "f32", "--count", "3"], lab=FakeLab(), tell=print)
    assert asked[:1] == [next(case for case in whole if case.dtype == "f32")]
    assert {case.dtype for case in asked} == {"f32"}
    asked.clear()
    run(["ragged-random", "--seed", "5", "--dtype", "f64", "--count", "3"], lab=FakeLab(), tell=print)
    assert {case.dtype for case in asked} == {"f64"}


def measured(truth: Any) -> list[Timed]:
    found: list[Timed] = []
    for m, n, k in ((512, 512, 512), (1520, 1344, 1872), (256, 2048, 1024), (2048, 2048, 256)):
        spec = matmul(m, n, k)
        for block, warp, more in (
            ((128, 128), (64, 32), {}), ((64, 64), (32, 32), {"split_k": 3}), ((64, 64), (32, 64), {"stream": 4}),
            ((64, 128), (32, 64), {"stream": 2}), ((64, 64), (32, 32), {}),
        ):  # fmt: skip
            thread = (warp[0] // 4, warp[1] // 8) if warp[0] <= warp[1] else (warp[0] // 8, warp[1] // 4)
            tiling = Tiling(block, 16, warp, 1, 32.0, 4, thread=thread, **more)
            found.append(Timed(tiling, spec, quick_us(tiling, spec.matmul, 32, arch("sm_90a"), truth)))
    return found


def test_another_machine_is_found() -> None:
    truth = attrs.evolve(FIT, multiply=FIT.multiply * 1.4, tile=FIT.tile * 2)
    timings = measured(truth)
    assert loss(timings, truth)[1] == pytest.approx(0, abs=1e-9)
    best = fitted(timings)
    assert loss(timings, best)[1] < loss(timings, FIT)[1] / 4
    assert best.multiply > 1.2 * FIT.multiply


def test_the_shipped_timings_are_read_and_the_model_holds_for_them() -> None:
    timings = timed_of(str(RESULTS))
    assert len(timings) > 400
    assert {each.spec.left.dtype.name for each in timings} == {"f32", "f64"}
    _, error, lost = loss(timings, FIT)
    assert error < 0.15
    assert lost < 0.09
    assert loss(timings, attrs.evolve(FIT, multiply=2 * FIT.multiply, mma=2 * FIT.mma))[1] > 0.3


def test_the_command_prints_constants(tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(RESULTS.read_text().splitlines(keepends=True)[:60]))
    said: list[str] = []
    assert run_fit([str(few), "--passes", "1"], said.append) == 0
    assert said[0].startswith("now: times are off by ")
    assert said[2].startswith("TileClocks(multiply=")
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(UsageError) as caught:
        run_fit([str(tmp_path / "none.jsonl")])
    assert caught.value.code == "no-timings"
