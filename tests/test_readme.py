"""The README is short, its picture and torch code are real, its commands run; the links of all pages lead somewhere.

`test_docs.py` runs its Python.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from fireiron.front.cli import main
from fireiron.show import pictures

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.md"))]
FENCED = re.compile(r"^```([\w ]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = tuple((kind, body) for kind, body in FENCED.findall(TEXT))


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, with an empty cache and no GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def commands(text: str) -> list[str]:
    """List the commands in blocks of shell code; words in capitals stand for others."""
    lines = [line for kind, body in FENCED.findall(text) if kind == "sh" for line in body.splitlines()]
    return [line for line in lines if line.startswith("fireiron ") and not re.search(r" [A-Z]{2,} ", line)]


ALL_COMMANDS = list(dict.fromkeys(line for page in PAGES for line in commands(page.read_text(encoding="utf-8"))))


def test_it_is_read_in_two_minutes() -> None:
    assert len(TEXT.splitlines()) <= 200
    first_screen = TEXT[: TEXT.index("\n## Install")]
    assert "notebooks/pictures/tree.svg" in first_screen
    assert "import torch" in first_screen
    rows = [line for line in first_screen.splitlines() if line.startswith("| ") and "us |" in line]
    assert len(rows) == 3


def test_it_links_every_page() -> None:
    pages = [path.name for path in (ROOT / "notebooks").iterdir() if path.suffix in (".md", ".ipynb")]
    assert [name for name in sorted(pages) if f"](notebooks/{name})" not in TEXT] == []


@pytest.mark.parametrize("command", ALL_COMMANDS)
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


def test_the_picture_is_of_the_schedule_below(request: pytest.FixtureRequest) -> None:
    (source,) = [body for kind, body in BLOCKS if kind == "python" and "def gemm(spec)" in body]
    space: dict[str, Any] = {"__name__": "readme"}
    exec(compile(source.replace("print(", "str("), "schedule.py", "exec"), space)
    (target,) = re.findall(r"!\[[^]]*\]\(([^)]*)\)", TEXT)
    now = pictures.decomposition(space["schedule"]).svg()
    if request.config.getoption("--update-golden"):
        (ROOT / target).write_text(now, encoding="utf-8")
    assert (ROOT / target).read_text(encoding="utf-8") == now, "run pytest --update-golden, and look at the picture"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_torch_code_computes_a_layer_and_its_gradients() -> None:
    import torch  # pyright: ignore[reportMissingImports]

    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    (source,) = [body for kind, body in BLOCKS if kind == "python torch"]
    space: dict[str, Any] = {"__name__": "readme"}
    exec(compile(source, "schedule.py", "exec"), space)
    given = [space[name] for name in ("x", "weight", "bias")]
    wide = [t.detach().double().requires_grad_() for t in given]
    torch.nn.functional.gelu(torch.nn.functional.linear(*wide)).sum().backward()
    for ours, exact in zip(given, wide, strict=True):
        assert (ours.grad - exact.grad).norm() <= 0.01 * exact.grad.norm()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)]+)\)", prose)
    assert targets or page.stem != "README"
    for target in targets:
        if target.startswith(("http://", "https://")):
            continue
        name, _, place = target.partition("#")
        goal = (page.parent / name).resolve() if name else page
        assert goal.exists(), target
        assert goal.is_relative_to(ROOT), target
        if place:
            text = FENCED.sub("", goal.read_text(encoding="utf-8"))
            headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            assert place in {re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-") for h in headings}, target
