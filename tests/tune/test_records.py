"""Records: appended, merged, safe from other writers and from a writer that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import helpers
import pytest
from helpers import record

from fireiron import FireironError
from fireiron.tune.problem import Problem
from fireiron.tune.record import FORMAT, Record
from fireiron.tune.records import append, merge, newest, read


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.jsonl"
    wanted = [
        record(3.25, warp=(64, 32), stages=3),
        record(None, m=1),
        record(problem=Problem(8, 8, 8, "f16", batch=3)),
    ]
    append(path, wanted)
    assert read(path).records == tuple(wanted)
    assert read(path).problems == ()
    line = json.loads(path.read_text().splitlines()[0])
    assert line["keywords"] == {"stages": 3, "warp": [64, 32]}


NOON, ONE = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"


def test_the_latest_counts() -> None:
    many, later = record(9.0, samples=40, when=NOON), record(10.0, samples=3, when=ONE)
    assert newest([many, later]) == newest([later, many]) == [later]
    assert newest([record(9.0), record(8.0)]) == [record(8.0)]  # of one time, the last line
    assert len(newest([record(None), record(None, m=3)])) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "is no record"),
        ('{"v": 1}', "is no record"),
        (json.dumps(record().to_json() | {"us": "fast"}), "us is 'fast', and no number"),
        (json.dumps(record().to_json() | {"problem": {"m": "big"}}), "is no record"),
        (json.dumps(record().to_json() | {"v": FORMAT + 1}), f"has format {FORMAT + 1}"),
        ("[1]", "is no record"),
    ],
)
def test_a_corrupt_line_is_told_and_left_out(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "r.jsonl"
    append(path, [record(m=1)])
    with path.open("a") as file:
        file.write(line + "\n")
    append(path, [record(m=2)])
    found = read(path)
    assert [r.point.keywords["m"] for r in found.records] == [1, 2]
    (problem,) = found.problems
    assert problem.startswith(f"{path}:2 ")
    assert said in problem


def test_a_line_cut_off_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    append(path, [record(m=1), record(m=2)])
    path.write_bytes(path.read_bytes()[:-40])
    assert "is cut off" in read(path).problems[0]
    append(path, [record(m=3)])
    assert [r.point.keywords["m"] for r in read(path).records] == [1, 3]


def start(script: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(Path(helpers.__file__).parent), *sys.path])
    return subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path})


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    writers = [start(f"import helpers; helpers.write_many({str(path)!r}, {w}, 100)") for w in range(3)]
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            merge(path, [])  # replaces the file under their hands
        time.sleep(0.02)
    found = read(path)
    assert found.problems == ()
    assert len(found.records) == 300


def test_a_writer_that_is_killed_loses_at_most_its_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    writer = start(f"import helpers; helpers.write_many({str(path)!r}, 0, 100000)")
    while not path.exists() or path.stat().st_size < 20_000:
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    lines = path.read_bytes().count(b"\n")
    append(path, [record(m=7)])
    found = read(path)
    assert len(found.problems) <= 1
    assert len(found.records) == lines + 1
    assert found.records[-1].point.keywords == {"m": 7}


def test_merging_keeps_each_thing_once(tmp_path: Path) -> None:
    one, two, out = (tmp_path / name for name in ("1.jsonl", "2.jsonl", "out.jsonl"))
    append(one, [record(10.0, samples=5, m=1), record(11.0, m=2)])
    append(two, [record(9.0, samples=50, m=1), record(8.0, device="NVIDIA Other GPU", m=1)])
    with two.open("a") as file:
        file.write("garbage\n")
    append(out, [record(12.0, m=3)])
    merged = merge(out, [one, two])
    assert len(merged.records) == 4
    assert len(merged.problems) == 1
    assert read(out).records == merged.records
    assert next(r for r in merged.records if r.point.keywords == {"m": 1} and r.device.endswith("Test GPU")).us == 9.0
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["no", "no\0file"])
def test_files_that_are_not_there(tmp_path: Path, name: str) -> None:
    for work in (lambda: read(tmp_path / name), lambda: merge(tmp_path / "out", [tmp_path / name])):
        with pytest.raises(FireironError) as raised:
            work()
        assert raised.value.code == "no-such-file"
    (tmp_path / "file").write_text("")
    with pytest.raises(FireironError) as raised:
        append(tmp_path / "file" / "r.jsonl", [record()])
    assert raised.value.code == "cannot-write"


def test_a_record_names_its_machine() -> None:
    facts = record().to_json()
    assert facts["machine"] == {"fireiron": "0.1.0"}
    assert Record.from_json(facts).version == "0.1.0"
