"""Files of records that anyone may have written: a line costs itself alone, and no time is believed for ever."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from helpers import FakeMeasurer, record

from fireiron import FireironError, gemm, matmul
from fireiron.front import best as choosing
from fireiron.front.best import choose
from fireiron.front.cli import main
from fireiron.tune import records as files
from fireiron.tune.lookup import Index, load
from fireiron.tune.machine import Machine
from fireiron.tune.problem import Problem
from fireiron.tune.record import Record
from fireiron.tune.records import append, merge, newest, read, repair
from fireiron.tune.search import tune

H200 = "NVIDIA H200"
LEGAL: dict[str, Any] = {"m": 64, "n": 64, "k": 8, "warp": (32, 64), "thread": (8, 8), "stages": 2}
NOON, ONE, TWO = (f"2026-11-21T{hour}:00:00Z" for hour in (12, 13, 14))


def changed(**facts: Any) -> str:
    return json.dumps(record().to_json() | facts)


BAD = {
    "deep": "[" * 5000 + "]" * 5000,
    "deep keyword": changed(keywords={"m": json.loads("[" * 40 + "1" + "]" * 40)}),
    "wide": changed(keywords={f"k{i}": i for i in range(5000)}),
    "long": changed(source="x" * 100_000),
    "negative extent": changed(problem={"m": -1, "n": 64, "k": 64}),
    "huge extent": changed(problem={"m": 10**30, "n": 64, "k": 64}),
    "extent of a wrong type": changed(problem={"m": "64", "n": 64, "k": 64}),
    "truth for an extent": changed(problem={"m": True, "n": 64, "k": 64}),
    "unknown part of a problem": changed(problem={"m": 64, "n": 64, "k": 64, "colour": "red"}),
    "no object": "[1, 2, 3]",
    "a number": "7",
    "null": "null",
    "keywords of a wrong type": changed(keywords=[1, 2]),
    "machine of a wrong type": changed(machine="fast"),
    "huge keyword": changed(keywords={"m": 10**15}),
    "not a number": '{"v": 1, "us": NaN}',
    "infinite time": changed(us=1e999),
    "negative time": changed(us=-1.0),
    "text for a time": changed(us="1"),
    "text for samples": changed(samples="many"),
    "control characters": changed(device="NVIDIA\x1b[2J"),
    "control characters in a keyword": changed(keywords={"m": "\x1b]0;x\x07"}),
    "no time": changed(when="tomorrow"),
    "half a failure": json.dumps({**record(None).to_json(), "failure": {"stage": "run"}}),
    "no format": json.dumps({k: v for k, v in record().to_json().items() if k != "v"}),
    "another format": changed(v="1"),
    "bytes": "\udcff\udcfe",
    "digits": changed(us=1).replace('"us": 1', '"us": ' + "1" * 6000),
}


@pytest.fixture
def on_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_machine", lambda: Machine(H200, "sm_90a", driver="580.1", nvrtc="13.0"))
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)


@pytest.mark.parametrize("what", BAD)
def test_a_bad_line_costs_itself_alone(what: str, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    append(path, [record(m=1)])
    with path.open("ab") as file:
        file.write(BAD[what].encode(errors="surrogateescape") + b"\n")
    append(path, [record(m=2)])
    found = read(path)
    assert [r.point.keywords["m"] for r in found.records] == [1, 2]
    (said,) = found.problems
    assert said.startswith(f"{path}:2 ")
    assert said.isprintable()
    assert len(said) < 400
    assert len(found.broken) == 1


def test_products_go_on_beside_bad_lines(on_h200: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.encode(errors="surrogateescape") for line in BAD.values()]
    (tmp_path / "records.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    append(tmp_path / "records.jsonl", [record(device=H200, **LEGAL)])
    with pytest.warns(UserWarning, match="records.jsonl") as told:
        assert choose(matmul(512, 512, 512)).candidate.point.keywords == LEGAL
    assert len(told) <= 8  # the first are told, the others counted
    assert f"and {len(BAD) - 5} more" in str(told[-1].message)
    monkeypatch.setattr(choosing, "_machine", lambda: Machine("", "sm_90a"))
    choosing.forget()
    with pytest.warns(UserWarning, match="records.jsonl"):
        assert (gemm(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)) == 8).all()


def test_drawn_damage_is_met_line_by_line(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole = [json.dumps(record(10.0 + i, m=i, warp=(64, 32)).to_json()).encode() for i in range(300)]
    lines: list[bytes] = []
    for line in whole:
        damaged = bytearray(line)
        for _ in range(rng.randrange(4)):
            damaged[rng.randrange(len(damaged))] = rng.choice(b'{}[]":,0-9eE\x00\xff\x1bxn')
        lines.append(bytes(damaged))
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    found = read(path)
    intact = sum(a == b for a, b in zip(whole, lines, strict=True))
    assert len(found.records) >= intact
    index = Index(found.records)
    index.find(Problem(512, 512, 512), "NVIDIA Test GPU", "sm_90a")
    for each in found.records:
        assert Record.from_json(each.to_json()) == each
        assert each.schedule.isprintable()


@pytest.mark.parametrize("make", ["fifo", "folder", "link to nothing", "device"])
def test_what_is_no_file_is_told_and_not_waited_for(
    make: str, on_h200: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "odd.jsonl"
    match make:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link to nothing":
            path.symlink_to(tmp_path / "nothing")
        case _:
            path = Path("/dev/zero")
    monkeypatch.setenv("FIREIRON_RECORDS", str(path))
    begin = time.perf_counter()
    with pytest.raises(FireironError) as raised:
        read(path)
    assert raised.value.code == "no-such-file"
    if make not in ("link to nothing",):
        with pytest.raises(FireironError) as raised:
            append(path, [record()])
        assert raised.value.code == "cannot-write"
        assert "cannot be read" in " ".join(load()[1])
    assert time.perf_counter() - begin < 30
    assert choose(matmul(512, 512, 512)).schedule.residual.closed


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    append(path, [record(m=i) for i in range(200)])
    monkeypatch.setattr(files, "MOST_NBYTES", 20_000)
    found = read(path)
    assert 10 < len(found.records) < 200
    assert found.records[-1].point.keywords == {"m": 199}
    assert "its last lines are read" in found.problems[0]
    assert len(found.problems) == 1
    size = path.stat().st_size
    with pytest.raises(FireironError) as raised:
        merge(path, [])
    assert raised.value.code == "cannot-write"
    assert path.stat().st_size == size


def test_merging_keeps_what_it_cannot_read(tmp_path: Path) -> None:
    one, out = tmp_path / "1.jsonl", tmp_path / "out.jsonl"
    newer = json.dumps({"v": 2, "anything": ["new", {"deep": 1}]}, separators=(",", ": "))
    fields = json.dumps(record(5.0, m=9).to_json() | {"energy_j": 0.25, "tags": ["a"]})
    append(out, [record(12.0, m=3)])
    with out.open("a") as file:
        file.write(f"{newer}\nrubbish\n")
    one.write_text(f"{fields}\n{newer}\n")
    merged = merge(out, [one])
    assert len(merged.records) == 2
    lines = out.read_text().splitlines()
    assert lines.count(newer) == 1
    assert lines.count("rubbish") == 1
    kept = next(json.loads(line) for line in lines if "energy_j" in line)
    assert (kept["energy_j"], kept["tags"], kept["us"]) == (0.25, ["a"], 5.0)
    again = merge(out, [])
    assert len(again.records) == 2
    assert out.read_text().splitlines() == lines


def test_records_are_checked_and_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.jsonl"
    append(path, [record(m=1), record(0.001, m=2)])
    with path.open("a") as file:
        file.write('{"v": 9}\nrubbish\n' + BAD["control characters"] + "\n")
    assert main(["records", "check", str(path)]) == 1
    said = capsys.readouterr().out
    assert "2 records, 2 broken lines, 1 line of a newer format" in said
    assert f"{path}:4 is no record" in said
    assert "doubted, 0.001 us is less than any GPU takes" in said
    assert "\x1b" not in said
    assert main(["records", "repair", str(path)]) == 0
    assert f"broken lines are in {path}.broken now" in capsys.readouterr().out
    assert Path(f"{path}.broken").read_text() == "rubbish\n" + BAD["control characters"] + "\n"
    assert main(["records", "check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][str(path)] == {"records": 2, "broken": 0, "newer": 1}
    before = path.read_bytes()
    repair(path)
    assert path.read_bytes() == before
    with pytest.raises(FireironError, match="cannot be read"):
        repair(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_forged_time_does_not_serve_and_is_displaced(on_h200: None, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    honest = record(20.0, device=H200, when=NOON, **LEGAL)
    forged = [
        record(1e-6, samples=10**9, device=H200, when=TWO, **{**LEGAL, "k": 16}),
        record(10.0, device=H200, when="9999-01-01T00:00:00Z", **{**LEGAL, "k": 4}),
        attrs.evolve(record(11.0, device=H200, when=TWO, **{**LEGAL, "stages": 3}), p20=50.0, p80=60.0),
    ]
    append(path, [*forged, honest])
    found = choose(matmul(512, 512, 512))
    assert found.record == honest
    assert [bool(r.doubt) for r in (*forged, honest)] == [True, True, True, False]
    for each in forged:  # measured again, each makes way
        later = attrs.evolve(each, us=30.0, samples=50, when=ONE, p20=29.0, p80=31.0)
        assert newest([each, later]) == newest([later, each]) == [later]


def test_the_tuner_measures_doubted_records_again(tmp_path: Path) -> None:
    import helpers

    from fireiron.tune.candidates import preset

    name = preset(helpers.small).name
    where = attrs.asdict(helpers.GPU)
    versions = {key: where[key] for key in ("driver", "nvrtc", "fireiron")}
    spec = matmul(256, 256, 64)
    forged = attrs.evolve(
        record(1e-6, samples=10**9, problem=Problem(256, 256, 64), preset=name, m=32, n=128, k=8, when=NOON),
        machine=versions,
    )
    append(tmp_path / "records.jsonl", [forged])
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as here:
        tune(
            spec, helpers.small, space={"m": (32,), "n": (128,), "k": (8, 16)}, executor=here, budget_s=120,
            measurer=FakeMeasurer(lambda k: 10.0 + k["k"]),
        )  # fmt: skip
    (kept,) = (r for r in read(tmp_path / "records.jsonl").records if r.point == forged.point)
    assert kept.us == 18.0
    assert not kept.doubt


def test_times_of_other_software_do_not_mix() -> None:
    def of(us: float, when: str, driver: str, **more: Any) -> Record:
        return attrs.evolve(
            record(us, when=when, **more), machine={"driver": driver, "nvrtc": "13.0", "fireiron": "0.1.0"}
        )

    old, new = of(5.0, NOON, "535.1", m=1), of(9.0, ONE, "580.1", m=2)
    faster = of(8.0, NOON, "580.1", m=3)
    index = Index([old, new, faster])

    def first(driver: str) -> tuple[float | None, str]:
        found = index.find(Problem(512, 512, 512), "NVIDIA Test GPU", "sm_90a", (driver, "13.0", "0.1.0"))
        return found[0].record.us, found[0].why

    assert first("580.1") == (8.0, "recorded for this problem")
    assert first("535.1") == (5.0, "recorded for this problem")
    assert first("600.1") == (8.0, "recorded for this problem, with driver 580.1")  # the latest software measured
    same = [of(7.0, NOON, "580.1", m=4), of(12.0, ONE, "580.1", m=4), of(3.0, NOON, "535.1", m=4)]
    assert {r.us for r in newest(same)} == {12.0, 3.0}


def test_the_next_record_serves_where_the_fastest_is_not_legal(on_h200: None, tmp_path: Path) -> None:
    append(
        tmp_path / "records.jsonl",
        [record(9.0, device=H200, m=7, n=13), record(9.5, device=H200, **{**LEGAL, "stages": 3000}),
         record(10.0, device=H200, **LEGAL)],
    )  # fmt: skip
    begin = time.perf_counter()
    assert choose(matmul(512, 512, 512)).candidate.point.keywords == LEGAL
    assert time.perf_counter() - begin < 20


def test_a_record_shows_what_will_run_and_not_what_it_says(
    on_h200: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.jsonl"
    facts = record(10.0, device=H200, **LEGAL).to_json() | {"schedule": "rm(spec)\x1b[2J"}
    path.write_text(json.dumps(facts) + "\n")
    (found,) = read(path).records
    assert found.schedule == "simt.sgemm(spec, k=8, m=64, n=64, stages=2, thread=(8, 8), warp=(32, 64))"
    assert main(["records", "show", str(path)]) == 0
    said = capsys.readouterr().out
    assert "rm(spec)" not in said
    assert "\x1b" not in said


def test_messages_of_failures_are_one_printable_line() -> None:
    failed = attrs.evolve(record(None, m=1), failure=("compile", "nvrtc", "error:\n\x1b[31mred\ttext\r"))
    assert failed.failure == ("compile", "nvrtc", "error: ?[31mred text?")
    assert Record.from_json(failed.to_json()) == failed


def test_control_characters_never_reach_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from fireiron.front.cli.output import Answer, columns, pairs, report_error, row, show

    table = columns("a")
    row(table, "b\x1b[2J")
    show(Answer({}, ("a\x1b[2J\u202e\r", table, pairs({"k\x07": "v\x1b"}))), as_json=False)
    report_error(FireironError("some-code", "m\x1b]0;x\x07"), as_json=False)
    said = capsys.readouterr()
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(said.out + said.err)
    assert "?[2J" in said.out
