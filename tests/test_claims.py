"""Each claim of `notebooks/claims.md` is shown: its commands run, and the tests and suites that it names are there.

`test_docs.py` runs the page's Python, `test_readme.py` follows its links.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bench.main import main as bench
from fireiron.front.cli import main
from fireiron.jit import nvrtc12

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "notebooks/claims.md").read_text(encoding="utf-8")
TITLES = ("Fireiron", "Graphene", "The Volta", "TVM", "MindSpore")
TABLES = {
    title: [
        [cell.strip() for cell in row.strip("|").split(" | ")]
        for row in TEXT[TEXT.index(f"\n## {title}") :].split("|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    ]
    for title in TITLES
}
ROWS = [row for rows in TABLES.values() for row in rows]
VERDICTS = ("works", "H200", "partly", "missing")
CODE = [code for row in ROWS for code in re.findall(r"`([^`]+)`", row[2])]
NEEDS_A_GPU = ("fireiron tune",)
COMMANDS = list(dict.fromkeys(x for x in CODE if x.startswith("fireiron ") and not x.startswith(NEEDS_A_GPU)))
SLOW = ("fireiron compile", "fireiron best")  # seconds each, where the others take less than one
TESTS = sorted({x for x in CODE if x.startswith("tests/")})


def test_the_tables_have_every_claim_with_a_verdict() -> None:
    assert [len(rows) for rows in TABLES.values()] == [16, 49, 34, 21, 26]
    assert [row for row in ROWS if len(row) != 3 or row[1] not in VERDICTS or not row[2]] == []


def test_verdicts_are_counted() -> None:
    counted = {
        line.split(" | ")[0].strip("| "): [int(x) for x in line.strip("|").split(" | ")[1:]]
        for line in TEXT[TEXT.index("| document |") :].split("\n\n")[0].splitlines()[2:]
    }
    found = [[[row[1] for row in rows].count(verdict) for verdict in VERDICTS] for rows in TABLES.values()]
    assert list(counted.values()) == [*found, [sum(column) for column in zip(*found, strict=True)]]


@pytest.mark.parametrize(
    "command",
    [pytest.param(x, marks=pytest.mark.exhaustive) if x.startswith(SLOW) else x for x in COMMANDS],
)
def test_a_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if command.startswith("fireiron compile") and "sm_70" in command and nvrtc12.find() is None:
        pytest.skip(f"NVRTC 12 is not installed: {nvrtc12.INSTALL}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
    assert main(shlex.split(command)[1:]) == 0


@pytest.mark.parametrize("named", TESTS)
def test_a_test_is_there(named: str) -> None:
    path, _, function = named.partition("::")
    assert (ROOT / path).exists()
    assert not function or f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


def test_suites_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    bench(["--help"])
    known = set(re.findall(r"^  ([\w-]+) ", capsys.readouterr().out, re.MULTILINE))
    named = {x.split()[3] for x in CODE if x.startswith("python -m bench ")}
    assert named
    assert named - known == set()
