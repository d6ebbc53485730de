"""Plans of CuPy arrays, by a stand-in: whose memory they take, and what no kernel computes."""

from __future__ import annotations

import functools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor, trace_graph


class ndarray(np.ndarray):
    """Stand in for CuPy's class."""

    def get(self) -> Any:
        """Copy to the host."""
        return np.array(self)


ndarray.__module__ = "cupy"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what is allocated or brought over, as it happens."""
    done: list[str] = []
    cupy: Any = ModuleType("cupy")

    def empty(nbytes: int, dtype: Any) -> Any:
        done.append("empty")
        return np.empty(nbytes, dtype).view(ndarray)

    def asarray(array: Any) -> Any:
        done.append("asarray")
        return np.asarray(array).view(ndarray)

    strided = functools.partial(np.lib.stride_tricks.as_strided, subok=True)
    cupy.empty, cupy.asarray = empty, asarray
    cupy.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=strided))
    cupy.ascontiguousarray = lambda x: np.ascontiguousarray(x).view(ndarray)  # pyright: ignore
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(synchronize=lambda: done.append("waited")))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return done


def test_a_plan_computes_in_the_memory_of_its_arrays(made: list[str]) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (32, 48)).astype(np.float16).view(ndarray)
    plan = trace_graph(lambda x: nn.relu(x) + x.sum(1, keepdims=True), tensor(32, 48, dtype="f16")).plan("sm_90a")
    right = np.maximum(x, 0) + x.sum(1, keepdims=True)
    for by_the_host in (False, True):
        if by_the_host:
            plan.runner.failed = set(range(len(plan.launches)))
        made.clear()
        found = plan(x)
        assert isinstance(found, ndarray)
        assert np.array_equal(found, right)
        assert "empty" in made
        assert ("asarray" in made) is by_the_host
