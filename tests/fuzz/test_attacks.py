"""A sample of the attacks on what processes share; `python -m tests.fuzz.attacks` runs all."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz import attacks


def test_attacks_lose_nothing() -> None:
    """In a process of its own: it forks."""
    command = [sys.executable, "-m", "tests.fuzz.attacks", "--times", "0.02"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2])
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert {line.partition(":")[0] for line in run.stdout.splitlines()[1:]} == {
        name.__name__.replace("_", " ") for name in attacks.ATTACKS
    }


@pytest.mark.parametrize("what", ["WRONG", "LOST", "GREW by 80 MiB"])
def test_what_was_lost_fails_the_command(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["attacks"])
    monkeypatch.setattr(attacks, "attack", lambda *_: Counter({("builds", what): 1}))
    assert attacks.main() == 1
    monkeypatch.setattr(attacks, "attack", lambda *_: Counter({("builds", "right"): 1}))
    assert attacks.main() == 0
