"""The house: what a file may import, how long files are, and what `import fireiron` costs."""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = {
    "base": 0,
    "algebra": 1,
    "language": 2,
    "atoms": 3,
    "check": 4,
    "kernel": 5,
    "estimate": 6,
    "cuda": 6,
    "simulate": 6,
    "jit": 7,
    "verify": 8,
    "tune": 9,
    "show": 9,
    "front": 10,
    "graph": 11,
}
# What users import: these files may import everything.
ENTRIES = {"__init__", "__main__", "jax", "nn", "torch"}
MEDIAN_LINES = 200
# What a file of kernel/ may import besides its own room. Rules call passes, and passes read what rules know.
ROOMS = {
    "ir": (),
    "analysis": ("ir",),
    "lower": ("ir", "analysis", "passes"),
    "passes": ("ir", "analysis", "lower"),
}
IMPORT_LIMIT_MS = 150
# Of an installed package, whose bytecode is there.
INSTALLED_LIMIT_MS = 100
LAZY = ("cuda", "torch", "rich", "ml_dtypes")


def python_files(root: Path) -> Iterator[Path]:
    """List the package's files and the presets, each once."""
    yield from (path for path in sorted((root / "fireiron").rglob("*.py")) if "schedules" not in path.parts)
    yield from sorted((root / "schedules").rglob("*.py"))


def module_name(path: Path, root: Path) -> tuple[str, ...]:
    """Say under which name Python knows a file; presets are part of the package."""
    parts = path.relative_to(root).with_suffix("").parts
    return parts if parts[0] == "fireiron" else ("fireiron", *parts)


def imported(path: Path, root: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """List every module of the package that a file imports, wherever in the file, with its line."""
    package = module_name(path, root)[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                names = [tuple(alias.name.split(".")) for alias in node.names]
            case ast.ImportFrom():
                origin = tuple(node.module.split(".")) if node.module else ()
                if node.level:
                    origin = package[: len(package) - node.level + 1] + origin
                names = [(*origin, alias.name) for alias in node.names]
            case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[arg, *_]):
                if not (isinstance(arg, ast.Constant) and isinstance(arg.value, str)):
                    continue
                names = [tuple(arg.value.split("."))]
            case _:
                continue
        yield from ((node.lineno, name) for name in names if name[0] == "fireiron")


def why_refused(importer: tuple[str, ...], target: tuple[str, ...]) -> str | None:
    """Say why one module may not import another, or None."""
    source = importer[1]
    goal = target[1] if len(target) > 1 and target[1] in {*LAYERS, "schedules"} else "the public package"
    if source in ENTRIES:
        return None
    if source == "schedules":
        allowed = goal in {"the public package", "schedules", "front"}
        return None if allowed else f"presets may only use the public package, not {goal}"
    if source not in LAYERS:
        return f"fireiron/{source} is no known layer"
    if goal not in LAYERS:
        return f"{source} may not import {goal}"
    if source == goal == "kernel" and len(importer) > 3 and len(target) > 2:
        room, other = importer[2], target[2]
        if room in ROOMS and other in ROOMS and other not in (room, *ROOMS[room]):
            return f"kernel/{room} may not import kernel/{other}"
    if source != goal and LAYERS[goal] >= LAYERS[source]:
        return f"{source} (layer {LAYERS[source]}) may not import {goal} (layer {LAYERS[goal]})"
    return None


def violations(root: Path) -> list[str]:
    """List each import that goes against the layers, as `file:line: reason`."""
    return [
        f"{path.relative_to(root).as_posix()}:{line}: {reason}"
        for path in python_files(root)
        for line, target in imported(path, root)
        if (reason := why_refused(module_name(path, root), target))
    ]


def median_lines(root: Path) -> float:
    """Give the median of the files' lines."""
    return statistics.median(len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(root))


def test_files_import_only_from_lower_layers() -> None:
    assert violations(ROOT) == []


def test_files_are_short() -> None:
    assert median_lines(ROOT) < MEDIAN_LINES


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Build a small house of the same layers, so that only what a test plants can be found in it."""
    for name in ("fireiron", *(f"fireiron/{layer}" for layer in LAYERS), "schedules"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "fireiron/front/good.py").write_text("from fireiron.base import x\n")
    (tmp_path / "schedules/good.py").write_text("from fireiron import Schedule\n")
    return tmp_path


def test_a_sound_house_has_no_violations(house: Path) -> None:
    assert violations(house) == []


@pytest.mark.parametrize(
    ("file", "source", "reason"),
    [
        (
            "fireiron/base/bad.py",
            "from fireiron.algebra import layout",
            "base (layer 0) may not import algebra (layer 1)",
        ),
        ("fireiron/base/bad.py", "import fireiron.front.cli", "base (layer 0) may not import front (layer 10)"),
        ("fireiron/base/bad.py", "from fireiron import kernel", "base (layer 0) may not import kernel (layer 5)"),
        ("fireiron/base/bad.py", "from ..check import x", "base (layer 0) may not import check (layer 4)"),
        ("fireiron/base/bad.py", "import_module('fireiron.jit')", "base (layer 0) may not import jit (layer 7)"),
        (
            "fireiron/kernel/bad.py",
            "def f():\n    from fireiron.jit import x",
            "kernel (layer 5) may not import jit (layer 7)",
        ),
        (
            "fireiron/atoms/bad.py",
            "if TYPE_CHECKING:\n    import fireiron.tune",
            "atoms (layer 3) may not import tune (layer 9)",
        ),
        ("fireiron/kernel/ir/bad.py", "from fireiron.kernel.lower import x", "kernel/ir may not import kernel/lower"),
        (
            "fireiron/kernel/analysis/bad.py",
            "from fireiron.kernel.passes.x import y",
            "kernel/analysis may not import kernel/passes",
        ),
        ("fireiron/cuda/bad.py", "from fireiron.simulate import x", "cuda (layer 6) may not import simulate (layer 6)"),
        ("fireiron/show/bad.py", "from fireiron import Schedule", "show may not import the public package"),
        ("fireiron/attic/bad.py", "import fireiron.base", "fireiron/attic is no known layer"),
        (
            "schedules/bad.py",
            "from fireiron.language import specs",
            "presets may only use the public package, not language",
        ),
    ],
)
def test_a_planted_import_is_found(house: Path, file: str, source: str, reason: str) -> None:
    planted = house / file
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(source + "\n")
    assert violations(house) == [f"{file}:{source.count(chr(10)) + 1}: {reason}"]


def test_planted_long_files_are_found(house: Path) -> None:
    assert median_lines(house) < MEDIAN_LINES
    for i in range(100):
        (house / f"fireiron/base/long{i}.py").write_text("x = 1\n" * (MEDIAN_LINES + 1))
    assert median_lines(house) > MEDIAN_LINES


PROBE = """
import json, sys, time
start = time.process_time()  # other work on the machine does not count
import fireiron
print(json.dumps([(time.process_time() - start) * 1e3, sorted({name.split(".")[0] for name in sys.modules})]))
"""


def probe_import(prelude: str = "", bytecode: Path | None = None) -> tuple[float, list[str]]:
    """Import the package in a fresh interpreter: milliseconds beyond its start, and the top-level modules loaded."""
    script = PROBE.replace("import fireiron\n", f"{prelude}\nimport fireiron\n")
    told = {**os.environ}
    if bytecode is not None:
        told.pop("PYTHONDONTWRITEBYTECODE", None)
        told["PYTHONPYCACHEPREFIX"] = str(bytecode)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True, env=told
    )
    elapsed_ms, modules = json.loads(done.stdout)
    return elapsed_ms, modules


@pytest.mark.parametrize("installed", [False, True])
def test_import_is_quick(installed: bool, tmp_path: Path, slowness: Callable[[float], float]) -> None:
    limit_ms, bytecode = (INSTALLED_LIMIT_MS, tmp_path) if installed else (IMPORT_LIMIT_MS, None)
    probe_import(bytecode=bytecode)
    # Other work on a shared machine makes single runs slow, so one quiet round of twenty is enough.
    medians: list[float] = []
    for _ in range(20):
        medians.append(statistics.median(probe_import(bytecode=bytecode)[0] / slowness(limit_ms) for _ in range(5)))
        if medians[-1] < limit_ms:
            return
    pytest.fail(f"import fireiron took {medians} ms (medians, as if the machine were quiet), limit {limit_ms} ms")


HELP_LIMIT_MS = 200
# Layers that `--help` reads: what lowers, compiles, runs and draws is imported by the verb that needs it.
HELPERS = {"base", "algebra", "language", "check", "front", "tune"}


def test_help_is_quick(tmp_path: Path, slowness: Callable[[float], float]) -> None:
    """The whole process counts, its start too; on a shared machine the processor's time of the quickest of ten."""
    told = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    told.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "fireiron", "--help"]
    elapsed_ms: list[float] = []
    for _ in range(10):
        before = os.times()
        done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, check=True)
        after = os.times()
        spent_s = after.children_user - before.children_user + after.children_system - before.children_system
        elapsed_ms.append(spent_s * 1e3 / slowness(HELP_LIMIT_MS))
        assert "simulate" in done.stdout
        if len(elapsed_ms) > 1 and elapsed_ms[-1] < HELP_LIMIT_MS:
            return
    pytest.fail(f"fireiron --help took {elapsed_ms} ms of the processor, limit {HELP_LIMIT_MS} ms")


@pytest.mark.parametrize("words", ["--help", "--version", "completion words ch"])
def test_help_imports_no_layer_that_works(words: str) -> None:
    script = (
        "import sys, contextlib, io, json\nfrom fireiron.front.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): assert main({words.split()!r}) == 0\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    names = json.loads(done.stdout)
    assert {name.split(".")[1] for name in names if name.startswith("fireiron.")} <= HELPERS
    assert not {*LAZY, "numpy"} & {*names}


def test_import_loads_no_heavy_package() -> None:
    assert not {*LAZY} & {*probe_import()[1]}


def test_a_planted_heavy_import_is_found() -> None:
    assert "rich" in probe_import("import rich")[1]


LOADED = "import fireiron, sys; print(*(name for name in sys.modules if name.startswith('fireiron.')))"


def test_import_loads_what_chains_need_later() -> None:
    """Rules, residual specs, moves and architectures are loaded by the first chain that needs them."""
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    later = ("fireiron.check", "fireiron.language.residual", "fireiron.front.moves", "fireiron.algebra.arch")
    assert [name for name in done.stdout.split() if name.startswith(later)] == []


def test_what_is_loaded_later_is_what_a_type_checker_reads() -> None:
    """Each `Later("module", "name")` stands beside an import of the same, below `if TYPE_CHECKING`."""
    found = 0
    for path in python_files(ROOT):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if "Later(" not in path.read_text(encoding="utf-8"):
            continue
        read = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign):
                continue
            names, values = node.targets[0], node.value
            several = isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple)
            for name, value in zip(names.elts, values.elts, strict=True) if several else [(names, values)]:
                if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "Later":
                    module, *inside = [argument.value for argument in value.args]
                    wanted = (module, inside[0]) if inside else tuple(module.rsplit(".", 1))
                    assert read[name.id] == wanted, f"{path}:{node.lineno}"
                    found += 1
    assert found > 8
