"""A chain class that lies inside the package as far as links can tell, and modules written for one test."""

import importlib.util
import itertools
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fireiron
from fireiron.base import link

CHAIN = '''
from functools import cached_property
from fireiron.base.link import here

class Chain:
    """Record a link for each method, as schedules do."""
    def __init__(self, links=()):
        self.links = links
    def tile(self, *sizes):
        return Chain((*self.links, here()))
    def to(self, level):
        return self.tile(level)  # one method calls another: only the outer call is the user's
    def load(self, *args):
        return self.to(args)
    def __matmul__(self, other):
        return self.tile()
    def __call__(self, *args):
        return self.tile(*args)
    @cached_property
    def swapped(self):
        return self.tile()
    @property
    def link(self):
        return self.links[-1]
'''

Module = dict[str, Any]
Run = Callable[..., Module]
Write = Callable[..., Any]


@pytest.fixture
def run_as() -> Run:
    """Run source under a filename that need not exist; the source is known to linecache, as a notebook cell's is."""

    def run(filename: str, source: str, known: bool = True, **names: object) -> Module:
        if known:
            linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        module: Module = {"__name__": "module", **names}
        exec(compile(source, filename, "exec"), module)
        return module

    return run


@pytest.fixture
def chain(run_as: Run) -> Any:
    """Return an empty chain whose methods are internal to fireiron."""
    package = Path(next(iter(fireiron.__path__))).resolve()
    return run_as(str(package / "language" / "chain_for_tests.py"), CHAIN)["Chain"]()


@pytest.fixture
def preset(run_as: Run) -> Run:
    """Run source as a file of the preset folder."""

    def run(name: str, source: str, **names: object) -> Module:
        return run_as(str(Path(link.PRESETS) / name), source, **names)

    return run


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a real module in the current directory and import it."""
    monkeypatch.chdir(tmp_path)
    numbers = itertools.count()

    def write_and_import(name: str, source: str, **names: object) -> Any:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"written_{next(numbers)}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        vars(module).update(names)
        spec.loader.exec_module(module)
        return module

    return write_and_import
