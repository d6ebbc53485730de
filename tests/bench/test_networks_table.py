"""`python -m bench networks-table`: one table of networks, each case in a process that is alone while it is timed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import networks_table, turns
from bench.main import main
from bench.networks_table import Work, cases, drawn, lines, said, summary

NOTES = "TABLE_NOTES"


def fake(work: Work, dtype: str, peers: tuple[str, ...], gate: Callable[[], None]) -> dict[str, Any]:
    """Stand for a network: the length says what goes wrong."""
    if work.length == 7:
        raise ValueError("a network of 7 tokens\nis none")
    if work.length == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    if work.length == 9:
        time.sleep(60)
    gate()
    if work.length == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    ratios = {peer: work.batch / 2 + n for n, peer in enumerate(peers)}
    line = {"program": f"{work.network} {dtype}", "times": {"fireiron": {"median_us": 1e3}}, "ratios": ratios}
    return line | {"kernels": 3, "compiled_s": 2.0, "kernels_us": {}}


def counting(work: Work, dtype: str, peers: tuple[str, ...], gate: Callable[[], None]) -> dict[str, Any]:
    """Write the time to a file until all processes do so, and `batch` tenths of a second more; then take a turn."""
    folder, me, end = Path(os.environ[NOTES]), os.getpid(), 0.0
    while not end or time.monotonic() < end:
        if not end and len(list(folder.glob("beat-*"))) == work.length:
            end = time.monotonic() + 0.1 * work.batch
        (folder / f"next-{me}").write_text(str(time.monotonic()))
        os.replace(folder / f"next-{me}", folder / f"beat-{me}")  # a reader sees the whole number
        time.sleep(0.005)
    gate()
    begin = time.monotonic()
    time.sleep(0.4)
    beats = [float(path.read_text()) for path in folder.glob("beat-*") if path.name != f"beat-{me}"]
    late = sum(beat > begin for beat in beats)
    return {"program": "it", "turn": (begin, time.monotonic()), "late": late}


def test_all_batches_and_lengths() -> None:
    found = cases(["bert-base", "gpt2"])
    assert len(found) == 9 + 12
    assert {w.length for w in found if w.network == "bert-base"} == {128, 384, 512}
    assert [str(w) for w in cases(["vit-b16"], 4)] == [f"vit-b16 {n}, 4 layers" for n in (1, 8, 32)]
    assert str(cases(["dlrm"], train=True)[0]) == "dlrm 2048 training"


def test_the_order_is_drawn_and_takes_networks_in_turn() -> None:
    works = cases(["bert-base", "gpt2", "distilbert"])
    order = drawn(works, "a")
    assert {w.network for w in order[:3]} == {"bert-base", "gpt2", "distilbert"}
    assert sorted(map(str, order)) == sorted(map(str, works))
    assert order == drawn(works, "a") != drawn(works, "b")


def test_cases_that_fail_die_or_hang_have_lines() -> None:
    works = [Work("a", 2, n) for n in (7, 8, 9, 1)]
    found = {line["case"]: line for line in lines(works, "f16", ("sdpa",), ["0"], 4, 60.0, 4.0, fake)}
    assert found["a 2x7"]["problem"] == "ValueError: a network of 7 tokens"
    assert found["a 2x8"]["problem"].startswith("the process died of SIGKILL")
    assert found["a 2x9"]["problem"] == "no answer within 4 s"
    assert found["a 2x1"]["ratios"] == {"sdpa": 1.0}


def test_a_process_that_dies_in_its_turn_leaves_nobody_stopped() -> None:
    works = [Work("a", 2, 10), *(Work("a", n, 1) for n in range(3))]
    found = list(lines(works, "f16", ("sdpa",), ["0"], 2, 60.0, 30.0, fake))
    assert len(found) == 4
    assert [line["case"] for line in found if "problem" in line] == ["a 2x10"]


def test_others_are_stopped_during_a_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(NOTES, str(tmp_path))
    works = [Work("a", n, 3) for n in (1, 20, 30)]
    found = list(lines(works, "f16", (), ["0"], 3, 60.0, 30.0, counting))
    spans = sorted(line["turn"] for line in found)
    assert len(spans) == 3
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert [line["late"] for line in found] == [0, 0, 0]


def test_without_a_stop_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(NOTES, str(tmp_path))
    works = [Work("a", n, 2) for n in (1, 20)]
    found = list(lines(works, "f16", (), ["0", "1"], 2, 60.0, 30.0, counting))  # each alone on another GPU
    assert max(line["late"] for line in found) == 1


def test_time_that_is_up_leaves_cases_out() -> None:
    begin = time.monotonic()
    assert list(lines([Work("a", 1, 9)], "f16", (), ["0"], 1, 1.0, 60.0, fake)) == []
    assert time.monotonic() - begin < 15


def test_a_turn_that_was_not_taken_is_not_given_back(tmp_path: Path) -> None:
    one = turns.Turns(tmp_path)
    one.join()
    one.over()
    other = turns.Turns(tmp_path)
    one.alone()
    other.wake()
    assert other._lock < 0
    one.over()
    assert not signal.alarm(0)


def test_the_command_writes_lines_and_a_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    works = [Work("a", 1, 1), Work("a", 4, 1), Work("b", 2, 7)]
    monkeypatch.setattr(networks_table, "cases", lambda *_, **__: works)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # no GPU is visible: the table names GPU 0
    words = ["--vs", "eager", "sdpa", "--jobs", "1", "-o", str(tmp_path / "table.jsonl")]
    assert networks_table.run(words, "it", fake) == 1
    told = capsys.readouterr().out.splitlines()
    assert "a 1x1: 1.000 ms, 3 kernels, compiled in 2 s; over eager 0.500, sdpa 1.500" in told
    assert "b 2x7: ValueError: a network of 7 tokens" in told
    assert told[-3:] == ["| a | 2 | 1.000 | 0.500 | 1 | 0 |", "| b | 0 | - | - | - | 1 |",
                         "| all | 2 | 1.000 | 0.500 | 1 | 1 |"]  # fmt: skip
    kept = [json.loads(line) for line in (tmp_path / "table.jsonl").read_text().splitlines()]
    assert {line["case"] for line in kept} == {"a 1x1", "a 4x1", "b 2x7"}
    assert all(line["command"] == "it" for line in kept)


def test_kernels_of_a_case_that_loses() -> None:
    line = {"case": "a 1", "times": {"fireiron": {"median_us": 1e3}}, "ratios": {"sdpa": 0.9}, "kernels": 1}
    line |= {"compiled_s": 1.0, "kernels_us": {"all kernels": 900.0, "gemm x12": 450.0}}
    assert said(line).splitlines()[1:] == ["  900.0 us all kernels", "  450.0 us gemm x12"]
    assert len(said({**line, "ratios": {"sdpa": 1.1}}).splitlines()) == 1
    assert summary([])[-1] == "| all | 0 | - | - | - | 0 |"


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(networks_table, "why_not_timed", lambda: "there is no GPU here")
    assert main(["networks-table"]) == 0
    assert "nothing was timed: there is no GPU here." in capsys.readouterr().out
    assert main(["networks-table", "--network", "alexnet"]) == 2
