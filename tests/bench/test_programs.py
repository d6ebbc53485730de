"""`python -m bench programs` without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.main import main


def test_programs_compile_and_nothing_is_timed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    assert main(["programs", "mlp", "-o", str(path)]) == 0
    said = capsys.readouterr().out
    assert "mlp 4096x128, 20 layers: " in said
    assert "nothing was timed" in said
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["program"] for line in lines] == ["mlp 4096x128, 20 layers", "mlp 65536x128, 20 layers"]
    assert all("times" not in line for line in lines)
    assert {line["command"] for line in lines} == {"python -m bench programs mlp -o found.jsonl"}, "of any machine"


def test_commands_are_kept_without_the_folders_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr("bench.main._run", lambda options, command: kept.append(command) or 0)
    main(["sgemm", "/mine/own.py:fast", "--output=/mine/found.jsonl"])
    main(["sgemm", "own.py:fast", "-o", "results/found.jsonl"])
    assert kept == [
        "python -m bench sgemm own.py:fast --output=found.jsonl",
        "python -m bench sgemm own.py:fast -o results/found.jsonl",
    ]


def test_an_unknown_program_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["programs", "nothing"]) == 2
    assert "there is no program nothing: use add_gemm_gemm" in capsys.readouterr().err
