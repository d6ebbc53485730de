"""`python -m bench plans`: the model's first plan, and the fastest of its first ones, over a peer."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_lab import FakeLab, Peer

from bench import Case, plans, suites
from bench.main import main
from bench.measure import Options, measure
from bench.timer import SHORT_US

CASES = (Case(64, 64, 32, "f16", "TN"), Case(64, 32, 32, "f16", "TN"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.SUITES, "layouts", suites.Suite("small ones", CASES))


def ran(monkeypatch: pytest.MonkeyPatch, *words: str, wrong: str = "", **us: float) -> tuple[int, list[str]]:
    ours = [Peer(name, ours=True, wrong=wrong if name == "one" else "") for name in us if name != "peer"]
    monkeypatch.setattr(plans, "scheduled", lambda case, count, arch, apart: ours[:count])
    monkeypatch.setattr(plans, "compiled", lambda case, count, arch, apart, part: 0)
    monkeypatch.setattr(plans, "subject", lambda word: Peer("peer"))
    said: list[str] = []
    with ThreadPoolExecutor(1) as executor:
        code = plans.run(["layouts", *words], "it", lab=FakeLab(**us), executor=executor, tell=said.append)
    return code, said


def test_the_first_plan_and_the_fastest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    code, said = ran(monkeypatch, "-o", str(path), peer=30.0, one=40.0, two=24.0, three=25.0)
    assert code == 0
    assert said[0] == (
        "2 cases over peer: the first plan 0.750 (0.750 to 0.750), the fastest of 10 1.250 (1.250 to 1.250)"
    )
    assert said[1] == "  64x64x32 f16 TN: 0.750, plan 2 1.250"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["subject"] for line in lines] == ["one", "two", "three", "peer"] * 2
    assert {line["command"] for line in lines} == {"it"}


def test_no_more_plans_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = ran(monkeypatch, "--plans", "1", "--count", "1", peer=30.0, one=40.0, two=24.0)
    assert said[0].startswith("1 cases over peer: the first plan 0.750 (0.750 to 0.750), the fastest of 1 0.750")


def test_wrong_results_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = ran(monkeypatch, wrong="is off", peer=30.0, one=40.0)
    assert code == 1
    assert any("wrong" in line for line in said)


def test_graphs_are_left_out_on_demand() -> None:
    def timed(graphs: bool) -> Any:
        lab = FakeLab(one=SHORT_US / 2)
        (result,) = measure([CASES[0]], [Peer("one", ours=True)], Options(graphs=graphs), lab=lab)
        return result

    assert timed(True).events is not None
    assert timed(False).events is None
    assert timed(False).times is not None


def test_cases_without_plans_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.SUITES, "layouts", suites.Suite("one of CUDA cores", (Case(64, 64, 32), CASES[0])))
    assert main(["plans", "layouts", "--plans", "1"]) == 0
    out = capsys.readouterr().out
    assert "64x64x32 f32 NN: hopper.gemm has no plan for it" in out
    assert "2 cases, 1 plans compiled" in out


def test_no_plans_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plans", "layouts", "--plans", "0"]) == 2
    assert "--plans 0: time one plan at least" in capsys.readouterr().err


def test_random_sizes_are_drawn_by_a_seed() -> None:
    assert suites.drawn("fused-random100", 7, 3) == suites.random100(7, 3, ops="bias+relu")
    assert suites.drawn("gemm-random100", 7, 3) != suites.drawn("gemm-random100", 8, 3)
    assert suites.drawn("gemm-square", 7) == suites.suite("gemm-square").cases


def test_without_a_gpu_plans_compile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plans", "layouts", "--plans", "2", "--count", "1"]) == 0
    out = capsys.readouterr().out
    assert "1 cases, 2 plans compiled" in out
    assert "nothing was timed" in out


def test_plans_that_are_alike_are_left_out() -> None:
    case = Case(3184, 2032, 760, "bf16", "TN")
    alike, apart = (
        [each.values["plan"] for each in plans.scheduled(case, 10, None, apart=apart)] for apart in (False, True)
    )
    assert apart[0] == alike[0]
    assert len(apart) == 10
    for i, plan in enumerate(apart):
        for other in apart[:i]:
            same = attrs.evolve(plan, n=other.n, group=other.group, keep=other.keep) == other
            assert not same or abs(plan.n - other.n) >= plans.NEAR
    assert apart != alike
