"""Results survive the file, regressions are told from noise, plots and tables say what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import attrs
import pytest
from fake_lab import FakeLab, Peer

from bench import SUITES, Case, measure, random100
from bench.ceilings import roof
from bench.compare import compare
from bench.plot import svg
from bench.results import Result, read, write
from bench.suites import suite
from bench.tables import heads, markdown, rows, summaries
from bench.timer import Times
from fireiron import FireironError
from fireiron.tune.machine import Machine

CASE = Case(1024, 1024, 1024, "f16", "TN")
H200 = Machine("NVIDIA H200", "sm_90a", driver="580.1", sm_mhz_max=1980)


def timed(subject: str, us: float, spread: float = 0.002, ours: bool = True, case: Case = CASE) -> Result:
    return Result("s", case, subject, ours, times=Times(us, us * (1 - spread), us * (1 + spread), 21, "events"))


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    found = measure([Case(24, 16, 8)], [Peer("ours", ours=True), Peer("bad", wrong="is off")], lab=FakeLab())
    path = str(tmp_path / "new" / "r.jsonl")
    write(path, [r.to_json(H200, "python -m bench", "now") for r in found])
    again, device = read(path)
    assert again == found
    assert device == "NVIDIA H200"
    line = json.loads(Path(path).read_text().splitlines()[0])
    assert line["machine"]["driver"] == "580.1"
    assert line["command"] == "python -m bench"
    assert "NaN" not in Path(path).read_text()


@pytest.mark.parametrize(
    ("text", "said"), [("{", ":1 is no result"), ('{"bench": 99}', "has format 99"), ("[]", "no result")]
)
def test_what_is_no_result_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(FireironError, match=said) as raised:
        read(str(path))
    assert raised.value.code == "not-results"


@pytest.mark.parametrize(
    ("us", "spread", "verdict"),
    [(101, 0.002, "noise"), (110, 0.002, "slower"), (90, 0.002, "faster"), (110, 0.06, "noise")],
)
def test_a_change_counts_where_it_exceeds_the_noise(us: float, spread: float, verdict: str) -> None:
    (change,) = compare([timed("ours", us, spread)], [timed("ours", 100, spread)])
    assert change.verdict == verdict
    assert change.against == ""


def test_ratios_cancel_a_slower_clock() -> None:
    old = [timed("ours", 100), timed("torch", 120, ours=False)]
    new = [timed("ours", 110), timed("torch", 132, ours=False)]
    (change,) = compare(new, old)
    assert (change.verdict, change.against) == ("noise", "torch")
    (change,) = compare([timed("ours", 110), timed("torch", 120, ours=False)], old)
    assert change.verdict == "slower"
    assert "ratio to torch" in str(change)


def test_subjects_come_go_and_fail() -> None:
    failed = attrs.evolve(timed("b", 1), times=None)
    changes = compare([timed("a", 1), failed], [timed("b", 1), timed("c", 1)])
    assert {(c.subject, c.verdict) for c in changes} == {("a", "new"), ("b", "fails"), ("c", "gone")}


def test_the_table_has_a_ratio_for_each_peer() -> None:
    results = [timed("ours", 100), timed("torch", 120, ours=False), timed("lt", 90, ours=False)]
    (line,) = rows(results, "NVIDIA H200")
    named = dict(zip(heads(results), line, strict=True))
    assert named["torch ratio"] == "1.200"
    assert named["lt ratio"] == "0.900"
    assert named["rate"] == "21.5 TFLOP/s"
    assert summaries(results)[0].startswith("ours against torch: geometric mean 1.200 of 1")
    assert markdown(results, "").count("\n") == 2


def test_the_roof_is_measured_or_absent() -> None:
    assert roof(CASE, "a GPU that nobody measured") is None
    deep, skinny = roof(Case(8192, 8192, 8192, "f16"), "NVIDIA H200"), roof(Case(1, 8192, 8192, "f16"), "NVIDIA H200")
    assert deep is not None
    assert skinny is not None
    assert (deep.bound, skinny.bound) == ("compute", "memory")


def test_plots_are_svg_with_a_point_for_each_ratio() -> None:
    results = [timed("ours", 100), timed("torch", 120, ours=False)]
    tree = ElementTree.fromstring(svg(results, "a <title>", "NVIDIA H200"))
    circles = [e for e in tree.iter() if e.tag.endswith("circle")]
    assert len(circles) == 1 + 2  # a ratio, and two points below the roof
    assert "nothing was timed" in svg([], "t", "")


def test_suites_are_data() -> None:
    assert random100() == random100(0) != random100(1)
    assert SUITES["gemm-random100"].cases == random100()
    assert all(128 <= n <= 4096 and n % 128 == 0 for c in random100() for n in (c.m, c.n, c.k))
    for each in SUITES.values():
        assert len(set(each.cases)) == len(each.cases)
        for case in each.cases[:3]:
            assert case.flops > 0
            assert case.spec().matmul.A.dtype.name == case.dtype
    with pytest.raises(FireironError) as raised:
        suite("nosuch")
    assert raised.value.code == "unknown-suite"
