"""`python -m bench classes`: one table of drawn products, measured within budgets, each run going on with the rest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from fake_lab import FakeLab, Peer

from bench import Case, classes, suites
from bench.main import main
from bench.results import read

COMMIT = "0123456789abcdef"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the suites draw small products, and subjects multiply on the host."""

    def draw(seed: int) -> tuple[Case, ...]:
        return tuple(
            Case(8 * (1 + (seed + i) % 7), 16, 8 + 8 * i, kind) for i, kind in enumerate(("f32", "f64", "f32"))
        )

    for name in {each.suite for each in classes.CLASSES.values()}:
        monkeypatch.setitem(suites.SUITES, name, suites.Suite("small ones", draw(0), draw))
    monkeypatch.setattr(classes, "submit", lambda workers, cases, arch: {})
    monkeypatch.setattr(classes, "ready", lambda cases, tasks, arch, end: cases if end else ())


def ran(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str, wrong: str = "", **us: float
) -> tuple[int, list[str]]:
    refusing = {name: "refuses" for name in ("torch", "cublaslt", "torch.compile") if name not in us}

    def subject(name: str, arch: str | None = None) -> Peer:
        return Peer(name, ours=name == "best", wrong=wrong if name == "best" else refusing.get(name, ""))

    monkeypatch.setattr(classes, "subject", subject)
    said: list[str] = []
    with ThreadPoolExecutor(1) as executor:
        given = [*words, "--commit", COMMIT, "--results", str(folder)]
        code = classes.run(given, "it", lab=FakeLab(**us), executor=executor, tell=said.append)
    return code, said


def test_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, said = ran(monkeypatch, tmp_path, "ragged", "f64", best=40.0, torch=44.0, cublaslt=38.0)
    assert code == 0
    assert said[0] == f"seeds from {COMMIT}"
    assert said[1] == "ragged: 3 measured, 0 before, 0 left"
    assert said[-5:] == [
        "|---|---|---|---|---|---|---|---|---|",
        "| multiples of 8, four layouts, f16 and bf16 | 3 | torch | 1.100 | 1.06 | 1.100 | 0.98 | 0 | 0 |",
        "|  | 3 | cublaslt | 0.950 | 1.04 | 0.950 |  | 3 | 0 |",
        "| f64, four layouts | 1 | torch | 1.100 | 1.00 | 1.100 | 0.96 | 0 | 0 |",
        "|  | 1 | cublaslt | 0.950 | 1.00 | 0.950 |  | 1 | 0 |",
    ]


def test_the_fastest_peer_of_each_case_and_peers_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = {"best": 40.0, "torch": 60.0, "torch.compile": 50.0}
    _, said = ran(monkeypatch, tmp_path, "fused", "ragged", **words)
    assert said[-3] == (
        "| bias, gelu, silu or relu, and a residual | 3 | the fastest | 1.250 | 1.15 | 1.250 | 1.00 | 0 | 0 |"
    )
    assert said[-1] == "|  | 3 | cublaslt | - | 1.04 | - |  | - | 3 |"
    assert any("cublaslt: RuntimeError: cannot do it" in line for line in said)


def test_a_later_run_measures_what_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, said = ran(monkeypatch, tmp_path, "ragged", "--count", "1", best=40.0, torch=44.0, cublaslt=38.0)
    assert said[1] == "ragged: 1 measured, 0 before, 0 left"
    _, said = ran(monkeypatch, tmp_path, "ragged", best=40.0, torch=36.0, cublaslt=38.0)
    assert said[1] == "ragged: 2 measured, 1 before, 0 left"
    assert "| 3 | torch | 0.962 | 1.06 | 0.900 | 0.98 | 2 | 0 |" in said[-2]
    results, _ = read(str(tmp_path / "ragged.jsonl"))
    assert len({r.case for r in results}) == 3


def test_time_that_is_up_leaves_cases_for_the_next_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(classes, "ready", lambda cases, tasks, arch, end: ())
    _, said = ran(monkeypatch, tmp_path, "ragged", best=40.0, torch=44.0, cublaslt=38.0)
    assert said[1] == "ragged: 0 measured, 0 before, 3 left"
    assert said[-2].endswith("| 0 | torch | - | 1.06 | - | 0.98 | - | 0 |")


def test_wrong_results_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, said = ran(monkeypatch, tmp_path, "ragged", wrong="is off", best=40.0, torch=44.0, cublaslt=38.0)
    assert code == 1
    assert any("wrong" in line for line in said)


def test_the_draw_follows_from_the_commit() -> None:
    seeds = {classes.seed_of(commit, name) for commit in ("a", "b") for name in classes.CLASSES}
    assert len(seeds) == 2 * len(classes.CLASSES)
    which = classes.CLASSES["f32"]
    assert {case.dtype for case in which.cases(3)} == {"f32"}
    assert which.cases(3) != which.cases(4)
    assert which.cases(3, 1) == which.cases(3)[:1]
    assert all(suites.suite(each.suite).draw is not None for each in classes.CLASSES.values())
    assert attrs.has(classes.Class)


def test_without_a_gpu_it_compiles_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["classes", "f64", "--count", "1", "--commit", COMMIT, "--arch", "sm_80", "--results", str(tmp_path)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "f64: 1 measured, 0 before, 0 left" in said
    assert "nothing was timed: there is no GPU here" in said
    assert not list(tmp_path.glob("*.jsonl"))


def test_an_unknown_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classes", "nosuch", "--commit", COMMIT]) == 2
    assert "there is no class nosuch: use one of ragged, whole, layouts" in capsys.readouterr().err
