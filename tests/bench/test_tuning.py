"""Tuning a suite's cases: the budget holds, the fastest are shipped, and model and search are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from bench import Case, tuning
from bench.tuning import keep, run, spread
from fireiron import FireironError
from fireiron.front import best as choosing
from fireiron.tune import search
from fireiron.tune.machine import Machine, State
from fireiron.tune.records import read

CASES = (Case(128, 128, 64), Case(64, 128, 64))


class Stopwatch:
    """Say that a candidate takes as long as its rows and columns."""

    machine = Machine("NVIDIA Test GPU", "sm_90a")

    def __init__(self, spec: Any) -> None:
        self.notes: list[str] = []
        self.known: dict[int, float] = {}

    def state(self) -> State:
        return State()

    def trial(self, index: int, built: Any, samples: int) -> Sequence[float]:
        keywords = built.candidate.point.keywords
        self.known[index] = float(keywords["m"] + keywords["n"] + keywords["split_k"])
        return [self.known[index]] * samples

    def sample(self, indices: Sequence[int], samples: int) -> tuple[Mapping[int, Sequence[float]], dict[int, Any]]:
        return {i: [self.known[i]] * samples for i in indices}, {}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    effort = attrs.evolve(search.EFFORTS["quick"], judged=12, compiled=4, climbs=0)
    monkeypatch.setitem(search.EFFORTS, "quick", effort)
    monkeypatch.setitem(search.EFFORTS, "full", attrs.evolve(effort, judged=24, compiled=5))
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "mine.jsonl"))
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)


def tuned(path: Path, budget_s: float = 300.0, **options: Any) -> tuple[list[tuning.Outcome], list[str]]:
    said: list[str] = []
    with ThreadPoolExecutor(1) as executor:
        found = run(CASES, budget_s, path, executor=executor, measurer=Stopwatch, tell=said.append, **options)
    return found, said


def test_the_fastest_of_each_case_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "shipped" / "gpu.jsonl"
    found, said = tuned(path, full_s=100.0)
    assert [o.problem for o in found] == ["", ""]
    assert all(o.quick is not None and o.full is not None for o in found)
    kept = read(path).records
    assert len(kept) <= tuning.KEPT * len(CASES)
    for outcome in found:
        mine = sorted(r.us for r in kept if (r.problem.m, r.problem.n) == (outcome.case.m, outcome.case.n) and r.us)
        assert mine[0] == outcome.best_us
    assert not (tmp_path / "mine.jsonl").exists()  # the user's own records are left alone
    assert any("the quick search reaches" in line for line in said)
    assert any("first choice reaches" in line and "the full search" in line for line in said)
    before = path.read_text()
    keep(path, ())
    assert path.read_text() == before


def test_time_that_is_up_is_told(tmp_path: Path) -> None:
    found, said = tuned(tmp_path / "gpu.jsonl", budget_s=0.0)
    assert found == []
    assert said[0] == "2 of 2 cases were not tuned: time was up"


def test_cases_are_spread_over_the_sizes() -> None:
    cases = [Case(64 * i, 64, 64) for i in (5, 1, 3, 2, 4)]
    assert [c.m // 64 for c in spread(cases, 3)] == [1, 3, 5]
    assert [c.m // 64 for c in spread(cases, 9)] == [1, 2, 3, 4, 5]
    assert [c.m // 64 for c in spread(cases, 1)] == [1]


def test_without_a_gpu_nothing_is_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with ThreadPoolExecutor(1) as executor, pytest.raises(FireironError) as raised:
        run(CASES, 60.0, tmp_path / "gpu.jsonl", executor=executor)
    assert raised.value.code == "no-gpu"
