"""`fireiron tune`, `best` and `records` without a GPU: what they answer, and which mistakes they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import helpers
import pytest
from helpers import FakeMeasurer, record

from fireiron import best, tensor
from fireiron.front import best as choosing
from fireiron.front.cli import main
from fireiron.schedules import conv
from fireiron.tune import search
from fireiron.tune.problem import problem
from fireiron.tune.records import append, read

SMALL = f"{Path(helpers.__file__)}:small"


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> FakeMeasurer:
    measurer = FakeMeasurer(lambda k: float(k["m"] + k["n"] - k["k"]))
    monkeypatch.setattr(search, "GpuMeasurer", lambda *_: measurer)
    monkeypatch.setattr(search, "machine", lambda device: helpers.GPU)
    monkeypatch.setattr(FakeMeasurer, "close", lambda self: None, raising=False)
    return measurer


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_tune_finds_and_records(fake_gpu: FakeMeasurer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "mine.jsonl")
    words = ["tune", SMALL, "--shape", "128x128x32", "--space", "m=32,64", "--n", "64", "--records", path]
    code, data = answer(capsys, *words)
    assert code == 0
    (tuned,) = data["tuned"]
    assert tuned["best"]["keywords"] == {"m": 32, "n": 64, "k": 16}
    assert tuned["best"]["schedule"] == "small(spec, k=16, m=32, n=64)"
    assert {r.point.keywords["n"] for r in read(Path(path)).records} == {64}
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "small(spec, k=16," in said
    assert "ranked by the model" in said


CONV = ["conv.conv2d", "--shape", "4x8x8x64x64x3x3x64", "--pad", "1", "--dtype", "f16", "--arch", "sm_90a"]


def test_a_program_is_tuned_and_best_takes_its_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], fake_gpu: FakeMeasurer
) -> None:
    """What is computed is the program of the options, and the record that of this program."""
    fake_gpu.us = lambda k: 5.0 + abs((k["pixels"] or 99) - 64) + k["stages"]
    path = str(tmp_path / "mine.jsonl")
    words = ["--schedule", "mma", "--space", "pixels=64,128", "--space", "channels=64", "--space", "depth=32"]
    code, data = answer(capsys, "tune", *CONV, *words, "--stages", "2", "--warp", "32x64", "--records", path)
    assert code == 0
    (tuned,) = data["tuned"]
    assert tuned["best"]["schedule"] == "conv.mma(spec, channels=64, depth=32, pixels=64, stages=2, warp=(32, 64))"
    monkeypatch.setenv("FIREIRON_RECORDS", path)
    monkeypatch.setattr(choosing, "_machine", lambda: helpers.GPU)
    choosing.forget()
    try:
        x, f = tensor(4, 8, 8, 64, dtype="f16"), tensor(64, 3, 3, 64, dtype="f16", name="f")
        spec = conv.conv2d(x, f, pad=1, arch="sm_90a")
        assert best(spec).cuda() == conv.mma(spec, pixels=64, channels=64, depth=32, stages=2, warp=(32, 64)).cuda()
    finally:
        monkeypatch.undo()
        choosing.forget()


def test_a_program_is_tuned_over_the_presets_that_best_tries(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Any, Any]] = []

    def tune(spec: Any, presets: Any, **more: Any) -> search.Tuned:
        asked.append((more["names"], more["space"]))
        return search.Tuned(problem(spec), (), None, 0, {}, None, 0.0)

    monkeypatch.setattr(search, "tune", tune)
    code, data = answer(capsys, "tune", *CONV)
    assert code == 1  # nothing could be measured
    assert data["tuned"][0]["problem"]["kind"].startswith("conv2d #")
    assert answer(capsys, "tune", *CONV[:-1], "sm_80")[0] == 1
    assert asked == [(("conv.wgmma", "conv.mma", "conv.simt"), None), (("conv.mma", "conv.simt"), None)]


def test_an_interrupted_search_says_so(fake_gpu: FakeMeasurer, capsys: pytest.CaptureFixture[str]) -> None:
    fake_gpu.interrupt_after = 1
    code, data = answer(capsys, "tune", SMALL, "--shape", "128x128x32", "--space", "m=32,64", "--n", "64")
    assert code == 130
    assert data["interrupted"]
    assert data["tuned"][0]["measured"] == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["tune", "simt.listing2", "--shape", "64x64x64"], "empty-space"),
        (["tune", SMALL, "--space", "q=1"], "unknown-parameter"),
        (["tune", SMALL, "--space", "m="], "empty-space"),
        (["tune", SMALL, "--effort", "endless"], "unknown-effort"),
        (["tune", SMALL, "--suite", "nosuch"], "unknown-suite"),
        (["tune", *CONV, "--suite", "square"], "fixed-spec"),
        (["tune", *CONV, "--schedule", "mma", "--ways", "2"], "unknown-parameter"),
        (["tune", *CONV, "--space", "threads=7"], "unknown-parameter"),
        (["tune", "conv.conv2d", "--shape", "4x8"], "bad-shape"),
        (["tune", "rows.softmax"], "empty-space"),
        (["tune", SMALL, "--shape", "MxNxK"], "unknown-size"),
        (["best", "--dtype", "f7"], "unknown-dtype"),
        (["best", "--records", "/nowhere"], "no-such-file"),
        (["records", "merge", "one"], "one-file"),
        (["records", "show", "/nowhere"], "no-such-file"),
    ],
)
def test_mistakes_are_named(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_best_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    shape = ["--shape", "512x512x512", "--arch", "sm_90a"]
    code, data = answer(capsys, "best", *shape)
    assert (code, data["record"]) == (0, None)
    assert "not measured" in data["why"]
    choosing.forget()
    path = tmp_path / "other.jsonl"
    append(path, [record(m=64, n=64, k=8, warp=(32, 64), thread=(8, 8), stages=2)])
    assert main(["best", *shape, "--records", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "simt.sgemm(spec, k=8, m=64, n=64, stages=2, thread=(8, 8), warp=(32, 64))" in said
    assert "10.00 us on NVIDIA Test GPU, 5 samples" in said


def test_records_are_merged_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, out = (str(tmp_path / name) for name in ("1.jsonl", "2.jsonl", "out.jsonl"))
    append(Path(one), [record(10.0, m=1), record(None, m=3)])
    append(Path(two), [record(9.0, m=2)])
    assert main(["records", "merge", out, one, two]) == 0
    assert "holds 3 records" in capsys.readouterr().out
    assert main(["records", "show", out]) == 0
    said = capsys.readouterr().out
    assert "2 times of 1 problem, 1 failure" in said
    assert "9.00" in said
