"""`python -m bench attention-forms` and `fit-attention`: forms of attention, and the model's constants from timings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from bench import attention_forms
from bench.attention_forms import cases, fitted, loss, read, run, run_fit
from fireiron.base.errors import UsageError
from fireiron.schedules._attention_clocks import FIT

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "attention-forms.jsonl"
CASE = {"shape": "1x48x300x64", "dtype": "f16", "causal": True}


def test_cases_follow_the_seed() -> None:
    assert cases(3, 5) == cases(3, 9)[:5] != cases(4, 5)


def test_without_a_gpu_forms_are_compiled_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(attention_forms, "forms", lambda case: [{**CASE, "groups": 2, "keys": 64}])
    monkeypatch.setattr(attention_forms, "why_not_timed", lambda: "there is no GPU")
    said: list[str] = []
    assert run(["--count", "1", "-o", str(tmp_path / "out.jsonl")], tell=said.append) == 0
    assert said[0].startswith("nothing was timed: there is no GPU")
    assert not (tmp_path / "out.jsonl").exists()


def test_the_choice_is_compared_with_the_fastest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [{**CASE, "groups": 2, "keys": keys} for keys in (64, 128)]

    def timed(given: Any, rounds: int, tell: Any) -> list[dict[str, Any]]:
        return [{**row, "us": us} for row, us in zip(given, (30.0, 20.0), strict=True)]

    monkeypatch.setattr(attention_forms, "forms", lambda case: rows)
    monkeypatch.setattr(attention_forms, "why_not_timed", lambda: "")
    monkeypatch.setattr(attention_forms, "compile_ahead", lambda tasks: None)
    monkeypatch.setattr(attention_forms, "_timed", timed)
    said: list[str] = []
    path = tmp_path / "out.jsonl"
    assert run(["--count", "2", "-o", str(path)], tell=said.append) == 0
    assert said == ["2 cases: the model's choice takes 1.500 times as long as the fastest form"]
    assert [json.loads(line)["us"] for line in path.read_text().splitlines()] == [30.0, 20.0] * 2


def test_the_constants_are_those_of_the_timings() -> None:
    timings = read([RESULTS])
    error, lost = loss(timings, FIT)
    assert FIT.timings == f"{len(timings)} timings"
    assert error < 0.065
    assert lost < 1.015
    worse = attrs.evolve(FIT, key=FIT.key * 2)
    assert loss(timings, worse)[0] > 2 * error


def test_a_fit_finds_a_changed_constant() -> None:
    timings = read([RESULTS])[::9]
    changed = attrs.evolve(FIT, key=FIT.key * 1.3)
    assert loss(timings, fitted(timings, changed))[0] < loss(timings, FIT)[0] + 0.01 < loss(timings, changed)[0] - 0.05


def test_files_without_timings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(UsageError) as caught:
        run_fit([str(tmp_path / "none.jsonl")])
    assert caught.value.code == "no-timings"
