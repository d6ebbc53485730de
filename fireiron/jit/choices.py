"""Choices of the cost model, kept on disk: for a product that was chosen for before, the model does not run again.

One file holds the choice for one problem. Another version of fireiron does not read it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Mapping
from contextvars import ContextVar
from typing import Any

from fireiron.jit import folder
from fireiron.jit.cache import file_of, is_edited

SUFFIX = ".choice"
MOST_NBYTES = 1 << 20

_waiting: ContextVar[dict[str, Mapping[str, Any]] | None] = ContextVar("waiting", default=None)


@contextlib.contextmanager
def kept_together() -> Generator[None]:
    """Write the choices that are kept in this context at its end: the library's files are then looked at once."""
    if _waiting.get() is not None:
        yield
        return
    found: dict[str, Mapping[str, Any]] = {}
    token = _waiting.set(found)
    try:
        yield
    finally:
        _waiting.reset(token)
        keep_choices(found)


def kept_choice(problem: str) -> Mapping[str, Any] | None:
    """Return the kept choice for a problem, None where there is none.

    Args:
        problem: a text that says what is computed, and for which target.
    """
    waiting = _waiting.get() or {}
    if problem in waiting:
        return json.loads(json.dumps(waiting[problem]))
    path = file_of(problem, SUFFIX)
    try:
        data = b"" if path is None else folder.read_file(path)
        if path is None or len(data) > MOST_NBYTES:
            return None
        facts = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    folder.used(path)
    return facts  # pyright: ignore[reportUnknownVariableType]


def keep_choice(problem: str, facts: Mapping[str, Any]) -> None:
    """Keep a choice, given as plain data."""
    keep_choices({problem: facts})


def keep_choices(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep several choices, by the texts of their problems."""
    if (waiting := _waiting.get()) is not None:
        waiting.update(found)
        return
    if not found or is_edited():
        return
    for problem, facts in found.items():
        path = file_of(problem, SUFFIX)
        if path is None:
            return
        try:
            folder.write_file(path, json.dumps(facts).encode())
        except OSError:
            return  # the next process chooses anew


def drop_choice(problem: str) -> None:
    """Delete the kept choice for a problem."""
    (_waiting.get() or {}).pop(problem, None)
    path = file_of(problem, SUFFIX)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()
