"""Type checkers find a user's mistakes: wrong links, wrong names, wrong arguments."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

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
