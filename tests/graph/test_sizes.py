"""Plans for a batch that changes: the kernels stay, and results are right at odd batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import nn
from fireiron.base.errors import CallError
from fireiron.front.host import HostKernel
from fireiron.graph.nodes import Graph
from fireiron.graph.sizes import symbolic
from fireiron.graph.trace import trace_graph

rng = np.random.default_rng(0)


def perceptron(batch: int) -> Graph:
    def layers(x: Any, w: Any, b: Any, u: Any) -> Any:
        return nn.gelu(x @ w + b) @ u

    shapes = [(batch, 32), (32, 64), (64,), (64, 16)]
    return trace_graph(layers, *(fi.tensor(*s, dtype="f16") for s in shapes), name="perceptron")


def layer(batch: int, length: int = 7) -> Graph:
    def block(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, gain: Any, up: Any, down: Any) -> Any:
        def heads(w: Any) -> Any:
            return (x @ w).reshape(x.shape[0], x.shape[1], 2, -1).transpose(0, 2, 1, 3)

        seen = nn.attention(heads(wq), heads(wk), heads(wv))
        y = x + seen.transpose(0, 2, 1, 3).reshape(x.shape) @ wo
        return y + nn.gelu(nn.rms_norm(y, gain) @ up) @ down

    shapes = [(batch, length, 32), *[(32, 32)] * 4, (32,), (32, 64), (64, 32)]
    return trace_graph(block, *(fi.tensor(*s, dtype="f16") for s in shapes), name="layer")


def rows(batch: int) -> Graph:
    def normed(x: Any, y: Any) -> Any:
        return nn.softmax(x * 2 + y), np.exp(x)

    return trace_graph(normed, (batch, 3, 40), (40,), name="rows")


def given(graph: Graph) -> list[Any]:
    nodes = [graph.nodes[i] for i in graph.inputs]
    return [(0.3 * rng.standard_normal(n.shape)).astype(n.dtype.numpy) for n in nodes]


@pytest.mark.parametrize(
    ("make", "arch"), [(perceptron, "sm_89"), (perceptron, "sm_90a"), (layer, "sm_90a"), (rows, "sm_89")]
)
def test_another_batch_runs_the_same_kernels(make: Callable[[int], Graph], arch: str) -> None:
    plan = symbolic(make, (6,), arch)
    assert plan is not None
    assert not plan.foreign
    for batch in (13, 5):
        made, graph = plan.sized(batch), make(batch)
        arrays = given(graph)
        results, wanted = made(*arrays), graph.evaluate(*arrays)
        for got, exact in zip(*(x if isinstance(x, tuple) else (x,) for x in (results, wanted)), strict=True):
            assert got.shape == exact.shape
            np.testing.assert_allclose(got, exact, atol=1e-2)
        assert [a.schedule for a in made.kernels] == [b.schedule for b in plan.kernels]
        assert len(made.runner.compiled) == len({x.schedule for x in plan.kernels})
    assert made.memory.nbytes == graph.plan(arch).memory.nbytes


def causal(batch: int, length: int) -> Graph:
    def attended(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return nn.attention(q, k, v, mask, causal=True)

    heads = [fi.tensor(batch, 2, length, 16, dtype="f16")] * 3
    return trace_graph(attended, *heads, fi.tensor(batch, 1, 1, length, dtype="f16"), name="causal")


@pytest.mark.parametrize("make", [layer, causal])
def test_another_length_runs_the_same_kernels(make: Callable[[int, int], Graph]) -> None:
    plan = symbolic(make, (3, 20), "sm_90a")
    assert plan is not None
    assert not plan.foreign
    for sizes in ((1, 17), (3, 32), (2, 25)):
        made, graph = plan.sized(*sizes), make(*sizes)
        arrays = given(graph)
        np.testing.assert_allclose(made(*arrays), graph.evaluate(*arrays), atol=1e-2)
        assert [a.schedule for a in made.kernels] == [b.schedule for b in plan.kernels]
        assert made.runner.compiled is plan.runner.compiled


def test_a_length_alone() -> None:
    def make(length: int) -> Graph:
        return trace_graph(lambda x, w: np.tanh(x @ w), (2, length, 32), (32, 16), name="rows")

    plan = symbolic(make, (20,), "sm_90a", ("length",))
    assert plan is not None
    assert plan.samples is not None
    assert [s.name for s in plan.samples.symbols] == ["length"]
    arrays = given(make(27))
    np.testing.assert_allclose(plan.sized(27)(*arrays), make(27).evaluate(*arrays), rtol=1e-3, atol=1e-4)


def test_sizes_have_samples_of_their_own() -> None:
    plan = symbolic(lambda a, b: trace_graph(lambda x, y: x @ y, (a, b, 32), (32, 16)), (20, 20))
    assert plan is not None
    assert plan.samples is not None
    assert len(set(plan.samples.numbers)) == 2
    # A sum of two sizes is no multiple of one.
    joined = lambda x, y: np.concatenate([x, y], axis=1) * 2  # noqa: E731
    assert symbolic(lambda a, b: trace_graph(joined, (4, a, 32), (4, b, 32)), (20, 25)) is None


def test_a_batch_has_one_sized_plan() -> None:
    plan = symbolic(perceptron, (6,))
    assert plan is not None
    assert plan.sized(5) is plan.sized(5)
    assert plan.sized(5).runner.compiled is plan.sized(9).runner.compiled


REFUSED: Mapping[str, Callable[[Any, Any], Any]] = {
    "a mean over the batch": lambda x, y: x - np.mean(x, axis=0),
    "one row more": lambda x, y: np.concatenate([x, y]),
    "all rows but one": lambda x, y: x[1:] + 1,
    "a sum over the batch": lambda x, y: np.sum(x, axis=0),
}


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_other_numbers_are_refused(function: Callable[[Any, Any], Any]) -> None:
    assert symbolic(lambda batch: trace_graph(function, (batch, 64), (1, 64)), (6,), "sm_90a") is None


def test_powers_of_the_batch() -> None:
    def make(batch: int) -> Graph:
        return trace_graph(lambda x, w: (x @ x.T).reshape(-1) * w, (batch, 64), (1,), name="scores")

    plan = symbolic(make, (6,), "sm_90a")
    assert plan is not None
    for batch in (5, 11):
        arrays = given(make(batch))
        np.testing.assert_allclose(plan.sized(batch)(*arrays), make(batch).evaluate(*arrays), rtol=1e-3, atol=1e-4)


def test_the_sample_divides_no_other_number() -> None:
    plan = symbolic(lambda batch: trace_graph(lambda x, y: x * y, (batch, 35), (35,)), (6,))
    assert plan is not None
    assert plan.samples is not None
    assert plan.samples.numbers[0] not in (5, 7)
    x, y = rng.random((7, 35)), rng.random(35)
    np.testing.assert_allclose(plan.sized(7)(x.astype(np.float32), y.astype(np.float32)), x * y, rtol=1e-5)


def test_a_size_is_found_by_its_multiples() -> None:
    plan = symbolic(lambda n: trace_graph(lambda x, w: x @ w, (n, 3, 32), (32, 16)), (6,), "sm_90a")
    assert plan is not None
    run = HostKernel(plan.kernels[0].schedule.lowered())
    x, w, out = (rng.random(shape).astype(np.float32) for shape in ((15, 32), (32, 16), (15, 16)))
    run(x, w, out=out)
    np.testing.assert_allclose(out, x @ w, rtol=1e-5)
    with pytest.raises(CallError) as info:
        run(x[:-1], w, out=out[:-1])
    assert info.value.code == "wrong-shape"
    assert info.value.message == "a is 14x32, the kernel takes (3 * batch)x32 = 12x32"
