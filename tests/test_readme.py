"""The README's code runs, its outputs are real, its tables name what exists, and its commands are those of CI."""

from __future__ import annotations

import inspect
import linecache
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from fireiron.front import chain, elementwise, matmul, moves
from fireiron.front.cli import main
from fireiron.front.cli.options import VERBS
from fireiron.front.verbs import Verbs

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = tuple((kind, body) for kind, body in FENCED.findall(TEXT))
PROSE = FENCED.sub("", TEXT)


def public(*classes: type) -> set[str]:
    """List the methods that classes define themselves."""
    return {name for c in classes for name, x in vars(c).items() if inspect.isfunction(x) and not name.startswith("_")}


def table(heading: str) -> list[list[str]]:
    """Read the first table below a heading, its header left out."""
    below = TEXT[TEXT.index(f"{heading}\n") :].splitlines()
    start = next(i for i, line in enumerate(below) if line.startswith("|---"))
    rows: list[list[str]] = []
    for line in below[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def run_blocks(blocks: tuple[tuple[str, str], ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run Python blocks in order, in one namespace; list what was printed where a text block follows and differs."""
    # Each block is written down, for errors print the line that a link stands on.
    file, wrong = folder / "schedule.py", list[str]()
    space: dict[str, Any] = {"__name__": "readme"}
    for i, (kind, body) in enumerate(blocks):
        if kind != "python":
            continue
        file.write_text(body, encoding="utf-8")
        linecache.checkcache(str(file))
        exec(compile(body, str(file), "exec"), space)
        printed = capsys.readouterr().out.rstrip("\n")
        shown = blocks[i + 1][1].rstrip("\n") if i + 1 < len(blocks) and blocks[i + 1][0] == "text" else ""
        if printed != shown:
            wrong.append(printed)
    return wrong


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, with an empty cache and no GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_python_runs_and_prints_what_is_shown(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [kind for kind, _ in BLOCKS].count("text") >= 2
    assert run_blocks(BLOCKS, nowhere, capsys) == []


def test_an_output_that_is_not_real_is_found(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_blocks((("python", "print(1 + 1)\n"), ("text", "3\n")), nowhere, capsys) == ["2"]
    with pytest.raises(ZeroDivisionError):
        run_blocks((("python", "1 / 0\n"),), nowhere, capsys)


COMMANDS = [line for kind, body in BLOCKS if kind == "sh" for line in body.splitlines() if line.startswith("fireiron ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, nowhere: Path) -> None:
    # doctor's exit code says what the machine lacks.
    assert main(shlex.split(command)[1:]) == 0 or command == "fireiron doctor"


def test_the_first_command_runs_a_preset(nowhere: Path) -> None:
    (command,) = [x for kind, body in BLOCKS if kind == "sh" for x in body.splitlines() if "-e . " in x]
    *_, run = command.split(" && ")
    assert run.startswith(".venv/bin/fireiron ")
    assert main(shlex.split(run)[1:]) == 0


def test_ci_calls_the_test_command() -> None:
    (command,) = [x for kind, body in BLOCKS if kind == "sh" for x in body.splitlines() if "pytest" in x]
    make, enter, *steps = command.split(" && ")
    assert (make, enter) == ("python3 -m venv .venv", ". .venv/bin/activate")
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    for step in steps:
        assert any(line.startswith("step ") and step in line for line in lines), step


def test_the_language_table_names_every_decomposition_and_refinement() -> None:
    rows = table("## The language")
    heads = {name for row in rows for name in re.findall(r"`(\w+)\(", row[0])} - {"microkernel"}
    assert heads == public(matmul.MatMulChain, moves.MoveChain, elementwise.ElementwiseChain)
    splits = (chain.SplitRefinements, matmul.SplitMatMul)
    refinements = {"tile": (chain.TileRefinements,), "split": splits, "load": (chain.LoadRefinements,)}
    named: dict[str, set[str]] = {}
    for row in rows:
        name = re.findall(r"`(\w+)\(", row[0])[0]
        named.setdefault(name, set()).update(re.findall(r"`(\w+)\(", row[3]))
    assert {name: refined for name, refined in named.items() if refined} == {
        name: public(*classes) for name, classes in refinements.items()
    }


def test_the_strategies_exist() -> None:
    import fireiron

    for row in table("A **strategy** is a function from a Move to a finished Move, a lambda or one of these:"):
        (name,) = re.findall(r"`(\w+)\(", row[0])
        assert callable(getattr(fireiron, name))


def test_the_verbs_exist() -> None:
    rows = table("### Verbs")
    called = {name for row in rows for name in re.findall(r"`(\w+)\(", row[0])} - {"schedule"}
    assert called == public(Verbs) - {"lowered", "flops"}
    commands = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert commands == {name for name, verb in VERBS.items() if verb.schedules}


def test_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", PROSE, re.M)
    }
    targets = re.findall(r"\]\(([^)]+)\)", PROSE)
    assert targets
    for target in targets:
        if target.startswith("#"):
            assert target[1:] in headings
        elif not target.startswith(("http://", "https://")):
            assert (ROOT / target).exists(), target


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_layouts_are_as_stored(layout: str) -> None:
    from fireiron import matmul as spec

    rows = {row[0].strip("`"): row for row in table("### Layouts")}
    problem, extents = spec(64, 32, 16, layout=layout).matmul, {"M": 64, "N": 32, "K": 16}
    for tensor, cell in ((problem.A, rows[layout][1]), (problem.B, rows[layout][2])):
        ((name, first, second),) = re.findall(r"`(\w)\[(\w), (\w)\]`", cell)
        stored = tuple(tensor.shape[axis] for axis in tensor.storage)
        assert (name, stored) == (tensor.name, (extents[first], extents[second]))
