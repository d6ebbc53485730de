"""The pages beside the notebooks: their code runs, their outputs are real, their links hold; the API reference."""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fireiron
from fireiron.front import chain, refinements
from fireiron.front.cli.options import VERBS
from fireiron.front.verbs import Schedule
from fireiron.show import pictures

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.md"))]
PARTS = re.compile(r"(^```\w+\n.*?^```$)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def filled(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a page's Python in order, and put what it prints into the text blocks that follow."""
    file, parts, printed = folder / "schedule.py", list[str](), ""
    space: dict[str, Any] = {"__name__": "page"}
    ran = False
    for part in PARTS.split(text):
        block = BLOCK.match(part)
        if block and block[1] == "python":
            file.write_text(block[2], encoding="utf-8")
            linecache.checkcache(str(file))
            exec(compile(block[2], str(file), "exec"), space)
            printed, ran = capsys.readouterr().out.rstrip("\n"), True
        elif block and block[1] == "text" and ran:
            part, ran = f"```text\n{printed}\n```", False
        elif part.strip():
            assert not (ran and printed), f"this is printed and not shown:\n{printed}"
            ran = False
        parts.append(part)
    return "".join(parts)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_what_its_code_prints(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    text = path.read_text(encoding="utf-8")
    now = filled(text, tmp_path, capsys)
    if request.config.getoption("--update-golden"):
        path.write_text(now, encoding="utf-8")
    assert now == text, f"{path.name} shows something else: run pytest --update-golden, and read what it writes"


def test_an_output_that_is_not_real_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = "```python\nprint(1 + 1)\n```\n```text\n3\n```\n"
    assert filled(page, tmp_path, capsys) == page.replace("3", "2")
    with pytest.raises(AssertionError, match="printed and not shown"):
        filled("```python\nprint(1)\n```\nprose\n", tmp_path, capsys)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_block_of_a_page_is_empty(path: Path) -> None:
    assert [match[0] for match in BLOCK.finditer(path.read_text(encoding="utf-8")) if not match[2].strip()] == []


TILES = (refinements.TileRefinements, chain.Tiled, chain.TiledProgram)
SPLITS, LOADS = (refinements.SplitRefinements,), (refinements.LoadRefinements,)


def public(*classes: type) -> set[str]:
    return {name for c in classes for name, x in vars(c).items() if inspect.isfunction(x) and not name.startswith("_")}


def test_the_language_page_has_every_picture() -> None:
    text = (ROOT / "notebooks/language.md").read_text(encoding="utf-8")
    for name in ("cuts", "timeline", "banks", "fragment"):
        assert f"pictures.{name}(" in text, name


def test_the_language_page_has_every_decomposition_and_refinement() -> None:
    text = (ROOT / "notebooks/language.md").read_text(encoding="utf-8")
    for name in public(chain.Chain, chain.FoldChain):
        assert re.search(rf"^## .*\b{name}\b", text, re.MULTILINE), name
    for name in public(*TILES, *SPLITS, *LOADS):
        assert f"`{name}(" in text, name


def test_our_words_for_theirs_exist() -> None:
    text = (ROOT / "notebooks/coming_from.md").read_text(encoding="utf-8")
    ours = [row.split("|")[2] for row in text.splitlines() if row.startswith("| ") and row.count("|") == 4]
    named = {name for cell in ours for name in re.findall(r"(\w+)\(", cell)} - {"schedule"}
    known = public(chain.Chain, chain.FoldChain, *TILES, *SPLITS, *LOADS, Schedule)
    assert len(named) > 15
    assert {
        name for name in named if name not in known and not hasattr(fireiron, name) and not hasattr(pictures, name)
    } == set()


def table(page: str, heading: str) -> list[list[str]]:
    """Read the first table below a heading, its header left out."""
    text = (ROOT / "notebooks" / page).read_text(encoding="utf-8")
    below = text[text.index(f"{heading}\n") :].splitlines()
    start = next(i for i, line in enumerate(below) if line.startswith("|---"))
    rows: list[list[str]] = []
    for line in below[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def test_the_language_table_names_every_decomposition_and_refinement() -> None:
    rows = table("tables.md", "## Decompositions")
    heads = {name for row in rows for name in re.findall(r"`(\w+)\(", row[0])} - {"microkernel"}
    assert heads == public(chain.Chain, chain.FoldChain)
    refined_by = {"tile": TILES, "split": SPLITS, "load": LOADS}
    named: dict[str, set[str]] = {}
    for row in rows:
        name = re.findall(r"`(\w+)\(", row[0])[0]
        named.setdefault(name, set()).update(re.findall(r"`(\w+)\(", row[3]))
    assert {name: refined for name, refined in named.items() if refined} == {
        name: public(*classes) for name, classes in refined_by.items()
    }


def test_the_strategies_exist() -> None:
    for row in table("tables.md", "## Strategies"):
        (name,) = re.findall(r"`(\w+)\(", row[0])
        assert callable(getattr(fireiron, name))


def test_the_verbs_exist() -> None:
    rows = table("cli.md", "## Verbs")
    called = {name for row in rows for name in re.findall(r"`(\w+)\(", row[0])} - {"schedule"}
    assert called == public(Schedule) - {"lowered", "flops"}
    commands = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert commands == {name for name, verb in VERBS.items() if verb.schedules}


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_layouts_are_as_stored(layout: str) -> None:
    rows = {row[0].strip("`"): row for row in table("tables.md", "## Layouts")}
    problem, extents = fireiron.matmul(64, 32, 16, layout=layout).matmul, {"M": 64, "N": 32, "K": 16}
    for tensor, cell in ((problem.A, rows[layout][2]), (problem.B, rows[layout][3])):
        ((name, first, second),) = re.findall(r"`(\w)\[(\w), (\w)\]`", cell)
        stored = tuple(tensor.shape[axis] for axis in tensor.storage)
        assert (name, stored) == (tensor.name, (extents[first], extents[second]))
    words = rows[layout][1].strip("`")
    assert fireiron.matmul(64, 32, 16, layout=words) == fireiron.matmul(64, 32, 16, layout=layout)
    a, b = words.split(",")
    assert [x.storage == (0, 1) for x in (problem.A, problem.B)] == [a == "row", b == "row"]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """Load the script that writes the reference."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / ".ci/reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_whole(reference: ModuleType, tmp_path: Path) -> None:
    assert reference.build(tmp_path) == []
    text = (tmp_path / "fireiron.front.chain.md").read_text(encoding="utf-8")
    for name in public(chain.FoldChain):
        assert f"### FoldChain.{name}\n" in text
    assert "(errors.md#tile-gaps)" in text
    assert "[`sizes`]" not in text  # an argument, and not the function of a preset of this name
    assert "[`split`](#foldchainsplit)" in text
    refined = (tmp_path / "fireiron.front.refinements.md").read_text(encoding="utf-8")
    for name in public(refinements.TileRefinements, refinements.SplitRefinements, refinements.LoadRefinements):
        assert f"Refinements.{name}\n" in refined
    assert "## level-nests" in (tmp_path / "errors.md").read_text(encoding="utf-8")


def test_a_broken_link_is_found(reference: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    text = "# One\n[there](#one) [away](https://example.org) [file](b.md) [place](#two)\n"
    assert reference.broken({page: text}) == ["a.md: b.md is not there", "a.md: #two names no heading"]


def test_a_code_that_nothing_raises_is_found(reference: ModuleType) -> None:
    from fireiron.front.catalogue import catalogue

    page = "**Raises**\n\n- `SpecError`: `no-such-thing`, `level-nests`.\n"
    assert reference.unknown_codes({"m": page}, catalogue()) == ["m: no-such-thing is raised nowhere"]


def test_ci_builds_the_reference() -> None:
    assert "python .ci/reference.py" in (ROOT / ".ci/run").read_text(encoding="utf-8")
