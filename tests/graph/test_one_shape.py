"""Folds of rows in the shape in which operations behind a reshape read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor
from fireiron.graph.one_shape import in_one_shape
from fireiron.graph.trace import trace_graph

SCORES, CLASSES = tensor(4, 8, 64, dtype="f16"), tensor(32, dtype="i32")


def loss(x: Any, place: Any) -> Any:
    """Take losses of classes, whose list has one axis."""
    here = np.arange(64, dtype="i4") == place.reshape(-1, 1)
    return np.where(here, nn.log_softmax(x.astype("float32")).reshape(32, 64), 0.0).sum(1)


def loss_and_largest(x: Any, place: Any) -> Any:
    return loss(x, place), x.astype("float32").max(2, keepdims=True)


def with_bias(x: Any, place: Any) -> Any:
    """Add what all rows have in common first."""
    return loss(x + x[0, :1].reshape(64), place)


@pytest.mark.parametrize("function", [loss, loss_and_largest, with_bias])
def test_a_loss_of_tokens_in_batches_is_one_kernel(function: Callable[..., Any]) -> None:
    graph = trace_graph(function, SCORES, CLASSES)
    plan = graph.plan("sm_89")
    assert len(plan.kernels) == 1, plan.explain()
    x = np.random.default_rng(0).standard_normal((4, 8, 64)).astype("f2")
    place = np.arange(32, dtype="i4") * 3 - 2
    made, wanted = plan(x, place), graph.evaluate(x.astype("f8"), place)
    for found, right in zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]:
        np.testing.assert_allclose(found, right, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("function", [
    lambda x, y: (np.exp(x)).reshape(32, 64) * y,
    lambda x, y: (x - x.max((1, 2), keepdims=True)).reshape(32, 64) * y,
    lambda x, y: (x - x.max(2, keepdims=True) + x.max(0, keepdims=True)).reshape(32, 64) * y,
    lambda x, y: (t := x.transpose(1, 0, 2), (t - t.max(2, keepdims=True)).reshape(32, 64) * y)[1],
    lambda x, y: (x - x.max(2, keepdims=True)).reshape(4, 8, 8, 8) * y.reshape(4, 8, 8, 8),
    lambda x, y: (x - x.max(2, keepdims=True)).reshape(32, 64) @ y.T,
    lambda x, y: ((z := x - x.max(2, keepdims=True)).reshape(32, 64) * y).reshape(4, 8, 64) + z,
    lambda x, y: ((z := np.exp(x)) - z.max(2, keepdims=True)).reshape(32, 64) * y + (z + 1).reshape(32, 64),
], ids=[
    "no fold", "folds several rows", "several rows in common", "rows apart", "columns divided", "a product",
    "read twice", "read by other points",
])  # fmt: skip
def test_other_reshapes_stay(function: Callable[..., Any]) -> None:
    graph = trace_graph(function, (4, 8, 64), (32, 64))
    assert in_one_shape(graph) == graph
    x, y = (np.random.default_rng(n).standard_normal(s).astype("f") for n, s in enumerate([(4, 8, 64), (32, 64)]))
    np.testing.assert_allclose(graph.plan("sm_89")(x, y), graph.evaluate(x, y), rtol=1e-4, atol=1e-4)


def test_axes_of_one_element_are_folded_as_before() -> None:
    graph = trace_graph(
        lambda x, y: (x - x.max((0, 2), keepdims=True) - x.max(2, keepdims=True)).reshape(8, 64) * y,
        (1, 8, 64),
        (8, 64),
    )
    made = in_one_shape(graph)
    assert made != graph
    x, y = (np.random.default_rng(n).standard_normal(s).astype("f") for n, s in enumerate([(1, 8, 64), (8, 64)]))
    np.testing.assert_allclose(made.evaluate(x, y), graph.evaluate(x, y), rtol=1e-6)
