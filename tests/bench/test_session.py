"""A session keeps its budget, writes case by case, and what it wrote becomes tables of the pages."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_lab import FakeLab, Peer

from bench import Case, readme, session, suites
from bench.ahead import ready, submit
from bench.main import main
from bench.results import read
from bench.session import Plan, parsed, run
from fireiron.front import best as choosing
from fireiron.tune.machine import Machine

GPU = Machine("NVIDIA H200", "sm_90a")
CASES = (Case(64, 64, 32), Case(64, 32, 32), Case(32, 64, 32))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Make the suite `sgemm` small, and choices quick."""
    monkeypatch.setitem(suites.SUITES, "sgemm", suites.Suite("squares on CUDA cores", CASES))
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    choosing.forget()
    yield
    choosing.forget()


def ran(tmp_path: Path, **changes: Any) -> list[str]:
    said: list[str] = []
    plan = attrs.evolve(Plan(60.0, ("sgemm",), tuned=0, results=tmp_path, arch="sm_80"), **changes)
    with ThreadPoolExecutor(1) as executor:
        run(plan, "the command", lab=FakeLab(peer=30.0), where=GPU, executor=executor, tell=said.append)
    return said


def test_what_is_measured_is_written_and_replaces_what_was(tmp_path: Path) -> None:
    said = ran(tmp_path, peers=(Peer("peer"),))
    path = tmp_path / "sgemm.jsonl"
    results, device = read(str(path))
    assert device == "NVIDIA H200"
    assert [r.case for r in results if r.subject == "peer"] == list(CASES)
    assert all(r.times is not None for r in results if r.subject == "peer")
    assert any(line.startswith("sgemm: 3 of 3 cases") for line in said)
    lines = path.read_text().splitlines()
    assert json.loads(lines[0])["command"] == "the command"
    ran(tmp_path, peers=(Peer("other"),))
    again = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(again) == len(lines)
    assert {line["subject"] for line in again} == {"best", "other"}


def test_time_that_is_up_leaves_cases_out(tmp_path: Path) -> None:
    said = ran(tmp_path, budget_s=0.0, peers=(Peer("peer"),))
    assert any(line.startswith("sgemm: 0 of 3 cases") for line in said)
    assert not (tmp_path / "sgemm.jsonl").exists()


def test_a_choice_that_takes_too_long_does_not_hold_the_session() -> None:
    never: Future[Any] = Future()
    begin = time.perf_counter()
    assert list(ready(CASES, dict.fromkeys(CASES, never), None, begin + 0.1)) == []
    assert time.perf_counter() - begin < 5
    lost: Future[Any] = Future()
    lost.set_exception(RuntimeError("the process died"))
    assert list(ready(CASES[:1], {CASES[0]: lost}, None, begin + 60)) == [CASES[0]]  # then it is chosen where it runs


def test_what_another_process_chose_is_what_best_gives() -> None:
    with ThreadPoolExecutor(1) as executor:
        tasks = submit(executor, CASES, "sm_80")
        found = list(ready(CASES, tasks, "sm_80", time.perf_counter() + 60))
    assert found == list(CASES)
    wanted = [tasks[case].result() for case in CASES]
    got = [choosing.choose(case.spec(), "sm_80") for case in CASES]
    assert [g.point for g in got] == [w.point for w in wanted if w is not None]


def test_without_a_gpu_it_compiles_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["session", "--suites", "sgemm", "--budget", "60", "--arch", "sm_80", "--results", str(tmp_path)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "sgemm: 3 of 3 cases" in said
    assert "nothing was timed: there is no GPU here" in said
    assert list(tmp_path.glob("*.jsonl")) == []


def test_options() -> None:
    plan = parsed(["--budget", "30", "--suites", "fused", "--vs", "--tune", "2", "--full", "9"])
    assert (plan.budget_s, plan.suites, plan.peers, plan.tuned, plan.full_s) == (30.0, ("fused",), (), 2, 9.0)
    assert set(session.ORDER) <= set(suites.SUITES)
    assert main(["session", "--suites", "nosuch"]) == 2


def test_a_share_of_the_drawn_cases() -> None:
    plan = parsed(["--suites", "dtypes-random", "sgemm", "--seed", "7", "--share", "0.1", "--no-exact"])
    everything = suites.drawn("dtypes-random", 7)
    assert plan.cases("dtypes-random") == everything[::10]
    assert len({case.dtype for case in everything[::10]}) == 5
    assert plan.cases("sgemm") == CASES  # nothing is drawn
    assert not plan.exact


def test_without_exact_results_are_compared_with_f64_alone(tmp_path: Path) -> None:
    hides = Peer("best", ours=True, wrong="loses a term")
    for exact, wrong in ((True, True), (False, False)):
        ran(tmp_path, ours=(hides,), peers=(), exact=exact)
        path = tmp_path / "sgemm.jsonl"
        assert path.exists() != wrong


def test_the_pages_hold_what_was_measured(tmp_path: Path) -> None:
    begin, end = readme.MARKS
    text = f"before\n{begin}\nold\n{end}\nafter\n"
    assert readme.section(tmp_path) == readme.headline(tmp_path) == readme.NONE
    ran(tmp_path, ours=(Peer("best", ours=True),), peers=(Peer("peer"),))
    new = readme.updated(text, readme.MARKS, readme.section(tmp_path))
    assert new.startswith(f"before\n{begin}\n")
    assert new.endswith(f"{end}\nafter\n")
    assert "On NVIDIA H200" in new
    assert "| `sgemm`: squares on CUDA cores | 3 |" in new
    assert "0.600 (0.60 to 0.60)" in new
    assert readme.updated(new, readme.MARKS, readme.section(tmp_path)) == new
    assert "| 64x64x32 f32 NN |" in readme.page(tmp_path)
    with pytest.raises(ValueError, match="has no"):
        readme.updated("nothing", readme.MARKS, "")
    (tmp_path / "sgemm.jsonl").rename(tmp_path / "headline.jsonl")
    assert "| 64x64x32 f32 NN | 50.0 us | 0.60 x |" in readme.headline(tmp_path)
    assert readme.section(tmp_path) == readme.NONE  # the headline has a table of its own


def test_the_tables_of_this_repository_are_current() -> None:
    assert readme.run(["--check"]) == 0
