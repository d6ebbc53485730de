"""Transposes of matrices that folds or transposes back remove, and those that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor, trace_graph

IDS = tensor(12, dtype="i32")


def classes_both_ways(z: Any, ids: Any) -> Any:
    return nn.cross_entropy(z, ids).mean() + nn.cross_entropy(z.T, ids).mean()


def slopes_both_ways(z: Any, ids: Any) -> Any:
    hit = (np.arange(12) == ids[:, None]).astype(np.float32)
    return (nn.softmax(z) - hit) + (nn.softmax(z.T) - hit).T


def fold_beside_a_matrix(z: Any, ids: Any) -> Any:
    e = np.exp(z.T)
    return e + e.sum(axis=1, keepdims=True) * z


TURNED: dict[str, tuple[Callable[..., Any], int]] = {
    "classes both ways": (classes_both_ways, 0),
    "slopes both ways": (slopes_both_ways, 0),
    "a fold of a transpose": (lambda z, ids: z.T.max(axis=0), 0),
    "rows and columns of a transpose": (lambda z, ids: np.exp(z.T * ids + ids[:, None]).sum(axis=1, keepdims=True), 0),
    "two transposes": (lambda z, ids: (z.T + (z * 2).T).T, 0),
    "a place along a transpose": (lambda z, ids: nn.softmax(z.T).max(axis=0), 0),
    # These stay: a matrix that is not turned, a result, what a product reads of it is a view in any case.
    "another matrix": (lambda z, ids: np.exp(z.T) + z, 1),
    "a fold and another matrix": (fold_beside_a_matrix, 1),
    "a result": (lambda z, ids: np.exp(z.T), 1),
    "a product alone": (lambda z, ids: np.exp(z.T) @ z, 1),
    "a fold and a product": (lambda z, ids: np.exp(z.T) @ z + np.exp(z.T).sum(axis=1, keepdims=True), 1),
}


@pytest.mark.parametrize("name", TURNED)
def test_transposes_are_removed_where_nothing_moves(name: str) -> None:
    function, left = TURNED[name]
    graph = trace_graph(function, (12, 12), IDS, name="turned")
    made = graph.optimised()
    assert [node.op for node in made.nodes].count("transpose") == left, str(made)
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((12, 12)).astype(np.float32), rng.integers(0, 12, 12).astype(np.int32)
    np.testing.assert_allclose(made.evaluate(*arrays), graph.evaluate(*arrays), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(graph.plan("sm_90a")(*arrays), graph.evaluate(*arrays), rtol=1e-5, atol=1e-5)


def test_slopes_of_classes_both_ways_are_computed_at_once() -> None:
    """Of the loss of images and words: one kernel reads the scores and writes both slopes together."""

    def slopes(z: Any, ids: Any, tops: Any, sums: Any) -> Any:
        hit = (np.arange(4096) == ids[:, None]).astype(np.float32)
        return (np.exp(z - tops) - hit) + (np.exp(z.T - tops) / sums - hit).T

    column = tensor(4096, 1)
    plan = trace_graph(slopes, tensor(4096, 4096, dtype="f16"), tensor(4096, dtype="i32"), column, column).plan(
        "sm_90a"
    )
    assert [launch.part.kind for launch in plan.launches] == ["pointwise"], plan.explain()


@pytest.mark.parametrize("batched", ["both", "left", "right"])
def test_products_that_are_read_by_columns_are_computed_transposed(batched: str) -> None:
    """With one matrix for a batch they stay: it is the right one."""

    def columns(x: Any, y: Any, z: Any) -> Any:
        return np.exp((x @ y).transpose(0, 2, 1)) + z

    shapes = [(3, 16, 24), (3, 24, 32), (3, 32, 16)]
    shapes = [s[1:] if (batched, place) in (("left", 1), ("right", 0)) else s for place, s in enumerate(shapes)]
    graph = trace_graph(columns, *(tensor(*s, dtype="f16") for s in shapes), name="columns")
    (product,) = (node for node in graph.optimised().nodes if node.op == "matmul")
    assert (product.shape == (3, 32, 16)) == (batched == "both")
    rng = np.random.default_rng(0)
    arrays = [(0.3 * rng.standard_normal(s)).astype(np.float16) for s in shapes]
    np.testing.assert_allclose(graph.plan("sm_90a")(*arrays), graph.evaluate(*arrays), rtol=2e-2, atol=2e-2)
