"""Candidates that spill or crash the installed compiler, kept on disk: later choices leave them out.

One file holds the texts of one problem's candidates, and the compiler. After a change of the compiler or of fireiron,
the candidates are tried again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from fireiron.jit import folder
from fireiron.jit.cache import file_of, is_edited
from fireiron.jit.compile import Compiler

SUFFIX = ".passed"
MOST_NBYTES = 1 << 16

_memory: dict[str, frozenset[str]] = {}  # of this process, which may be the one that cannot write
MOST_PROBLEMS = 4096


def passed_over(problem: str) -> frozenset[str]:
    """Return the texts of a problem's candidates that spill, or that crash the compiler.

    Args:
        problem: a text that says what is computed, and for which target.
    """
    found = _memory.get(problem)
    if found is None:
        found = _read(problem)
        _hold(problem, found)
    return found


def pass_over(problem: str, candidates: Iterable[str], compiler: Compiler) -> None:
    """Record candidates that spill, or that crash the compiler."""
    found = passed_over(problem).union(candidates)
    _hold(problem, found)
    path = file_of(problem, SUFFIX)
    if path is None or is_edited():
        return
    facts = {
        "version": compiler.version,
        "path": compiler.path,
        "digest": compiler.digest,
        "stamp": compiler.stamp,
        "passed": sorted(found),
    }
    try:
        folder.write_file(path, json.dumps(facts).encode())
    except OSError:
        return  # the next process tries the candidate again


def forget() -> None:
    """Drop the candidates that this process keeps in memory; the files stay."""
    _memory.clear()


def _hold(problem: str, candidates: frozenset[str]) -> None:
    if len(_memory) >= MOST_PROBLEMS:
        _memory.clear()
    _memory[problem] = candidates


def _read(problem: str) -> frozenset[str]:
    path = file_of(problem, SUFFIX)
    try:
        data = b"" if path is None else folder.read_file(path)
        if path is None or len(data) > MOST_NBYTES:
            return frozenset()
        facts = json.loads(data)
        compiler = Compiler(
            version=tuple(facts["version"]),
            path=str(facts["path"]),
            digest=str(facts["digest"]),
            stamp=tuple(tuple(int(x) for x in each) for each in facts["stamp"]),
        )
        candidates = frozenset(str(x) for x in facts["passed"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()
    if not compiler.is_current:
        return frozenset()
    folder.used(path)
    return candidates
