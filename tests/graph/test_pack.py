"""Products that share an operand are one product; what depends on fixed inputs alone is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from fireiron import nn, tensor, trace_graph
from fireiron.algebra.dtypes import f32
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.pack import pack
from tests.graph.test_plan import ARCH, close, drawn, encoder, half, kinds


def ops(graph: Graph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes)


def three(x: Any, w: Any, b: Any, u: Any, c: Any, v: Any, d: Any) -> Any:
    return x @ w.T + b, nn.relu(x @ u.T + c), x @ v.T + d


SHAPES = [half(2, 16, 32), half(32, 32), half(32), half(64, 32), half(64), half(32, 32), half(32)]


def test_biases_are_packed_with_their_products() -> None:
    graph = trace_graph(three, *SHAPES, fixed=("w", "b", "u", "c", "v", "d")).optimised()
    assert (ops(graph, "matmul"), ops(graph, "add"), ops(graph, "slice")) == (1, 1, 3)
    assert [node.shape for node in graph.nodes if node.op == "concatenate"] == [(128, 32), (128,)]


def test_a_bias_that_may_change_stays_beside_the_products() -> None:
    graph = trace_graph(three, *SHAPES, fixed=("w", "b", "u", "v", "d")).optimised()
    assert (ops(graph, "matmul"), ops(graph, "add"), ops(graph, "slice")) == (1, 3, 3)


def test_what_may_change_or_reads_another_array_is_not_packed() -> None:
    def two(x: Any, y: Any, w: Any, u: Any) -> Any:
        return x @ w, x @ u, y @ w

    graph = trace_graph(two, *[half(16, 16)] * 4, fixed=("w",))
    assert pack(graph) is graph


def test_gates_are_not_packed() -> None:
    def gate(x: Any, w: Any, u: Any) -> Any:
        return nn.silu(x @ w) * (x @ u)

    graph = trace_graph(gate, *[half(32, 32)] * 3, fixed=("w", "u"))
    assert kinds(graph.plan(ARCH)) == ["products"]


def test_a_product_that_is_read_twice_keeps_its_place() -> None:
    def two(x: Any, w: Any, b: Any, u: Any) -> Any:
        y = x @ w
        return y + b, y * 2, x @ u + b

    graph = trace_graph(two, half(16, 32), half(32, 16), half(16), half(32, 16), fixed=("w", "b", "u"), name="two")
    plan = graph.plan(ARCH)
    assert (ops(plan.graph, "matmul"), ops(plan.graph, "slice")) == (1, 2)
    close(plan, graph, 2e-3)


def test_a_layer_of_a_transformer_is_five_kernels() -> None:
    h, f = 32, 64
    shapes = [(2, 16, h), (2, 1, 1, 16), *[(h, h), (h,)] * 4, (h,), (h,), (h, f), (f,), (f, h), (h,), (h,), (h,)]
    weights = ("wq", "bq", "wk", "bk", "wv", "bv")
    graph = trace_graph(encoder, *(tensor(*s, dtype="f16") for s in shapes), fixed=weights)
    plan = graph.plan(ARCH, strict=True)
    assert [x.part.kind for x in plan.launches if not x.once] == [
        "product", "attention", "product rows", "product", "product rows",
    ]  # fmt: skip
    assert [x.once for x in plan.launches] == [True] * 2 + [False] * 5
    assert "once     " in plan.explain()
    assert len(plan.kernels) == 5
    close(plan, graph, 2e-3)


def test_what_depends_on_numbers_alone_is_kept() -> None:
    calls: list[int] = []

    def line() -> Any:
        calls.append(0)
        return np.arange(64, dtype=np.float32)

    b = Builder()
    x = b.input("x", (8, 64), f32)
    known = b.add("foreign", label="line", call=line, shape=(64,), dtype=f32, pure=True)
    plan = b.graph("shifted", [b.add("add", x, known)]).plan(ARCH, strict=True)
    for _ in range(3):
        array = np.ones((8, 64), np.float32)
        np.testing.assert_array_equal(plan(array), array + np.arange(64))
    assert len(calls) == 1


def test_fixed_arrays_of_numpy_may_change_all_the_same() -> None:
    graph = trace_graph(lambda x, w: x @ (w * 2), (8, 16), (16, 8), fixed=("w",))
    plan = graph.plan(ARCH)
    x, w = drawn(graph)
    assert kinds(plan) == ["left over", "product"]
    for _ in range(2):
        np.testing.assert_allclose(plan(x, w), graph.evaluate(x, w), rtol=1e-4, atol=1e-5)
        w += 1
