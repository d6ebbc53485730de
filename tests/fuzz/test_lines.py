"""Command lines end well, or in words: a sample of `python -m tests.fuzz.lines`."""

from __future__ import annotations

import random
import secrets
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.fuzz import lines

LINES = 100
SECONDS = 30.0


def test_lines_of_a_fresh_seed() -> None:
    seed = int(secrets.token_hex(4), 16)
    outcome = lines.fuzz(seed, LINES, SECONDS)
    print(f"python -m tests.fuzz.lines --seed {seed}: {outcome}")
    assert not outcome.found, f"seed {seed}: {outcome}"
    assert outcome.counts["usage"] > outcome.counts["worked"] > 0


def test_a_seed_draws_the_same_lines_again() -> None:
    assert [lines.drawn(random.Random(i)) for i in range(9)] == [lines.drawn(random.Random(i)) for i in range(9)]


def _raise(words: object) -> int:
    raise KeyError("x")


def _print(text: str, code: int) -> Callable[[object], int]:
    def run(words: object) -> int:
        print(text, file=sys.stderr)
        return code

    return run


@pytest.mark.parametrize(
    ("main", "words", "site"),
    [
        (_raise, [], "KeyError fuzz/test_lines.py"),
        (_print("Traceback (most recent call last):", 1), [], "a traceback is printed"),
        (_print("", 1), [], "exit code 1 without a word"),
        (_print("no", 7), [], "exit code 7"),
        (_print("", 0), ["--json"], "no JSON"),
        (_print("\x1b[31m", 2), ["\x1b[31m"], "a control character reaches the terminal"),
    ],
)
def test_a_bad_end_is_a_finding(monkeypatch: pytest.MonkeyPatch, main: Any, words: list[str], site: str) -> None:
    monkeypatch.setattr(lines, "main", main)
    how, found = lines.attempt(words)
    assert how == "finding"
    assert found is not None
    assert found.site.startswith(site)
