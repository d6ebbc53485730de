"""Arrays that lie across for rows and folds: they are copied, or read by kernels of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor
from fireiron.algebra.dtypes import f16, f32
from fireiron.graph.composites import Ops
from fireiron.graph.crossed import LEAST_NBYTES
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.plan import Plan
from fireiron.graph.trace import trace_graph

LARGE, SMALL = 256, 32  # sides of matrices of f16


def copies(plan: Plan) -> int:
    nodes = plan.graph.nodes
    return sum(all(nodes[n].op in ("copy", "transpose") for n in x.part.nodes) for x in plan.launches)


def computed(graph: Graph, plan: Plan, within: float = 2e-3) -> None:
    """Hold a simulated plan against the graph."""
    draw = np.random.default_rng(0)
    given = [draw.standard_normal(graph.nodes[i].shape).astype(graph.nodes[i].dtype.numpy) for i in graph.inputs]
    made, wanted = plan(*given), graph.evaluate(*(x.astype("f8") for x in given))
    pairs = zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]
    for found, right in pairs:
        assert np.abs(found - right).max() <= within * max(1.0, np.abs(right).max())


def folded(x: Any, y: Any) -> Any:
    """Fold the product of a matrix and a transposed one."""
    return (x.astype("float32") * y.T.astype("float32")).sum(0), x.astype("float32").sum(0)


@pytest.mark.parametrize(("side", "count"), [(LARGE, 1), (SMALL, 0)])
def test_a_fold_reads_a_copy_of_what_lies_across(side: int, count: int) -> None:
    """Small arrays are read as they lie."""
    assert LARGE**2 * 2 >= LEAST_NBYTES > SMALL**2 * 2
    graph = trace_graph(folded, *[tensor(side, side, dtype="f16")] * 2)
    plan = graph.plan("sm_89")
    assert copies(plan) == count, plan.explain()
    assert [x.part.kind for x in plan.launches][-1:] == ["reduction"]
    if side == SMALL:
        computed(graph, plan)
    for launch in plan.launches:
        assert launch.kernel is not None
        launch.kernel.source.compile()  # registers suffice


def test_a_copy_is_right() -> None:
    graph = trace_graph(folded, tensor(512, 64, dtype="f16"), tensor(64, 512, dtype="f16"))
    plan = graph.plan("sm_89")
    assert copies(plan) == 1
    computed(graph, plan)


def test_rows_and_columns_of_one_matrix_are_not_one_kernel() -> None:
    """They share the condition, which neither kernel stores."""

    def losses(x: Any, place: Any) -> tuple[Any, Any]:
        here = np.arange(LARGE, dtype="i4") == place.reshape(-1, 1)
        return tuple(np.where(here, nn.log_softmax(y.astype("float32")), 0.0).sum(1) for y in (x, x.T))

    plan = trace_graph(losses, tensor(LARGE, LARGE, dtype="f16"), tensor(LARGE, dtype="i32")).plan("sm_89")
    x = plan.graph.inputs[0]
    for launch in plan.launches:
        read = [plan.views[i].strides for i in launch.part.inputs if plan.views[i].node == x]
        assert len(set(read)) <= 1, plan.explain()
    assert copies(plan) == 0


def test_places_of_many_columns_are_chosen_by_a_fold() -> None:
    """No preset reads an array both along its columns, which lie apart, and at one place of each."""
    side = 4096

    def losses(x: Any, place: Any) -> Any:
        here = np.arange(side, dtype="i4") == place.reshape(-1, 1)
        return np.where(here, nn.log_softmax(x.T.astype("float32")), 0.0).sum(1)

    plan = trace_graph(losses, tensor(side, side, dtype="f16"), tensor(side, dtype="i32")).plan("sm_90a")
    assert not plan.foreign, plan.explain()


def images(function: Callable[..., int], *shapes: tuple[int, ...]) -> Graph:
    """Trace a function of images whose channels lie last, and of other arrays."""
    b = Builder()
    given = [
        b.input(f"x{n}", s, f16 if len(s) == 4 else f32, order=(0, 2, 3, 1) if len(s) == 4 else None)
        for n, s in enumerate(shapes)
    ]
    return b.graph("images", [function(Ops(b), *given)])


def test_results_of_images_keep_channels_last() -> None:
    """So does what is computed of them in another shape; a result that is read flat lies as it is read."""
    shape = (2, 8, 4, 4)
    plan = images(lambda o, x: o.exp(x), shape).plan("sm_89")
    assert plan.views[plan.graph.outputs[0]].strides == (128, 1, 32, 8)
    groups = images(lambda o, x: o.exp(o.reshape(x, shape=(2, 2, 4, 16))), shape).plan("sm_89")
    assert groups.views[groups.graph.outputs[0]].strides == (128, 4, 1, 8)
    flat = images(lambda o, x: o.reshape(o.exp(x), shape=(2, 128)), shape).plan("sm_89")
    assert copies(flat) == 0
    array = np.random.default_rng(0).standard_normal(shape).astype("f2")
    np.testing.assert_allclose(flat(array), np.exp(array.astype("f")).reshape(2, 128), rtol=2e-3)


def normed(o: Ops, x: int, gain: int) -> int:
    """Norm groups of channels, whose elements do not lie together."""
    wide = o.cast(o.reshape(x, shape=(16, 4, 4, 1024)), dtype=f32)
    mean = o.mul(o.sum(wide, axes=(2, 3), keepdims=True), 1 / 4096)
    away = o.sub(wide, mean)
    scale = o.rsqrt(o.add(o.mul(o.sum(o.mul(away, away), axes=(2, 3), keepdims=True), 1 / 4096), 1e-5))
    made = o.mul(o.mul(away, scale), o.reshape(gain, shape=(1, 4, 4, 1)))
    return o.cast(made, dtype=f16)


def test_groups_whose_elements_lie_apart_are_folded_by_kernels_of_their_own() -> None:
    """Three kernels read the short floats; none stores wide ones."""
    graph = images(normed, (16, 16, 32, 32), (16,))
    plan = graph.plan("sm_90a")
    assert [x.part.kind for x in plan.launches] == ["reduction", "reduction", "pointwise"], plan.explain()
    stored = [plan.graph.nodes[n] for x in plan.launches for n in x.part.outputs]
    assert {node.dtype.name for node in stored if node.size > 1 << 12} == {"f16"}
    assert plan.views[plan.graph.outputs[0]].strides == (16384, 4, 1, 16)


def test_sums_whose_rows_wait_on_nothing_have_no_other_results() -> None:
    """What depends on no fold is computed beside them, not by threads that have other points."""

    def gates(x: Any, dy: Any, z: Any) -> tuple[Any, Any]:
        gate = (1 / (1 + np.exp(-z.astype("float32")))).astype("float16")
        total = (x * dy).astype("float32").sum((2, 3), keepdims=True)
        return gate, (total * gate.astype("float32")).astype("float16")

    arrays = tensor(4, 16, 8, 8, dtype="f16"), tensor(4, 16, 8, 8, dtype="f16"), tensor(4, 16, 1, 1, dtype="f16")
    graph = trace_graph(gates, *arrays)
    computed(graph, graph.plan("sm_89", strict=True))


def scaled(x: Any, y: Any) -> Any:
    """Multiply by a matrix that repeats along the first axis."""
    repeated = np.broadcast_to(y, x.shape)
    return (repeated.astype("float32") * x.astype("float32")).sum(2)


def test_what_repeats_along_a_dim_decides_no_order() -> None:
    graph = trace_graph(scaled, tensor(4, 64, 512, dtype="f16"), tensor(64, 512, dtype="f16"))
    plan = graph.plan("sm_89")
    assert not copies(plan), plan.explain()
    computed(graph, plan)


def test_points_are_not_divided_along_a_dim_that_an_array_repeats_over() -> None:
    """A number of each row lies along the rows, as if it were a transposed matrix."""
    graph = trace_graph(lambda x, y: np.exp(np.broadcast_to(y[:, :, None], x.shape)) * x, (8, 64, 64), (8, 64))
    (kernel,) = graph.plan("sm_89").kernels
    assert "shared" not in kernel.schedule.cuda()
    computed(graph, graph.plan("sm_89"))
