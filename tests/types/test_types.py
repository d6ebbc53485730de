"""Type checkers find a user's mistakes: wrong links, wrong names, wrong arguments."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jedi

from fireiron.front.offers import LINKS, REFINES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILE = HERE / "mistakes.py"
LINES = FILE.read_text(encoding="utf-8").splitlines()
WRONG = {i for i, line in enumerate(LINES, 1) if "  # wrong" in line}


def run(folder: Path, *command: str) -> str:
    """Run a checker where a user's file would be, on the package of this checkout."""
    env = {**os.environ, "MYPYPATH": str(ROOT), "NO_COLOR": "1"}
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, env=env, capture_output=True, text=True).stdout


def test_pyright(tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_text(FILE.read_text())
    settings = {"include": [FILE.name], "extraPaths": [str(ROOT)], "typeCheckingMode": "basic"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    told = json.loads(run(tmp_path, "pyright", "--outputjson", "--pythonpath", sys.executable))["generalDiagnostics"]
    found = {x["range"]["start"]["line"] + 1: x["message"] for x in told if x["severity"] == "error"}
    assert set(found) == WRONG, found


def test_mypy(tmp_path: Path) -> None:
    options = ("--follow-imports=silent", "--ignore-missing-imports", "--no-error-summary", "--no-namespace-packages")
    told = run(tmp_path, "mypy", *options, "--python-executable", sys.executable, str(FILE))
    found = {int(match[1]): match[2] for match in re.finditer(r"mistakes\.py:(\d+): error: (.*)", told)}
    assert set(found) == WRONG, told


def test_enough_mistakes_are_there() -> None:
    assert len(WRONG) >= 12


# What an editor offers on a chain besides links and refinements: data for those who write presets, and verbs.
DATA = {
    "batch", "computed", "flops", "function", "layers", "left", "links", "matmul", "meaning", "name", "portable",
    "products", "program", "residual", "right", "served_along_k", "sizes", "steps", "weights", "where",
    "whole_operands",
}  # fmt: skip
VERBS = {
    "check", "compile", "cuda", "diff", "estimate", "explain", "export", "facts", "lowered", "simulate", "studio",
    "time", "tree",
}  # fmt: skip


def test_editors_offer_no_internals() -> None:
    """Static completion reads annotations, and no `__dir__`."""
    source = "from fireiron import matmul\nfrom fireiron.schedules import simt\n"
    for chain in ("matmul(64, 64, 32)", "matmul(64, 64, 32).tile(32, 32)", "simt.sgemm(matmul(64, 64, 32))"):
        script = jedi.Script(f"{source}{chain}.", project=jedi.Project(str(ROOT)))
        offered = {found.name for found in script.complete() if not found.name.startswith("_")}
        assert offered >= {"check", "tree"}
        assert offered <= DATA | VERBS | LINKS | {*REFINES}, chain
