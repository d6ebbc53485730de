"""Results of odd widths have padded lines: products read them by bulk copies, rows by whole vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor
from fireiron.algebra.dtypes import f16, f32
from fireiron.graph import plan as plans
from fireiron.graph.composites import Ops
from fireiron.graph.lowered import Misfit
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.plan import Plan, plan
from fireiron.graph.run import NumPy
from fireiron.graph.trace import trace_graph
from fireiron.graph.views import held

ROWS, WIDTH, DEPTH = 72, 459, 16
LEFT, RIGHT, BACK = (tensor(*s, dtype="f16") for s in ((ROWS, DEPTH), (DEPTH, WIDTH), (WIDTH, DEPTH)))
NUMBERS = tensor(ROWS, dtype="i32")


@pytest.fixture(autouse=True)
def spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill memory with bytes of NaN, which no result may read."""
    monkeypatch.setattr(NumPy, "empty", lambda self, nbytes, like: np.full(max(1, nbytes), 0xFF, np.uint8))


def padded(made: Plan) -> dict[int, tuple[int, ...]]:
    """List the strides of stored results whose memory is larger than they are."""
    stored = {i for x in made.launches for i in x.part.outputs}
    return {i: v.strides for i, v in made.views.items() if i in stored and held(v) > made.graph.nodes[i].size}


def checked(graph: Graph, made: Plan, within: float = 4e-3) -> None:
    draw = np.random.default_rng(0)
    given = [
        draw.integers(0, WIDTH, n.shape).astype("i4")
        if n.dtype.kind == "int"
        else draw.standard_normal(n.shape).astype(n.dtype.numpy)
        for n in (graph.nodes[i] for i in graph.inputs)
    ]
    wanted = graph.evaluate(*(x if x.dtype == np.int32 else x.astype("f8") for x in given))
    results, wanted = ((each,) if not isinstance(each, tuple) else each for each in (made(*given), wanted))
    for found, right in zip(results, wanted, strict=True):
        assert np.isfinite(found.astype("f8")).all()
        assert np.abs(found - right).max() <= within * max(1.0, np.abs(right).max())


def softmax(x: Any, w: Any, v: Any, place: Any) -> Any:
    """Multiply rows of a softmax, without one at a place, by a matrix and by another one."""
    here = np.arange(WIDTH, dtype="i4") == place.reshape(-1, 1)
    p = (nn.softmax((x @ w).astype("float32")) - here.astype("float32")).astype("float16")
    return p @ v, p.T @ x


def losses(x: Any, w: Any, v: Any, place: Any) -> Any:
    """Take losses of classes, and multiply scores by a matrix."""
    scores = x @ w
    here = np.arange(WIDTH, dtype="i4") == place.reshape(-1, 1)
    return -np.where(here, nn.log_softmax(scores.astype("float32")), 0.0).sum(1), scores @ v


def activation(x: Any, w: Any, v: Any, place: Any) -> Any:
    """Take products on both sides of points that depend on rows."""
    y = np.tanh((x @ w).astype("float32") * place.reshape(-1, 1).astype("float32") / WIDTH)
    return y.astype("float16") @ v, y.min(1), y.max(0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
@pytest.mark.parametrize("function", [softmax, losses, activation])
def test_what_is_read_of_padded_lines(function: Callable[..., Any], arch: str) -> None:
    graph = trace_graph(function, LEFT, RIGHT, BACK, NUMBERS)
    made = graph.plan(arch)
    assert padded(made), made.explain()
    assert set(padded(made).values()) == {(512, 1)}  # 128 bytes
    checked(graph, made)


def test_heads_of_several_batches_are_padded() -> None:
    """The lines of all batches lie at equal distances."""
    shapes = tensor(3, 40, 16, dtype="f16"), tensor(16, 300, dtype="f16"), tensor(300, 16, dtype="f16")
    graph = trace_graph(lambda x, y, z: (np.tanh(x @ y) @ z,), *shapes)
    made = graph.plan("sm_89")
    assert set(padded(made).values()) == {(40 * 320, 320, 1)}
    checked(graph, made)


@pytest.mark.parametrize("function", [
    lambda x, y, z: (np.tanh(x @ y),),
    lambda x, y, z: ((x @ y).reshape(ROWS * 27, 17).astype("float32").sum(1),),
    lambda x, y, z: (np.concatenate([x @ y, x @ y], axis=1),),
    lambda x, y, z: (np.tanh(x @ y[:, :456]) @ z[:456],),
    lambda x, y, z: (np.tanh(np.concatenate([z, z]) @ y[:, :27]) @ z[:27],),
    lambda x, y, z: (np.tanh(x[:8] @ y) @ z,),
], ids=["an output", "lines that are divided", "copied", "whole vectors", "short lines", "few lines"])  # fmt: skip
def test_what_is_not_padded(function: Callable[..., Any]) -> None:
    graph = trace_graph(function, LEFT, RIGHT, BACK)
    made = graph.plan("sm_89")
    assert not padded(made), made.explain()
    checked(graph, made)


def test_an_output_may_have_gaps_where_the_caller_says_so() -> None:
    """Copies for other outputs are as before."""
    graph = trace_graph(lambda x, y, z: (np.tanh(x @ y), np.tanh(x @ y) @ z), LEFT, RIGHT, BACK)
    assert not padded(graph.plan("sm_89"))
    made = plan(graph, "sm_89", gaps=(0,))
    assert [made.views[i].strides for i in made.graph.outputs] == [(512, 1), (DEPTH, 1)]
    checked(graph, made)


def test_a_library_writes_padded_lines_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It computes what has no kernel."""
    lowered = plans.lowered

    def without_points(graph: Graph, part: Any, *rest: Any) -> Any:
        if part.kind == "pointwise":
            raise Misfit("the test takes no kernel of points")
        return lowered(graph, part, *rest)

    monkeypatch.setattr(plans, "lowered", without_points)
    monkeypatch.setattr("fireiron.graph.plan.kept_launches", lambda *_: None)
    graph = trace_graph(lambda x, y, z: (np.where(x[:, :1] > 0, x @ y, 0.5)[:, ::-1][:, ::-1] @ z,), LEFT, RIGHT, BACK)
    made = graph.plan("sm_89")
    assert any(x.kernel is None for x in made.launches)
    checked(graph, made)


def softmax_of(padded: bool) -> Graph:
    """Trace a softmax of an array whose lines have gaps."""
    b = Builder()
    x = b.input("x", (ROWS, WIDTH), f16, strides=(512, 1), padded=padded)
    o = Ops(b)
    e = o.exp(o.cast(x, dtype=f32))
    return b.graph("softmax", [o.sum(e, axes=(1,), keepdims=False)])


def test_gaps_of_an_input_are_read_if_the_caller_says_so() -> None:
    """Other gaps may end where memory ends: rows are then read element by element."""
    vectors, elements = (softmax_of(padded).plan("sm_89").kernels[0].schedule.cuda() for padded in (True, False))
    assert "_16B(" in vectors
    assert "_16B(" not in elements
    for gaps in (True, False):
        graph = softmax_of(gaps)
        checked(graph, graph.plan("sm_89"))


def projected(x: Any, y: Any, z: Any) -> Any:
    """Multiply an array of odd width from both sides."""
    return y @ x.T, x.T @ z


SIZES = (4096, 1001), (512, 1001), (4096, 256)


def test_products_read_a_copy_of_large_arrays_of_odd_widths() -> None:
    """One copy serves both products, one of which reads it transposed."""
    graph = trace_graph(projected, *(tensor(*s, dtype="f16") for s in SIZES))
    made = graph.plan("sm_90a")
    copied = [n for x in made.launches for n in x.part.nodes if made.graph.nodes[n].op == "copy"]
    assert [made.views[n].strides for n in copied] == [(1024, 1), (1024, 1)]  # x and y
    kernels = [x.kernel for x in made.launches if x.kernel is not None and x.part.kind == "product"]
    assert all("wgmma" in kernel.schedule.cuda() for kernel in kernels)


@pytest.mark.parametrize("sizes", [
    ((32768, 1001), (96, 1001), (32768, 80)),
    ((256, 1001), (512, 1001), (256, 512)),
    ((4096, 1008), (512, 1008), (4096, 256)),
], ids=["read seldom", "small", "whole vectors"])  # fmt: skip
def test_products_read_other_arrays_as_they_are(sizes: tuple[tuple[int, int], ...]) -> None:
    made = trace_graph(projected, *(tensor(*s, dtype="f16") for s in sizes)).plan("sm_90a")
    assert sizes[0] not in [node.shape for node in made.graph.nodes if node.op == "copy"]


def test_sums_over_many_lines_read_a_copy_of_a_narrow_array() -> None:
    """As the gradients of the weights of points with three coordinates."""
    for width, copied in ((3, True), (8, False)):
        graph = trace_graph(lambda y, x: y.T @ x, tensor(16384, 64, dtype="f16"), tensor(16384, width, dtype="f16"))
        made = graph.plan("sm_90a")
        assert (8, 1) in padded(made).values() if copied else not padded(made)
        assert "wgmma" in made.kernels[-1].schedule.cuda()


def test_copies_of_odd_widths_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fireiron.graph.aligned.LEAST_WORK", 0.0)
    monkeypatch.setattr("fireiron.graph.aligned.LEAST_READS", 1)
    graph = trace_graph(projected, *(tensor(*s, dtype="f16") for s in ((72, 459), (16, 459), (72, 24))))
    made = graph.plan("sm_80")
    assert sum(node.op == "copy" for node in made.graph.nodes) == 2
    assert set(padded(made).values()) == {(512, 1)}
    checked(graph, made)


def test_symbols_have_no_padded_lines() -> None:
    """The memory of their results depends on the sizes of a call."""
    from fireiron.graph.sizes import symbolic

    def make(rows: int) -> Graph:
        return trace_graph(lambda x, y, z: np.tanh(x @ y) @ z, tensor(rows, DEPTH, dtype="f16"), RIGHT, BACK)

    made = symbolic(make, (256,), "sm_89", ("m",))
    assert made is not None
    assert not padded(made)
