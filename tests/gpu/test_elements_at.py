"""Additions to elements that indices name, on the GPU: instructions of every type and width, and sums of a graph."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from verified import verified

sys.path.insert(0, str(Path(__file__).parents[1] / "kernel"))
from element_programs import along_lines, of_lines, of_windows

from fireiron import Matrix, Vector, nn, symbol, tensor, trace_graph
from fireiron.schedules import pointwise


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


def test_a_plan_puts_lines_into_zeros(gpu: int) -> None:
    torch = pytest.importorskip("torch")
    for dtype, kind in (("f16", np.float16), ("f32", np.float32)):
        graph = trace_graph(
            lambda x, ids: nn.segment_set(x * 2, ids, 5000), tensor(3000, 64, dtype=dtype), tensor(3000, dtype="i32")
        )
        plan, rng = graph.plan(), np.random.default_rng(0)
        for _ in range(3):
            x = rng.standard_normal((3000, 64)).astype(kind)
            ids = rng.permutation(5000)[:3000].astype(np.int32)
            found = plan(torch.from_numpy(x).cuda(), torch.from_numpy(ids).cuda()).cpu().numpy()
            np.testing.assert_array_equal(found, graph.evaluate(x, ids))
