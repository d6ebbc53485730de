"""`python -m bench` without a GPU: it compiles, estimates, says that nothing was timed, and writes what it found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_lab import FakeLab, Peer

from bench import main as bench_main
from bench.main import main

SMALL = ["--shape", "64x64x32", "128x64x32"]


def test_nothing_is_timed_and_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, plot = tmp_path / "r.jsonl", tmp_path / "r.svg"
    assert main(["gemm", "simt.listing2", *SMALL, "-o", str(path), "--plot", str(plot)]) == 0
    said = capsys.readouterr().out
    assert "nothing was timed: there is no GPU here" in said
    assert "modelled us" in said
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["case"]["m"] for line in lines] == [64, 128]
    assert all("times" not in line and line["modelled_us"] > 0 for line in lines)
    assert plot.read_text().startswith("<svg")
    assert main(["table", str(path)]) == 0
    assert "| 64x64x32 f32 NN | simt.listing2 |" in capsys.readouterr().out


def test_peers_that_are_named_are_timed_or_missed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simt.listing2", "--shape", "64x64x32", "--vs"]
    assert main([*words, "torch"]) == 1
    assert "torch cannot be timed: there is no GPU here" in capsys.readouterr().err
    assert main([*words, "nonsense"]) == 2
    assert "there is no peer nonsense" in capsys.readouterr().err


def test_files_of_programs_become_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = Path(bench_main.__file__).parent / "results"
    for name, subject in (("programs", "add_gemm_gemm 4096"), ("rows", "softmax 12288x768")):
        lines = [json.loads(line) for line in (results / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        median = next(x["times"]["fireiron"]["median_us"] for x in lines if x["program"].startswith(subject))
        assert main(["table", str(results / f"{name}.jsonl")]) == 0
        assert re.search(rf"^\| {subject}.* \| {median:.2f} \| \d", capsys.readouterr().out, re.MULTILINE)
    broken = tmp_path / "programs.jsonl"
    broken.write_text('{"program": "softmax", "times": {"fireiron": 3}}')
    assert main(["table", str(broken)]) == 2
    assert "programs.jsonl:1 is no result of the bench" in capsys.readouterr().err


def test_json_stands_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simt.listing2", "--shape", "64x64x32", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["subject"] == "simt.listing2"


def test_a_function_in_a_file_is_a_schedule_or_a_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from fireiron.schedules import simt\n"
        "def schedule(spec): return simt.listing2(spec)\n"
        "def peer(a, b, out): out[...] = a @ b\n"
    )
    assert main([f"{file}:schedule", "--shape", "64x64x32"]) == 0
    assert main([f"{file}:peer", "--shape", "64x64x32"]) == 0
    assert "nothing-to-show" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nosuch"], "unknown-suite"),
        (["simt.nosuch"], "unknown-preset"),
        (["gemm", "--shape", "8x8"], "bad-shape"),
        (["gemm", "--shape", "8x8x8", "--dtype", "f7"], "unknown-dtype"),
        (["gemm", "--compare", "/nowhere.jsonl"], "no-such-file"),
        (["simt.listing2", "--shape", "64x64x32", "--plot", "x.pdf"], "not-svg"),
    ],
)
def test_mistakes_are_named(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) in (1, 2)
    assert f"[{code}]" in capsys.readouterr().err


def test_a_schedule_that_fails_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ampere.gemm", "--shape", "64x64x32", "--dtype", "f32"]) == 1
    assert "ampere.gemm" in capsys.readouterr().out


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "bench", "table", str(Path(bench_main.__file__).parent / "results/rows.jsonl")]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert bench.stdout is not None
    bench.stdout.close()
    _, err = bench.communicate()
    assert err == b""


def test_ctrl_c_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = bench_main.measure

    def measure(cases, subjects, options, suite, on_case):
        real(cases[:1], [Peer("ours", ours=True)], options, suite=suite, lab=FakeLab(), on_case=on_case)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_main, "measure", measure)
    path = tmp_path / "r.jsonl"
    assert main(["best", *SMALL, "-o", str(path)]) == 130
    assert len(path.read_text().splitlines()) == 1
    said = capsys.readouterr()
    assert "64x64x32" in said.out
    assert "interrupted after 1 of 2 cases" in said.err


def test_a_regression_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench_main.measure

    def at(us: float) -> None:
        def measure(cases, subjects, options, suite, on_case):
            real(cases, [Peer("ours", ours=True)], options, suite=suite, lab=FakeLab(ours=us), on_case=on_case)

        monkeypatch.setattr(bench_main, "measure", measure)

    path = tmp_path / "r.jsonl"
    at(50.0)
    assert main(["best", *SMALL, "-o", str(path)]) == 0
    assert main(["best", *SMALL, "--compare", str(path)]) == 0
    at(60.0)
    assert main(["best", *SMALL, "--compare", str(path)]) == 1
