"""Numbers of chips stand in algebra/, beside their sources: the language and its rules know none."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "fireiron"
LEAST_LIMIT = 24
# What is no limit of a GPU, and why.
NO_LIMITS = {
    ("language/atom.py", 128): "bytes of swizzled rows",
    ("language/atom.py", 64): "as above",
    ("language/atom.py", 32): "as above",
    ("language/keys.py", 1024): "points of which a fold looks at each",
    ("language/levels.py", 128): "threads of a warpgroup: the programming model's",
    ("language/levels.py", 32): "lanes of a warp, as above",
    ("language/maps.py", 39): "the character '",
    ("language/meaning.py", 1024): "entries of a cache",
    ("language/meaning.py", 256): "as above",
    ("language/pointwise.py", 32): "bits of a type",
    ("language/reach.py", 30): "of an exponent: indices are smaller",
    ("language/tensor.py", 40): "of an exponent: strides are 64-bit integers",
    ("language/tensor.py", 31): "of an exponent: sizes are 32-bit integers",
    ("check/links.py", 64): "slots of a ring that lowering walks in pairs",
    ("check/parallel.py", 32): "lanes of a warp",
}


def numbers(root: Path) -> list[str]:
    """List the integers from 24 on that code says, as `file:line: number`."""
    found: list[str] = []
    for path in (path for part in ("language", "check") for path in sorted((root / part).rglob("*.py"))):
        place = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            value = node.value if isinstance(node, ast.Constant) else None
            if type(value) is int and value >= LEAST_LIMIT and (place, value) not in NO_LIMITS:
                found.append(f"{place}:{getattr(node, 'lineno', 0)}: {value}")
    return found


def test_no_number_of_a_chip_stands_in_the_language_or_the_rules() -> None:
    """Limits of a GPU are fields of an `Arch` or a `Machine`, or stand beside them in algebra/arch.py."""
    assert numbers(ROOT) == []


def test_a_number_of_a_chip_is_found(tmp_path: Path) -> None:
    for part in ("language", "check"):
        (tmp_path / part).mkdir()
    (tmp_path / "check" / "bad.py").write_text("def few(blocks: int) -> bool:\n    return blocks < 132\n")
    assert numbers(tmp_path) == ["check/bad.py:2: 132"]
