"""`python -m bench build`: how long the parts of the authoring loop and of first calls take."""

from __future__ import annotations

import re

import pytest

from bench import Case, build
from bench.main import main


def test_first_calls_of_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "sgemm", "headline", "--count", "1", "--arch", "sm_80"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["sgemm", "headline", "all"]
    parts = r"\(choice (\d+), NVRTC (\d+)\), (\d+) at most; \d+ by the clock; from disk ([\d.]+) ms, .*"
    form = rf"\w+: (\d) first calls, (\d+) ms .* {parts}"
    for line in lines:
        found = re.fullmatch(form, line)
        assert found is not None, line
        count, whole, choice, compiler, most, read = map(float, found.groups())
        assert count == (2 if line.startswith("all") else 1)
        assert 0 < choice < whole <= most
        assert 0 < compiler < whole
        assert read < whole


def test_a_first_call_from_disk_compiles_nothing() -> None:
    case = Case(128, 128, 64, "f16", "TN")
    assert build.first_call(case, "sm_80")["compiler"] > 0
    from fireiron.front.best import forget

    forget()
    again = build.first_call(case, "sm_80")
    assert again["compiler"] == again["choice"] == 0


def test_an_unknown_suite() -> None:
    assert main(["build", "nosuch"]) == 2
