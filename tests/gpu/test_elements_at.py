"""Additions to elements that indices name, on the GPU: instructions of every type and width, and sums of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from verified import verified

import fireiron as fi
from fireiron import Matrix, Vector, nn, symbol, tensor, trace_graph
from fireiron.schedules import pointwise


@fi.program(ids="e", x="e n", sums="v n")
def of_lines(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[ids, :].add(x * 2)


@fi.program(x="n p r", sums="n h")
def of_windows(x: Any, sums: Any) -> Any:
    return sums.at[:, 2 * fi.index("p") + fi.index("r")].add(x)


@fi.program(ids="i j", x="i j", sums="i v")
def along_lines(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[:, ids].add(x)


@pytest.mark.parametrize("width", [64, 60, 2, 33])
@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "f16", "bf16"])
def test_lines(gpu: int, kind: str, width: int) -> None:
    if kind == "bf16" and gpu < 90:
        pytest.skip(f"no instruction of sm_{gpu} adds bf16")
    given = "f32" if kind == "f64" else "i32" if kind == "i32" else "bf16"
    ids, x = Vector(3000, "i32", name="ids"), Matrix(3000, width, given)
    verified(pointwise.pointwise(of_lines(ids, x, Matrix(37, width, kind))))


def test_windows_and_elements_of_lines(gpu: int) -> None:
    verified(pointwise.pointwise(of_windows(tensor(5, 300, 3), tensor(5, 601))))
    ids = Matrix(200, 500, "i32", name="ids")
    verified(pointwise.pointwise(along_lines(ids, Matrix(200, 500), Matrix(200, 90))))


def test_sizes_of_the_call(gpu: int) -> None:
    count, rows = symbol("E"), symbol("V")
    spec = of_lines(Vector(count, "i32", name="ids"), Matrix(count, 64, "bf16"), Matrix(rows, 64))
    verified(pointwise.pointwise(spec), E=7777, V=5)


def test_a_plan_clears_what_it_adds_to(gpu: int) -> None:
    """In each call, also where launches are repeated by address."""

    def sums(first: Any, last: Any, x: Any, w: Any) -> Any:
        return np.tanh(nn.segment_sum(nn.embedding(first, x) * w[:, None], last, 40))

    graph = trace_graph(
        sums, tensor(3000, dtype="i32"), tensor(3000, dtype="i32"), tensor(50, 64, dtype="f16"), tensor(3000)
    )
    torch = pytest.importorskip("torch")
    plan, rng = graph.plan(), np.random.default_rng(0)
    for _ in range(3):
        arrays = [rng.integers(0, n, 3000).astype(np.int32) for n in (50, 40)]
        arrays += [rng.standard_normal((50, 64)).astype(np.float16), 0.1 * rng.standard_normal(3000).astype(np.float32)]
        found = plan(*(torch.from_numpy(x).cuda() for x in arrays)).cpu().numpy()
        assert np.abs(found - graph.evaluate(*arrays)).max() < 1e-5
