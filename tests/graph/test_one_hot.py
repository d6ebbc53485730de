"""Sums over one chosen place, which need no fold, and lines of numbers that become coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor
from fireiron.graph.one_hot import one_hots
from fireiron.graph.trace import trace_graph

ROWS, COLUMNS = 8, 32
NUMBERS = tensor(ROWS, dtype="i32")


def slope(y: Any, place: Any) -> Any:
    """Sum a value at one column of each row."""
    return np.where(np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1), y.reshape(-1, 1), 0.0).sum(1)


def both(y: Any, place: Any) -> Any:
    """Sum a value at one column of the rows that count."""
    chosen = (np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1)) & (place.reshape(-1, 1) != 3)
    return np.where(chosen, y.reshape(-1, 1), 0.0).sum(1, keepdims=True)


def ops(function: Callable[..., Any], *arrays: Any) -> list[str]:
    return [node.op for node in trace_graph(function, *arrays).optimised().nodes]


@pytest.mark.parametrize("function", [slope, both])
def test_a_sum_over_one_place_is_no_fold(function: Callable[..., Any]) -> None:
    """Places outside the axis give 0."""
    graph = trace_graph(function, (ROWS,), NUMBERS)
    assert "sum" not in [node.op for node in graph.optimised().nodes]
    y, place = np.linspace(1, 2, ROWS).astype("f"), np.array([0, 31, 32, -1, 3, -100, 1000, 7], "i4")
    found = graph.plan("sm_89")(y, place)
    np.testing.assert_array_equal(found, function(y, place))
    assert (found != 0).sum() == (4 if function is slope else 3)


def losses(x: Any, place: Any) -> Any:
    """Take the logarithm of a softmax at one column of each row, and a value of each row."""
    here = np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1)
    return np.where(here, nn.log_softmax(x.astype("float32")) * x[:, :1].astype("float32"), 0.0).sum(1)


def test_what_rows_have_in_common_is_computed_behind_the_sum() -> None:
    """The sum is then of an array, of which a kernel reads the one place; places outside the axis give 0."""
    graph = trace_graph(losses, tensor(ROWS, COLUMNS, dtype="f16"), NUMBERS)
    nodes = graph.optimised().nodes
    (chosen,) = (nodes[n.inputs[0]] for n in nodes if n.op == "sum" and nodes[n.inputs[0]].op == "select")
    assert nodes[nodes[chosen.inputs[1]].inputs[0]].op == "input"
    plan = graph.plan("sm_89")
    (kernel,) = plan.kernels
    assert [step.name for step in kernel.schedule.program.spec.steps if step.over] == ["largest", "sum"]
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("f2")
    place = np.array([0, 31, 32, -1, 3, -100, 1 << 30, 7], "i4")
    found = plan(x, place)
    np.testing.assert_allclose(found, graph.evaluate(x.astype("f8"), place), rtol=2e-3, atol=2e-3)
    assert ((found == 0) == [False, False, True, True, False, True, True, False]).all()


def test_what_is_rounded_before_the_sum_is_rounded_behind_it() -> None:
    """As torch's loss of 16-bit scores: their logarithms are 16-bit floats, which the sum reads as wider ones."""

    def short(x: Any, place: Any) -> Any:
        here = np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1)
        logs = nn.log_softmax(x.astype("float32")).astype("float16")
        return np.where(here, logs, np.float16(0)).astype("float32").sum(1)

    graph = trace_graph(short, tensor(ROWS, COLUMNS, dtype="f16"), NUMBERS)
    plan = graph.plan("sm_89")
    assert len(plan.kernels) == 1
    assert not {node.size for node in plan.graph.nodes if node.dtype.name == "f16" and node.op != "input"} - {ROWS}
    x, place = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("f2"), np.arange(ROWS, dtype="i4") * 5
    found = plan(x, place)
    np.testing.assert_allclose(found, graph.evaluate(x.astype("f8"), place), rtol=1e-3, atol=1e-3)


def test_a_value_that_another_kernel_computes_is_summed() -> None:
    """Its place is not known to the kernel of the sum, or its condition is not."""

    def both(x: Any, y: Any, place: Any) -> tuple[Any, Any]:
        chosen = np.where(np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1), x @ y, 0.0)
        return chosen.sum(1), chosen

    graph = trace_graph(both, (ROWS, 16), (16, COLUMNS), NUMBERS)
    x, y = (np.random.default_rng(n).standard_normal(s).astype("f") for n, s in enumerate([(ROWS, 16), (16, COLUMNS)]))
    place = np.arange(ROWS, dtype="i4") * 5
    for found, right in zip(graph.plan("sm_89")(x, y, place), graph.evaluate(x, y, place), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [
    lambda y, place: np.where(np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1), y, 0.0).sum(1),
    lambda y, place: np.where(np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1) * 2 + 1, y, 0.0).sum(1),
    lambda y, place: np.where(np.arange(COLUMNS, dtype="i4") == np.minimum(place, 9).reshape(-1, 1), y, 0.0).sum(1),
    lambda y, place: np.where(np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1), y[:, :1], 1.0).sum(1),
    lambda y, place: np.where(np.arange(COLUMNS, dtype="i4") <= place.reshape(-1, 1), y[:, :1], 0.0).sum(1),
    lambda y, place: np.where(np.arange(1, COLUMNS + 1, dtype="i4") == place.reshape(-1, 1), y[:, :1], 0.0).sum(1),
    lambda y, place: np.where(np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1), y[:, :1], 0.0).max(1),
], ids=[
    "a value of each place", "a place by steps", "a computed place", "ones elsewhere", "several places",
    "other numbers", "another fold",
])  # fmt: skip
def test_other_folds_stay(function: Callable[..., Any]) -> None:
    """Kernels read the place that a sum chooses, inside the axis or not."""
    assert {"sum", "max"} & set(ops(function, (ROWS, COLUMNS), NUMBERS))
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("f")
    place = np.array([0, 31, 32, -1, 3, -100, 1 << 30, 7], "i4")
    plan = trace_graph(function, (ROWS, COLUMNS), NUMBERS).plan("sm_89")
    assert len(plan.kernels) == 1
    found = plan(x, place)
    np.testing.assert_allclose(found, function(x, place), rtol=1e-5)


def test_a_line_becomes_coordinates_where_an_array_has_its_axis() -> None:
    def loss(x: Any, place: Any) -> Any:
        here = np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1)
        return np.where(here, nn.log_softmax(x), 0.0).sum(1)

    assert "array" not in ops(loss, (ROWS, COLUMNS), NUMBERS)
    graph = trace_graph(loss, (ROWS, COLUMNS), NUMBERS)
    plan = graph.plan("sm_89")
    assert len(plan.kernels) == 1
    x, place = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("f"), np.arange(ROWS, dtype="i4") * 3
    np.testing.assert_allclose(plan(x, place), graph.evaluate(x, place), rtol=1e-5)


@pytest.mark.parametrize("function", [
    lambda y, place: np.where(np.arange(COLUMNS, dtype="i4") == place.reshape(-1, 1), y.reshape(-1, 1), 0.5),
    lambda y, place: np.where(np.arange(4, dtype="i4").reshape(4, 1) == place, y, 0.0).sum(1),
], ids=["returned", "folded"])  # fmt: skip
def test_a_line_without_such_an_array_stays(function: Callable[..., Any]) -> None:
    """No array of the kernel would have the points of its axis."""
    graph = trace_graph(function, (ROWS,), NUMBERS)
    assert "array" in [node.op for node in graph.optimised().nodes]
    y, place = np.linspace(1, 2, ROWS).astype("f"), np.arange(ROWS, dtype="i4") % 5
    np.testing.assert_allclose(graph.plan("sm_89", strict=True)(y, place), function(y, place), rtol=1e-6)


def test_the_pass_leaves_other_graphs_as_they_are() -> None:
    graph = trace_graph(lambda x: x.sum(1), (4, 8)).optimised()
    assert one_hots(graph) == graph
