"""NVTX ranges: one around each launch where the environment asks for them, none elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from fireiron import matmul
from fireiron.jit import launch
from fireiron.jit.bind import Binding
from fireiron.jit.interface import Interface
from fireiron.jit.ranges import VARIABLE, ranged
from fireiron.schedules import simt


class Nvtx(ModuleType):
    """Stand for the package: note what happens in ranges and outside."""

    def __init__(self, told: list[Any]) -> None:
        super().__init__("nvtx")
        self.told = told

    @contextmanager
    def annotate(self, name: str, domain: str) -> Iterator[None]:
        self.told.append(("begin", name, domain))
        yield
        self.told.append(("end", name, domain))


def test_launches_stand_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setitem(sys.modules, "nvtx", Nvtx(told))
    monkeypatch.setattr(launch, "_runner", lambda *given: lambda *words: told.append(words))
    monkeypatch.setattr(launch, "check_cluster", lambda *given: None)
    kernel = simt.listing2(matmul(64, 64, 16), 32, 32)
    interface = Interface.of(kernel.lowered())
    binding: Any = Binding({}, 4, 0)

    def run() -> None:
        launch.plan(interface, binding, None, None).run([1, 2, 3], [], 7)  # pyright: ignore[reportArgumentType]

    monkeypatch.delenv(VARIABLE, raising=False)
    run()
    assert told == [([1, 2, 3], [], 7)]
    monkeypatch.setenv(VARIABLE, "1")
    told.clear()
    run()
    assert told == [("begin", kernel.name, "fireiron"), ([1, 2, 3], [], 7), ("end", kernel.name, "fireiron")]


def test_nothing_stands_between_where_no_ranges_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*given: Any) -> None: ...

    for value in ("", "0"):
        monkeypatch.setenv(VARIABLE, value)
        assert ranged(run, "kernel") is run
