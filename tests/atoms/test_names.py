"""Only atoms/ names instructions: elsewhere nothing is decided by an instruction's name, nor by a family's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "fireiron"
FAMILY = re.compile(
    r"(wgmma|cp\.async|cp_async|tma|bulk|ldmatrix|stmatrix|movmatrix|mma|wmma|fma|dp4a|imad|shfl|redux|mbarrier|setmaxnreg"
    r"|ld\.peer|red\.add)(\.|$)"
)
# Methods whose text arguments choose or tell apart.
DECIDING = (
    "startswith",
    "endswith",
    "removeprefix",
    "replace",
    "chosen_from",
    "find",
    "matching",
    "has",
    "done",
    "get",
)
MODULES = (
    "fireiron.atoms",
    "fireiron.atoms.table",
    "fireiron.atoms.flights",
    "fireiron.atoms.meaning",
    "fireiron.atoms.written",
)
# Where a name may stand, and why.
ALLOWED = {
    ("front/moves.py", "ldmatrix"): "a strategy is named for the instruction that it asks for",
    ("front/moves.py", "movmatrix"): "as above",
    ("front/moves.py", "wmma"): "as above",
    ("front/moves.py", "cp.async"): "as above",
    ("front/attention.py", "mma"): "presets of attention are named for their instruction",
    ("front/attention.py", "wgmma"): "as above",
    ("jit/diagnose.py", "setmaxnreg"): "the word that ptxas prints",
}


def deciding(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """List the texts that something is decided by, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                found = [node.left, *node.comparators]
            case ast.MatchValue(value=value):
                found = [value]
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args) if name in DECIDING:
                found = args
            case ast.Dict(keys=keys):
                found = [key for key in keys if key is not None]
            case ast.ImportFrom(module=str(module)) if module.startswith("fireiron.atoms") and module not in MODULES:
                yield node.lineno, module.removeprefix("fireiron.atoms.")
                continue
            case _:
                continue
        for part in found:
            texts = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
            yield from (
                (text.lineno, text.value)
                for text in texts
                if isinstance(text, ast.Constant) and isinstance(text.value, str) and FAMILY.match(text.value)
            )


def named(root: Path) -> list[str]:
    """List the places outside atoms/ that decide by a name, as `file:line: name`."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if place.split("/")[0] in ("atoms", "schedules", "bench") or "mistakes" in place:
            continue
        for line, text in deciding(ast.parse(path.read_text(encoding="utf-8"))):
            if (place, text) not in ALLOWED:
                found.append(f"{place}:{line}: {text}")
    return found


def test_no_file_outside_atoms_decides_by_a_name() -> None:
    assert named(ROOT) == []


@pytest.mark.parametrize(
    "source",
    [
        'if atom.name.startswith("wgmma"): pass',
        'flies = atom.completion == "cp.async"',
        'flies = atom.completion in ("wgmma", BULK)',
        'match atom.name:\n    case "fma.f32": pass',
        'rows = chosen_from("ldmatrix")',
        'clocks = {"mma.m16n8k16.f32.f16": 16}',
        "from fireiron.atoms.tma import SPANS",
    ],
)
def test_a_planted_name_is_found(source: str, tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/planted.py").write_text(source)
    assert len(named(tmp_path)) == 1
