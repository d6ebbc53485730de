"""Passes: each changes a graph as it says, and never what the graph computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, f32, i32, nn, tensor, trace_graph, u8
from fireiron.graph.common import share
from fireiron.graph.composites import COMPOSITES, Ops
from fireiron.graph.constants import fold_constants
from fireiron.graph.expand import expand
from fireiron.graph.motion import kept_axes, move
from fireiron.graph.nodes import Builder, Data, Graph

COMPOSED: dict[str, Callable[..., Any]] = {
    "relu": lambda x, g, b: nn.relu(x),
    "sigmoid": lambda x, g, b: nn.sigmoid(x * 9),
    "silu": lambda x, g, b: nn.silu(x * 9),
    "gelu": lambda x, g, b: nn.gelu(x),
    "gelu by tanh": lambda x, g, b: nn.gelu(x, approximate="tanh"),
    "mean": lambda x, g, b: x.mean(axis=(0, 2)),
    "mean that keeps axes": lambda x, g, b: x.mean(axis=1, keepdims=True),
    "variance": lambda x, g, b: x.var(axis=(1, 2), ddof=1),
    "softmax": lambda x, g, b: nn.softmax(x * 9, axis=1),
    "log_softmax": lambda x, g, b: nn.log_softmax(x * 9),
    "layer_norm": lambda x, g, b: nn.layer_norm(x, g, b),
    "layer_norm of two axes": lambda x, g, b: nn.layer_norm(x, dims=2),
    "rms_norm": lambda x, g, b: nn.rms_norm(x, g),
    "attention": lambda x, g, b: nn.attention(x, x * 2, x[..., :3], scale=0.3),
    "attention that is causal": lambda x, g, b: nn.attention(x, x * 2, x, causal=True),
    "attention with a mask": lambda x, g, b: nn.attention(x, x * 2, x, x[:, :1, :] @ np.ones((8, 4), "f") * 3),
    "attention with keys left out": lambda x, g, b: nn.attention(x, x, x, np.array([[1, 1, 0, 1]], "u1")),
    "sums of attention": lambda x, g, b: nn.attention(x, x * 2, x, scale=0.3, lse=True)[1],
    "sums of causal attention": lambda x, g, b: nn.attention(x, x * 2, x, causal=True, lse=True)[1],
    "sums with a mask": lambda x, g, b: nn.attention(x, x, x, x[:, :1, :] @ np.ones((8, 4), "f") * 3, lse=True)[1],
    "sums with keys left out": lambda x, g, b: nn.attention(x, x, x, np.array([[1, 1, 0, 1]], "u1"), lse=True)[1],
    "cross_entropy": lambda x, g, b: nn.cross_entropy(x, np.array([[0, 3, 1, 1], [7, 2, 5, 0], [1, 1, 1, 1]], "i4")),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_an_expansion_agrees_with_its_composite(name: str) -> None:
    graph = trace_graph(COMPOSED[name], (3, 4, 8), (8,), (8,), name="composite")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in ((3, 4, 8), (8,), (8,))]
    expanded = expand(graph)
    assert any(node.kind == "composite" for node in graph.nodes)
    assert not any(node.kind == "composite" for node in expanded.nodes)
    np.testing.assert_allclose(expanded.evaluate(*arrays), graph.evaluate(*arrays), rtol=1e-9, atol=1e-12)


def test_every_composite_is_compared() -> None:
    graphs = [trace_graph(f, (3, 4, 8), (8,), (8,)) for f in COMPOSED.values()]
    used = {node.op for graph in graphs for node in graph.nodes}
    assert {one.name for one in COMPOSITES} <= used


def test_composites_of_short_floats_are_computed_in_f32() -> None:
    graph = expand(trace_graph(nn.softmax, tensor(4, 8, dtype="f16")))
    assert {str(n.dtype) for n in graph.nodes if n.kind in ("pointwise", "fold") and n.op != "cast"} == {"f32"}
    assert str(graph.nodes[graph.outputs[0]].dtype) == "f16"


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.kind != "source"]


def settled(graph: Graph, a_pass: Callable[[Graph], Graph]) -> Graph:
    for _ in range(8):
        graph = a_pass(graph)
    return graph


def test_equal_nodes_are_kept_once() -> None:
    graph = trace_graph(lambda x, y: np.exp(x + y) * np.exp(y + x) + (x - y) * (y - x), (8,), (8,), name="g")
    assert ops(share(graph)).count("exp") == 1
    assert ops(share(graph)).count("sub") == 2


def test_calls_of_foreign_functions_are_not_shared() -> None:
    graph = trace_graph(lambda x: np.cumsum(x) + np.cumsum(x), (8,), name="g")
    assert ops(share(graph)).count("foreign") == 2


def test_zeros_of_both_signs_are_two_numbers() -> None:
    graph = share(trace_graph(lambda x: 1 / (x * 0.0) + 1 / (x * -0.0), (8,), name="g"))
    assert ops(graph).count("div") == 2


def test_what_depends_on_no_input_is_computed_once() -> None:
    table = np.arange(8, dtype=np.float32)

    b = Builder()
    known = b.add("mul", b.array(Data.of(table, f32)), b.constant(2, f32))
    graph = b.graph("g", [b.add("add", b.input("x", (8,), f32), known)])
    assert ops(graph) == ["mul", "add"]
    assert ops(fold_constants(graph)) == ["add"]
    np.testing.assert_array_equal(fold_constants(graph).evaluate(table), table * 3)


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize(("number", "kind"), [(3, f32), (-1, i32), (2, i32), (1, u8), (0, i32), (2.5, f32)], ids=str)
def test_folds_of_equal_numbers_are_numbers(op: str, number: float, kind: Any) -> None:
    b = Builder()
    x = b.input("x", (8,), kind)
    equal = b.add("broadcast", b.constant(number, kind), shape=(8, 5, 3))
    graph = b.graph("g", [b.add("add", x, b.add(op, equal, axes=(1, 2), keepdims=False))])
    assert "broadcast" not in ops(graph.optimised())
    assert op not in ops(graph.optimised())
    data = np.arange(8).astype(kind.numpy)
    np.testing.assert_allclose(graph.plan("sm_90a")(data), graph.evaluate(data), rtol=1e-6)


def test_folds_of_coordinates_are_computed_once_or_by_the_library() -> None:
    for rows, kernels in ((8, 1), (1 << 20, 0)):
        b = Builder()
        at = b.add("iota", shape=(rows, 4), axis=0)
        folded = b.add("max", at, axes=(0,), keepdims=False)
        graph = b.graph("g", [b.add("add", b.input("x", (4,), i32), folded)])
        assert ("max" in ops(graph.optimised())) == (not kernels)
        plan = graph.plan("sm_90a")
        assert not kernels or all(x.kernel is not None for x in plan.launches)
        np.testing.assert_array_equal(plan(np.arange(4, dtype="i4")), np.arange(4) + rows - 1)


def test_products_of_integers_that_wrap_are_left_to_the_library() -> None:
    b = Builder()
    equal = b.add("broadcast", b.constant(3, i32), shape=(4, 64))
    graph = b.graph("g", [b.add("add", b.input("x", (4,), i32), b.add("prod", equal, axes=(1,), keepdims=False))])
    with np.errstate(over="ignore"):
        wanted = np.arange(4, dtype="i4") + np.full(64, 3, "i4").prod(dtype="i4")
    np.testing.assert_array_equal(graph.plan("sm_90a")(np.arange(4, dtype="i4")), wanted)


def test_reshapes_come_late() -> None:
    def layer(x: Any, w: Any, bias: Any) -> Any:
        flat = x.reshape(-1, 32)
        y = nn.relu(flat @ w + bias).reshape(4, 8, 16)
        return (y * 2).reshape(32, 16).sum(axis=1).reshape(4, 8)

    graph = trace_graph(layer, (4, 8, 32), (32, 16), (16,))
    moved = settled(expand(graph), move)
    assert ops(moved) == ["matmul", "add", "maximum", "mul", "sum"]
    arrays = [np.random.default_rng(i).standard_normal(s) for i, s in enumerate(((4, 8, 32), (32, 16), (16,)))]
    np.testing.assert_allclose(moved.evaluate(*arrays), graph.evaluate(*arrays))


def test_reshapes_that_part_an_axis_stay() -> None:
    graph = trace_graph(lambda x, y: x.reshape(4, 2, 4) + y, (4, 8), (2, 4), name="g")
    assert ops(settled(graph, move)) == ["reshape", "add"]


def test_casts_there_and_back_vanish_where_nothing_was_rounded() -> None:
    def there(x: Any) -> Any:
        return x.astype("float32").astype("float16")

    assert ops(settled(trace_graph(there, tensor(8, dtype="f16")), move)) == []
    assert ops(settled(trace_graph(there, tensor(8, dtype="f32")), move)) == ["cast"]
    assert ops(settled(trace_graph(there, tensor(8, dtype="bf16")), move)) == ["cast"]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [((4, 8, 32), (32, 32), 1), ((2, 3), (3, 2), 0), ((2, 1, 3), (2, 3), 1), ((6,), (2, 3), 0), ((2, 3), (2, 3), 2)],
)
def test_axes_that_a_reshape_leaves(before: tuple[int, ...], after: tuple[int, ...], same: int) -> None:
    assert kept_axes(before, after) == same


@pytest.mark.parametrize(("seen", "left"), [(1, []), (0, ["broadcast"])])
def test_a_mask_of_equal_elements_is_no_operation(seen: int, left: list[str]) -> None:
    b = Builder()
    o, x = Ops(b), b.input("x", (4, 8), f32)
    mask = o.reshape(o.broadcast(b.constant(seen, u8), shape=(8,)), shape=(1, 8))
    graph = b.graph("g", [o.select(o.eq(o.eq(o.broadcast(mask, shape=(4, 8)), 0.0), 0.0), x, b.constant(-1.0, f32))])
    assert ops(graph.optimised()) == left
    given = np.random.default_rng(0).standard_normal((4, 8))
    np.testing.assert_array_equal(graph.optimised().evaluate(given), graph.evaluate(given))


def test_explain_says_what_passes_did() -> None:
    told = trace_graph(lambda x: nn.layer_norm(0 - (-x)) * 1, (4, 8), name="g").passes().explain()
    assert "A * 1 = A" in told
    assert "0 - A = -A" in told
    assert "-(-A) = A" in told
    assert told.startswith("g(x[4, 8].f32)")
    assert "rsqrt(" in told


def test_rules_that_are_not_there_are_refused() -> None:
    with pytest.raises(FireironError, match="graph-rules"):
        trace_graph(lambda x: x + 1, (4,), name="g").passes(speed=True)
