"""Memory of calls: arrays are released behind their last readers, and no layout is copied that strides express."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.graph.common import share
from fireiron.graph.motion import move, raise_reshapes
from fireiron.graph.nodes import Builder
from fireiron.graph.plan import BEFORE, last_reads, plan
from fireiron.graph.run import NumPy
from fireiron.graph.trace import trace_graph

Watch = Callable[[], None]


def watched(see: Watch) -> Any:
    """Make a graph of two sums, between which a call of a library looks which arrays are left."""
    b = Builder()
    x, y = (b.input(name, (8, 64), fi.f32) for name in "xy")
    first = b.add(
        "foreign", b.add("mul", x, x), label="look", call=lambda a: (see(), a)[1], shape=(8, 64), dtype=fi.f32
    )
    return b.graph("watched", [b.add("add", b.add("exp", first), y)]).plan()


def test_arrays_are_released_behind_their_last_reader() -> None:
    alive: list[list[bool]] = []
    refs: list[Any] = []

    def look() -> None:
        gc.collect()  # a simulation leaves cycles
        alive.append([ref() is not None for ref in refs])

    made = watched(look)
    x, y = (np.full((8, 64), v, np.float32) for v in (1, 2))
    kept, wanted = [x.copy(), y.copy()], np.exp(x * x) + y
    np.testing.assert_allclose(made(*kept), wanted, rtol=1e-5)
    arrays = [x, y]
    refs += [weakref.ref(x), weakref.ref(y)]
    del x, y
    np.testing.assert_allclose(made.spend(arrays), wanted, rtol=1e-5)
    assert arrays == []
    assert alive[-1] == [False, True]


def test_the_planned_peak_counts_arrays_until_their_last_reader() -> None:
    made = watched(lambda: None)
    size = 8 * 64 * 4
    last = last_reads(made.graph, made.launches, made.views)
    x, y = made.graph.inputs
    assert (last[x], last[y]) == (0, len(made.launches) - 1)
    assert made.memory.spent == 3 * size  # x, its square and y; then two results and y


def test_an_input_that_nothing_reads_is_released_at_once() -> None:
    graph = trace_graph(lambda x, y: x + 1, (8, 64), (8, 64))
    made = graph.plan()
    assert last_reads(made.graph, made.launches, made.views)[made.graph.inputs[1]] == BEFORE


def test_inputs_in_another_order_of_axes_are_read_in_place() -> None:
    b = Builder()
    x = b.input("x", (2, 4, 8, 16), fi.f32, order=(0, 2, 1, 3))
    w = b.input("w", (64, 16), fi.f32)
    joined = b.add("reshape", b.add("transpose", x, axes=(0, 2, 1, 3)), shape=(16, 64))
    graph = b.graph("heads", [b.add("matmul", joined, w)])
    made = graph.plan("sm_90a")
    assert [launch.part.kind for launch in made.launches] == ["product"]  # no copy of x ahead of it
    rng = np.random.default_rng(0)
    heads, matrix = rng.random((2, 8, 4, 16), np.float32), rng.random((64, 16), np.float32)
    line = NumPy().line(heads.transpose(0, 2, 1, 3), (0, 2, 1, 3))
    assert np.shares_memory(line, heads)
    wanted = heads.reshape(16, 64) @ matrix
    np.testing.assert_allclose(made(heads.transpose(0, 2, 1, 3), matrix), wanted, rtol=1e-5)
    # An array that lies otherwise is copied, and right.
    np.testing.assert_allclose(made(heads.transpose(0, 2, 1, 3).copy(), matrix), wanted, rtol=1e-5)


def test_outputs_share_memory_where_they_may() -> None:
    b = Builder()
    x = b.input("x", (8, 64), fi.f32)
    y = b.add("exp", x)
    graph = b.graph("both", [y, b.add("reshape", y, shape=(512,))])
    apart, shared = plan(graph, "sm_90a"), plan(graph, "sm_90a", together=(0, 0))
    assert (len(apart.launches), len(shared.launches)) == (2, 1)
    array = np.ones((8, 64), np.float32)
    assert np.shares_memory(*shared(array))
    assert not np.shares_memory(*apart(array))


@pytest.mark.parametrize("keepdims", [False, True])
def test_folds_of_joined_axes_fold_the_axes(keepdims: bool) -> None:
    def bias(x: Any) -> Any:
        return (x * 2).reshape(24, 10).sum(0, keepdims=keepdims)

    graph = trace_graph(bias, (4, 6, 2, 5))
    made = move(move(graph))
    (fold,) = (n for n in made.nodes if n.op == "sum")
    assert fold["axes"] == (0, 1)
    x = np.random.default_rng(0).random((4, 6, 2, 5), np.float32)
    np.testing.assert_allclose(made.evaluate(x), graph.evaluate(x), rtol=1e-6)


def test_reshapes_of_what_is_computed_of_inputs_move_to_the_inputs() -> None:
    def gated(x: Any, w: Any, y: Any) -> Any:
        return (x @ w) * np.exp(y * y).reshape(4, 8, 16)

    graph = trace_graph(gated, (4, 8, 32), (32, 16), (32, 16))
    made = share(raise_reshapes(graph))
    (reshape,) = (n for n in made.nodes if n.op == "reshape")
    assert made.nodes[reshape.inputs[0]].op == "input"
    rng = np.random.default_rng(0)
    arrays = [rng.random(made.nodes[i].shape, np.float32) for i in made.inputs]
    np.testing.assert_allclose(made.evaluate(*arrays), graph.evaluate(*arrays), rtol=1e-6)

    def shared(x: Any, w: Any, y: Any) -> Any:
        z = np.exp(y * y)
        return (x @ w) * z.reshape(4, 8, 16), z

    graph = trace_graph(shared, (4, 8, 32), (32, 16), (32, 16))
    assert raise_reshapes(graph).ops == graph.ops  # others read it: nothing is computed twice
