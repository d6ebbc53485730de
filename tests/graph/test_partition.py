"""The partition's rules, the memory plan, and views as strides."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fireiron import nn, tensor, trace_graph
from fireiron.graph.areas import Areas
from fireiron.graph.memory import Interval, plan_memory
from fireiron.graph.partition import apart, partition
from fireiron.graph.views import dense, materialised, orders_of, reshaped, views_of


def forms(function: Any, *arrays: Any) -> list[tuple[str, int]]:
    graph = trace_graph(function, *arrays).optimised()
    return [(part.kind, sum(graph.nodes[n].kind != "view" for n in part.nodes)) for part in partition(graph)]


def test_every_operation_is_in_one_part() -> None:
    def function(x: Any, w: Any, g: Any) -> Any:
        y = nn.layer_norm(x @ w + x, g)
        return nn.softmax(y * 2) @ w, y.max(axis=0)

    graph = trace_graph(function, (32, 32), (32, 32), (32,)).optimised()
    parts = partition(graph)
    inside = [n for part in parts for n in part.nodes if graph.nodes[n].kind != "view"]
    assert sorted(inside) == [i for i, n in enumerate(graph.nodes) if n.kind not in ("source", "view")]
    done: set[int] = set()
    for part in parts:
        bases = {b for i in part.inputs for b in [i] if graph.nodes[b].kind not in ("source", "view")}
        assert bases <= done
        done |= set(part.nodes)


def test_a_result_between_two_parts_makes_no_cycle() -> None:
    # exp and the last sum have one space of points, and the product between them reads one and feeds the other.
    def function(x: Any, w: Any) -> Any:
        y = np.exp(x)
        return y + (y @ w)

    assert forms(function, (32, 32), (32, 32)) == [("pointwise", 1), ("product", 2)]
    graph = trace_graph(function, (32, 32), (32, 32))
    areas = Areas(graph)
    exp, _, total = (i for i, n in enumerate(graph.nodes) if n.kind != "source")
    assert areas.makes_cycle(exp, total)


@pytest.mark.product
@pytest.mark.parametrize("how", ["plain", "causal", "mask"])
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
def test_attention_has_the_logarithms_of_its_sums_as_a_second_result(how: str, arch: str) -> None:
    def function(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return nn.attention(q, k, v, mask if how == "mask" else None, causal=how == "causal", lse=True)

    heads = [tensor(1, 2, 16, 16, dtype="f16")] * 3
    graph = trace_graph(function, *heads, tensor(16, 16, dtype="f16"))
    plan = graph.plan(arch)
    assert [x.part.kind for x in plan.launches] == ["attention"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(graph.nodes[i].shape).astype("f2") for i in graph.inputs]
    for made, wanted, error in zip(plan(*arrays), graph.evaluate(*arrays), (2e-3, 1e-5), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=error, atol=error)


def test_the_largest_scores_of_attention_are_a_second_result() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.mT).astype("float32")
        top = scores.max(axis=-1, keepdims=True)
        part = np.exp(scores - top)
        return (part / part.sum(axis=-1, keepdims=True)).astype("float16") @ v, top

    graph = trace_graph(function, *[tensor(1, 2, 16, 16, dtype="f16")] * 3)
    plan = graph.plan("sm_89")
    assert [x.part.kind for x in plan.launches] == ["attention"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 2, 16, 16)).astype("f2") for _ in range(3)]
    for made, wanted in zip(plan(*arrays), graph.evaluate(*arrays), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=2e-3, atol=2e-3)


ONE_ARRAY: dict[str, Any] = {
    "all three": lambda a, b: nn.attention(a, a, a),
    "queries and values": lambda a, b: nn.attention(a, b, a, causal=True),
    "with a mask": lambda a, b: nn.attention(a, a, a, b),
    "turned keys and values": lambda a, b: nn.softmax(a @ b) @ b,
    "queries, turned keys and values": lambda a, b: nn.softmax(a @ a) @ a,
}


@pytest.mark.product
@pytest.mark.parametrize("function", ONE_ARRAY.values(), ids=ONE_ARRAY)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("lead", [(1, 2), (3,)], ids=["batch", "heads"])
def test_an_array_may_be_queries_and_values_of_attention(function: Any, arch: str, lead: tuple[int, ...]) -> None:
    graph = trace_graph(function, *[tensor(*lead, 32, 32, dtype="f16")] * 2)
    plan = graph.plan(arch)
    assert [x.part.kind for x in plan.launches][-1] == "attention"
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal((*lead, 32, 32)) / 4).astype("f2") for _ in range(2)]
    np.testing.assert_allclose(plan(*arrays), graph.evaluate(*arrays), rtol=2e-3, atol=2e-3)


def test_scores_that_others_read_are_stored() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        weights = nn.softmax(q @ k.mT)
        return weights @ v, weights

    shapes = [(2, 2, 16, 16)] * 3
    assert [kind for kind, _ in forms(function, *shapes)] == ["product", "rows", "product"]


def test_a_product_between_two_others_without_folds_is_no_attention() -> None:
    assert [k for k, _ in forms(lambda q, k, v: nn.relu(q @ k.mT) @ v, *[(2, 2, 16, 16)] * 3)] == ["product", "product"]


def test_products_of_one_array_are_one_kernel_where_none_reads_another() -> None:
    def three(x: Any, w: Any, u: Any, v: Any, b: Any) -> Any:
        return x @ w + b, nn.relu(x @ u), x @ v

    assert forms(three, (32, 32), *[(32, 16)] * 3, (16,)) == [("products", 5)]

    def chained(x: Any, w: Any, u: Any, v: Any) -> Any:
        y = x @ w
        return x @ u + y @ v

    assert [k for k, _ in forms(chained, *[(32, 32)] * 4)] == ["product", "products"]
    other = forms(lambda x, w, u: (x @ w, x @ u), (32, 32), (32, 16), (32, 24))
    assert other == [("product", 1), ("product", 1)]


def test_small_pointwise_operations_of_one_shape_share_a_launch() -> None:
    def apart(x: Any, y: Any, z: Any, w: Any) -> Any:
        return -x, np.exp(y) * 2, z + 1, w + 1

    assert forms(apart, (8, 16), (8, 16), (16,), (8, 16)) == [("pointwise", 4), ("pointwise", 1)]
    assert forms(apart, (8, 16), (16, 8), (16,), (4, 32)) == [("pointwise", n) for n in (1, 2, 1, 1)]
    large = [k for k, _ in forms(lambda x, y: (-x, -y), (1024, 1024), (1024, 1024))]
    assert large == ["pointwise", "pointwise"]

    def between(x: Any, w: Any) -> Any:  # the second reads what a product makes of the first
        y = np.exp(x)
        return y, np.exp(((y + 0) @ w).T) + x, (y @ w).max(axis=0)

    assert [k for k, _ in forms(between, (32, 32), (32, 32))].count("pointwise") == 2


def test_a_product_behind_another_of_the_same_array_is_no_part_of_its_kernel() -> None:
    def behind(x: Any, w: Any, u: Any, r: Any) -> Any:
        y = x @ w
        return y, (x @ u) * nn.softmax(y + r)

    assert [k for k, _ in forms(behind, *[(32, 32)] * 4)] == ["product", "rows", "product"]


def test_a_norm_between_two_linear_layers_is_no_attention() -> None:
    x, w, u = (tensor(*s, dtype="f16") for s in ((2, 16, 32), (32, 64), (64, 32)))
    found = forms(lambda x, w, u: nn.rms_norm(x @ w) @ u, x, w, u)
    assert [k for k, _ in found] == ["product rows", "product"]


def test_folds_of_a_product_by_other_dims_are_kernels_of_their_own() -> None:
    x, w = (tensor(*s, dtype="f16") for s in ((32, 32), (32, 16)))
    assert forms(lambda x, w: nn.softmax(x @ w), x, w)[0][0] == "product rows"
    assert {k for k, _ in forms(lambda x, w: nn.softmax(x @ w, axis=0), x, w)} == {"product", "reduction", "pointwise"}
    assert [k for k, _ in forms(lambda x, w: (x @ w).sum(), x, w)] == ["product", "reduction"]


def test_folds_of_rows_and_of_columns_are_one_kernel() -> None:
    def both(x: Any) -> Any:
        return x.sum(axis=0), x.sum(axis=1)

    assert forms(both, (16, 32)) == [("rows", 2)]
    assert forms(lambda x: (x.sum(axis=(0, 1)), x.sum(axis=2)), (4, 16, 32)) == [("rows", 2)]
    wide = forms(both, (8, 1 << 14))  # 132 blocks would store more sums than the array has elements
    assert wide == [("reduction", 1), ("reduction", 1)]
    other = forms(lambda x: (x.sum(axis=0), x.sum(axis=2)), (4, 16, 32))  # the sums are not over all rows
    assert other == [("reduction", 1), ("reduction", 1)]
    between = forms(lambda x: (x - x.sum(axis=0)).sum(axis=1), (16, 32))  # rows that need the sums
    assert [k for k, _ in between] == ["reduction", "reduction"]


def test_an_epilog_ends_where_least_is_stored() -> None:
    # The product's sum of f16 is stored, and not what it is converted to for the norm.
    assert forms(lambda x, w, r: nn.layer_norm((x @ w + r).astype("float16")), (16, 32), (32, 64), (16, 64)) == [
        ("product", 3),
        ("rows", 11),
    ]  # f32: CUDA cores multiply it


def test_short_floats_are_stored_and_converted_where_they_are_read() -> None:
    def function(x: Any, y: Any) -> Any:
        wide = (x + y).astype("float32")
        return wide.sum(axis=0), wide.sum(axis=2)

    half = tensor(2, 8, 32, dtype="f16")
    graph = trace_graph(function, half, half).optimised()
    parts = partition(graph)
    assert [part.kind for part in parts] == ["rows", "reduction"]
    assert [graph.nodes[n].dtype.name for n in parts[0].outputs] == ["f16", "f32"]
    assert [graph.nodes[n].op for part in parts for n in part.nodes] == ["add", "cast", "sum", "cast", "sum"]


def normed_groups(dy: Any, x: Any, gain: Any, mean: Any, scale: Any) -> tuple[Any, ...]:
    """Compute the gradients of images and gain behind a norm of 3 groups of 4 channels, as torch takes them apart."""
    wide, full = (dy * dy).astype("float32"), x.astype("float32")
    mean, scale, gain = (each.astype("float32") for each in (mean, scale, gain))
    first, second = (wide * full).sum((2, 3)), wide.sum((2, 3))
    by_product = (first * gain.reshape(1, 12)).reshape(2, 3, 4).sum(2)
    by_sum = (second * gain.reshape(1, 12)).reshape(2, 3, 4).sum(2)
    slope = (by_sum * mean - by_product) * scale * scale * scale / 128
    rest = -slope * mean - by_sum * scale / 128
    share = (scale.reshape(2, 3, 1) * gain.reshape(1, 3, 4)).reshape(2, 3, 4, 1)
    dx = share * wide.reshape(2, 3, 4, 32) + slope.reshape(2, 3, 1, 1) * full.reshape(2, 3, 4, 32)
    by_gain = (first.reshape(2, 3, 4) - second.reshape(2, 3, 4) * mean.reshape(2, 3, 1)) * scale.reshape(2, 3, 1)
    return (dx + rest.reshape(2, 3, 1, 1)).astype("float16"), by_gain.sum(0).astype("float16")


def test_gradients_of_groups_store_short_floats_and_take_four_kernels() -> None:
    """Views of converted arrays are converted by their readers, and sums over a group's channels share a kernel."""
    images, groups = tensor(2, 12, 4, 8, dtype="f16"), tensor(2, 3, dtype="f16")
    plan = trace_graph(normed_groups, images, images, tensor(12, dtype="f16"), groups, groups).plan()
    assert [launch.part.kind for launch in plan.launches] == ["rows", "reduction", "pointwise", "reduction"]
    large = [n for launch in plan.launches for n in launch.part.outputs if plan.graph.nodes[n].size == 768]
    assert [plan.graph.nodes[n].dtype.name for n in large] == ["f16", "f16"]
    draw = np.random.default_rng(0)
    given = [draw.standard_normal(n.shape).astype("float16") for n in (plan.graph.nodes[i] for i in plan.graph.inputs)]
    for found, right in zip(plan(*given), normed_groups(*given), strict=True):
        assert np.abs(found.astype("float32") - right.astype("float32")).max() < 4e-3 * np.abs(right).max()


def test_a_converted_input_is_no_kernel() -> None:
    """Each of two kernels reads the short floats."""

    def two(x: Any, w: Any) -> tuple[Any, ...]:
        wide = w.astype("float32")
        return x * wide, (x.reshape(4, 2, 16) + 1).sum(2) * wide.sum()

    plan = trace_graph(two, (8, 16), tensor(16, dtype="f16")).plan()
    assert all("cast" not in {plan.graph.nodes[n].op for n in x.part.outputs} for x in plan.launches), plan.explain()
    assert len(plan.launches) == 3


def test_rows_of_joined_heads_come_back_behind_the_product() -> None:
    def function(x: Any, w: Any, r: Any) -> Any:
        heads = np.exp(x).transpose(0, 2, 1, 3).reshape(16, 32)
        return (heads @ w).reshape(2, 8, 16) + r

    assert forms(function, (2, 4, 8, 8), (32, 16), (2, 8, 16)) == [("pointwise", 1), ("product", 2)]


@given(st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 20), st.integers(0, 6)), max_size=24))
@settings(max_examples=60, deadline=None)
def test_what_is_alive_together_shares_no_byte(drawn: list[tuple[int, int, int]]) -> None:
    intervals = {i: Interval(nbytes, first, first + more) for i, (nbytes, first, more) in enumerate(drawn)}
    made = plan_memory(intervals)
    for i, one in intervals.items():
        assert made.offsets[i] % 256 == 0
        assert made.offsets[i] + one.nbytes <= made.nbytes <= made.apart
        for j, other in intervals.items():
            together = i < j and one.first <= other.last and other.first <= one.last
            if together:
                a, b = made.offsets[i], made.offsets[j]
                assert a + one.nbytes <= b or b + other.nbytes <= a


@pytest.mark.parametrize("seed", range(40))
def test_strides_of_reshaped_views(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 6], rng.integers(1, 5)))
    order = rng.permutation(len(shape))
    array = np.arange(prod(shape)).reshape([shape[a] for a in order]).transpose(np.argsort(order))
    assert array.shape == shape
    factors = list(shape)
    new: list[int] = []
    for n in factors:
        new += [2, n // 2] if n % 2 == 0 and rng.random() < 0.5 else [n]
    if len(new) > 1 and rng.random() < 0.6:
        at = int(rng.integers(0, len(new) - 1))
        new[at : at + 2] = [new[at] * new[at + 1]]
    wanted = array.reshape(new)
    found = reshaped(shape, [s // array.itemsize for s in array.strides], tuple(new))
    if found is None:
        assert not np.shares_memory(wanted, array)
        return
    steps = tuple(s * array.itemsize for s in found)
    np.testing.assert_array_equal(np.lib.stride_tricks.as_strided(array, new, steps), wanted)


def test_heads_that_are_joined_are_stored_in_that_order() -> None:
    graph = trace_graph(lambda x: np.exp(x).transpose(0, 2, 1, 3).reshape(2, 8, 32), (2, 4, 8, 8))
    (exp,) = (i for i, n in enumerate(graph.nodes) if n.op == "exp")
    assert orders_of(graph) == {exp: (0, 2, 1, 3)}
    assert views_of(graph, orders_of(graph))[exp].strides == dense((2, 4, 8, 8), (0, 2, 1, 3))  # type: ignore[union-attr]
    assert materialised(graph)[0] == graph


def test_a_view_that_strides_do_not_say_is_copied() -> None:
    graph = trace_graph(lambda x: x.T.reshape(-1) + 1, (4, 8))
    made, _ = materialised(graph)
    assert [n.op for n in made.nodes] == ["input", "transpose", "copy", "reshape", "constant", "add"]


def gated(x: Any, w: Any, y: Any) -> Any:
    return (x @ w) * np.exp(y * y)


def test_an_epilog_computes_what_it_reads_of_other_arrays() -> None:
    graph = trace_graph(gated, *(tensor(*s, dtype="f16") for s in ((32, 64), (64, 48), (32, 48)))).optimised()
    (part,) = partition(graph)
    assert part.kind == "product"
    assert [graph.nodes[i].name for i in part.inputs] == ["x", "w", "y"]
    product, pointwise = apart(graph, part, {})  # where functions take long, they follow the product
    assert (product.kind, pointwise.kind) == ("product", "pointwise")
    made = graph.plan("sm_90a")
    rng = np.random.default_rng(0)
    arrays = [(0.3 * rng.standard_normal(graph.nodes[i].shape)).astype(np.float16) for i in graph.inputs]
    np.testing.assert_allclose(made(*arrays), graph.evaluate(*arrays), atol=5e-3)


def test_what_others_read_too_is_stored() -> None:
    def shared(x: Any, w: Any, y: Any) -> Any:
        z = np.exp(y * y)
        return (x @ w) * z, z

    assert len(partition(trace_graph(shared, (32, 64), (64, 48), (32, 48)).optimised())) == 2


def test_an_operation_of_many_arrays_is_stored() -> None:
    def many(x: Any, w: Any, *y: Any) -> Any:
        return (x @ w) * (y[0] + y[1] * y[2])  # three arrays are more than its value, written and read

    shapes = [(32, 64), (64, 48), *[(32, 48)] * 3]
    assert len(partition(trace_graph(many, *shapes).optimised())) == 2


def test_an_array_has_the_order_in_which_most_readers_take_no_copy() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        seen = nn.attention(q, k, v)
        rows = seen.transpose(0, 2, 1, 3).reshape(32, 32)
        return rows, seen.transpose(1, 3, 0, 2).reshape(32, 32), seen

    graph = trace_graph(function, *[tensor(2, 2, 16, 16, dtype="f16")] * 3)
    made, orders = materialised(graph.optimised())
    assert not [node for node in made.nodes if node.op == "copy"]
    assert (0, 2, 1, 3) in orders.values()


def test_scores_of_scores_are_no_attention() -> None:
    """Of one row the inner product counts as a sum of rows: both operands of the last product come from it."""

    def twice(x: Any, u: Any) -> Any:
        n = nn.softmax(x @ u)
        return (x @ n.swapaxes(1, 2) * 0.1) @ n

    x, u = (np.random.default_rng(1).normal(size=s).astype(np.float32) for s in ((3, 1, 24), (3, 24, 24)))
    n = np.exp(x @ u) / np.exp(x @ u).sum(-1, keepdims=True)
    assert np.allclose(trace_graph(twice, x, u).plan("sm_90a")(x, u), (x @ n.swapaxes(1, 2) * 0.1) @ n, atol=1e-4)


def test_a_convolution_with_two_results_has_a_schedule_on_volta() -> None:
    def both(x: Any, w: Any) -> Any:
        y = nn.conv2d(x, w)
        return np.concatenate([y * np.tanh(y) - y, y], axis=1)

    x, w = (np.random.default_rng(2).normal(size=s).astype(np.float16) for s in ((1, 8, 12, 12), (8, 8, 1, 1)))
    y = np.einsum("nchw,kc->nkhw", x.astype(np.float32), w[:, :, 0, 0].astype(np.float32))
    wanted = np.concatenate([y * np.tanh(y) - y, y], axis=1)
    assert np.abs(trace_graph(both, x, w).plan("sm_70")(x, w) - wanted).max() < 0.1
