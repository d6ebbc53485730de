"""Graphs that nobody wrote down: drawn functions, whose plans compute what the functions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, nn, tensor, trace_graph

SHAPES = ((2, 16, 32), (2, 16, 32), (32, 32), (32,))
MOST = 40000  # elements of an array


def drawn(seed: int) -> Callable[..., Any]:
    """Draw a function of two arrays, a matrix and a vector."""
    rng = np.random.default_rng(seed)

    def step(a: Any, b: Any, w: Any, v: Any) -> Any:
        wide = a.shape[-1] == 32
        axis = int(rng.integers(0, a.ndim))
        ways: list[Callable[[], Any]] = [
            lambda: a + b,
            lambda: a * b,
            lambda: np.tanh(a),
            lambda: nn.softmax(a),
            lambda: nn.layer_norm(a),
            lambda: a @ w if wide else a,
            lambda: a.swapaxes(-1, -2),
            lambda: a.reshape(-1, a.shape[-1]),
            lambda: a[..., : a.shape[-1] // 2],
            lambda: a.sum(axis=axis, keepdims=seed % 2 == 0),
            lambda: np.where(a > 0, a, b),
            lambda: a * v if wide else a * 2,
            lambda: a.max(axis=-1, keepdims=True) - a,
            lambda: nn.gelu(a),
            lambda: np.concatenate([a, a], axis=-1)[..., 1::2],
        ]
        return ways[rng.integers(len(ways))]()

    def function(x: Any, y: Any, w: Any, v: Any) -> Any:
        made = [x, y]
        for _ in range(rng.integers(2, 9)):
            try:
                result = step(made[rng.integers(len(made))], made[rng.integers(len(made))], w, v)
            except FireironError as error:
                if error.code != "graph-shape":  # a sum of arrays that do not broadcast
                    raise
                continue
            if result.ndim and 1 < result.size <= MOST:
                made.append(result)
        return tuple(made[2:][-2:]) or x + y

    return function


@pytest.mark.parametrize("seed", range(16))
def test_a_drawn_graph_is_computed(seed: int) -> None:
    kind = ("f16", "f32")[seed % 2]
    graph = trace_graph(drawn(seed), *(tensor(*s, dtype=kind) for s in SHAPES), name="drawn")
    rng = np.random.default_rng(seed)
    arrays = [(rng.standard_normal(s) * 0.5).astype(graph.nodes[0].dtype.numpy) for s in SHAPES]
    made, exact, eager = graph.plan("sm_90a")(*arrays), graph.evaluate(*arrays), graph.evaluate(*arrays, rounded=True)
    for one, other, rounded in zip(*(v if isinstance(v, tuple) else (v,) for v in (made, exact, eager)), strict=True):
        assert one.shape == other.shape
        bound = 2 * np.abs(rounded - other).max() + (3e-3 if kind == "f16" else 1e-4) * max(1.0, np.abs(other).max())
        assert np.abs(one.astype(np.float64) - other).max() <= bound
