"""A work's line: ratios over ours, words by its rate, and a wrong result that is not lost."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from bench import lines, timer


@attrs.frozen
class Median:
    median_us: float


class Clock:
    def burst(self, launches: dict[str, object], rounds: int, budget_s: float) -> dict[str, Median]:
        return {name: Median(10.0 * (i + 1)) for i, name in enumerate(launches)}


def test_ratios_are_of_the_others_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "TorchTimer", Clock)
    found = lines.compared({"fireiron": lambda: None, "copy": lambda: None, "torch": lambda: None}, 3, 1.0)
    assert found["ratios"] == {"copy": 2.0, "torch": 3.0}
    assert (
        lines.words({"program": "sum", "nbytes": 1e6, **found})
        == "sum: 10.0 us, 100 GB/s; over copy 2.000, torch 3.000"
    )
    assert "; over copy" in lines.words({"program": "sum", "flops": 1e6, **found})
    assert ", 0.1 TFLOP/s;" in lines.words({"program": "sum", "flops": 1e6, **found})


def test_a_wrong_result_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.jsonl"
    assert lines.report([{"program": "sum", "registers": 20}], None, "bench")
    assert not lines.report(
        [{"program": "sum", "problem": "wrong: 2"}, {"program": "b", "registers": 1}], str(path), "bench"
    )
    assert capsys.readouterr().out.splitlines() == ["sum: 20 registers", "sum: wrong: 2", "b: 1 registers"]
    assert len(path.read_text().splitlines()) == 2
