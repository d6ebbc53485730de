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


def layered(seed: int) -> Callable[..., Any]:
    """Draw a function like a layer or its gradient: products, norms, activations, sums over rows, several results."""
    rng = np.random.default_rng(seed)

    def function(x: Any, y: Any, w: Any, u: Any, g: Any) -> Any:
        made, sums = [x, y], list[Any]()
        for _ in range(rng.integers(4, 11)):
            a = made[rng.integers(len(made))]
            alike = [v for v in made if v.shape == a.shape]
            b, by = alike[rng.integers(len(alike))], w if a.shape[-1] == 32 else u
            wide, rows = a.astype("float32"), tuple(range(a.ndim - 1))
            ways: list[Callable[[], Any]] = [
                lambda a=a, by=by: a.astype("float16") @ by,
                lambda a=a, by=by: (a.reshape(-1, a.shape[-1]).astype("float16") @ by).reshape(2, 16, -1),
                lambda a=a: nn.gelu(a),
                lambda a=a, b=b: a + b,
                lambda a=a, b=b: a * np.tanh(b),
                lambda a=a: nn.layer_norm(a, g) if a.shape[-1] == 32 else nn.rms_norm(a),
                lambda wide=wide: (wide - wide.mean(axis=-1, keepdims=True)).astype("float16"),
                lambda a=a: np.tanh(a.reshape(-1, a.shape[-1])).reshape(a.shape) * a,
            ]
            made.append(ways[rng.integers(len(ways))]())
            sums += [wide.sum(axis=rows), (wide * b).sum(axis=rows)][: rng.integers(3)]
        results = [*made[2:], *sums]
        return tuple(results[n] for n in rng.permutation(len(results))[:4])

    return function


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(12, 24))])
def test_a_drawn_layer_is_computed(seed: int) -> None:
    shapes = (*SHAPES[:2], (32, 64), (64, 32), (32,))
    graph = trace_graph(layered(seed), *(tensor(*s, dtype="f16") for s in shapes), name="drawn")
    rng = np.random.default_rng(seed)
    arrays = [(rng.standard_normal(s) * 0.5).astype(np.float16) for s in shapes]
    plan = graph.plan(("sm_90a", "sm_80")[seed % 2])
    for one, other, rounded in zip(
        plan(*arrays), graph.evaluate(*arrays), graph.evaluate(*arrays, rounded=True), strict=True
    ):
        bound = 2 * np.abs(rounded - other).max() + 2e-3 * max(1.0, np.abs(other).max())
        assert np.abs(one.astype(np.float64) - other).max() <= bound
