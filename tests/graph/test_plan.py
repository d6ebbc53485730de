"""Plans on the simulator: kernels of a graph compute what the graph does, parted as the rules say."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, nn, tensor, trace_graph
from fireiron.base.errors import CompileError
from fireiron.front.host import HostKernel
from fireiron.front.verbs import Schedule
from fireiron.graph import plan as planning
from fireiron.graph.lowered import Misfit
from fireiron.graph.nodes import Graph
from fireiron.graph.plan import Plan
from fireiron.graph.run import Runner

ARCH = "sm_90a"
Shape = tuple[int, ...]


def drawn(graph: Graph, seed: int = 0) -> list[Any]:
    """Draw the inputs of a graph."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for i in graph.inputs:
        node = graph.nodes[i]
        if node.dtype.kind == "int":
            made.append(rng.integers(0, 2 if node.dtype.name == "u8" else 5, node.shape).astype(node.dtype.numpy))
        else:
            made.append((rng.standard_normal(node.shape) * 0.5).astype(node.dtype.numpy))
    return made


def close(plan: Plan, graph: Graph, atol: float) -> None:
    """Compare what a plan's kernels compute with the graph in f64."""
    arrays = drawn(graph)
    made, wanted = plan(*arrays), graph.evaluate(*arrays)
    for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (made, wanted)), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.astype(np.float64), other, rtol=4 * atol, atol=atol)


def kinds(plan: Plan) -> list[str]:
    """List the forms of a plan's launches."""
    return [launch.part.kind if launch.kernel is not None else "left over" for launch in plan.launches]


def attention_by_hand(q: Any, k: Any, v: Any, seen: Any) -> Any:
    score = q @ k.mT * 0.25 + seen
    part = np.exp(score - score.max(axis=-1, keepdims=True))
    return (part / part.sum(axis=-1, keepdims=True)).astype("float16") @ v


def normed(x: Any, gain: Any) -> Any:
    middle = x.mean(axis=-1, keepdims=True)
    return (x - middle) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * gain


F = "f16"


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    size = x.shape[-1] // 2
    turned = np.concatenate([-x[..., size:], x[..., :size]], axis=-1)
    return x * cos + turned * sin


def half(*shape: int) -> Any:
    return tensor(*shape, dtype=F)


CASES: dict[str, tuple[Callable[..., Any], list[Any], list[str]]] = {
    "layer norm": (nn.layer_norm, [(6, 64), (64,), (64,)], ["rows"]),
    "a norm that is written out": (normed, [(2, 3, 64), (64,)], ["rows"]),
    "softmax": (lambda x: nn.softmax(x * 3), [(4, 96)], ["rows"]),
    "softmax of columns": (
        lambda x: nn.softmax(x, axis=0), [(16, 32)], ["reduction", "reduction", "pointwise"],  # exp is computed again
    ),
    "bias and gelu": (lambda x, b: nn.gelu(x + b), [(8, 64), (64,)], ["pointwise"]),
    "residual and norm": (
        lambda x, r, b, g: (nn.layer_norm(x + r + b, g), x + r + b), [(4, 64), (4, 64), (64,), (64,)], ["rows"],
    ),
    "sums": (lambda x: (x * x).sum(axis=0), [(64, 32)], ["reduction"]),
    "a number": (lambda x: x.mean(), [(8, 64)], ["reduction"]),
    "sums of sums": (
        lambda x: x / x.sum(axis=1, keepdims=True).max(axis=0), [(8, 64)], ["reduction", "reduction", "pointwise"],
    ),
    "two products": (
        lambda x, w, u: nn.relu(x @ w) @ u, [half(32, 64), half(64, 32), half(32, 16)], ["product", "product"],
    ),
    "product, bias, gelu": (
        lambda x, w, b: nn.gelu(x @ w + b), [half(2, 16, 32), half(32, 64), half(64)],
        ["product"],
    ),
    "weights that lie transposed": (lambda x, w: x @ w.T, [half(32, 64), half(32, 64)], ["product"]),
    "two products in one sum": (
        lambda x, w, h, u, b: nn.relu(x @ w + h @ u + b),
        [half(64, 32), half(32, 64), half(64, 48), half(48, 64), half(64)], ["products"],
    ),
    "what is computed with an operand": (
        lambda x, w, g: nn.relu(x * g) @ w * 2, [half(32, 64), half(64, 32), half(64)], ["product"],
    ),
    "a gate": (
        lambda x, w, u: nn.silu(x @ w.T) * (x @ u.T), [half(2, 32, 64), half(64, 64), half(64, 64)], ["products"],
    ),
    "products of a batch": (
        lambda x, y, z: (x @ y) * z, [half(3, 16, 32), half(3, 32, 16), half(3, 16, 16)],
        ["product"],
    ),
    "a product that is read twice": (
        lambda x, w: nn.softmax(x @ w) + x @ w, [half(16, 32), half(32, 64)], ["product", "rows"],
    ),
    "attention": (
        lambda q, k, v: nn.attention(q, k, v), [half(2, 2, 32, 16)] * 3, ["attention"],
    ),
    "attention that is written out, with a mask": (
        attention_by_hand, [*[half(2, 2, 32, 16)] * 3, tensor(2, 1, 1, 32, dtype="f32")], ["attention"],
    ),
    "attention of groups of heads": (
        lambda q, k, v: nn.attention(q, k, v, causal=True), [half(2, 2, 2, 16, 16), *[half(2, 2, 1, 16, 16)] * 2],
        ["attention"],
    ),
    "heads of groups that are joined again": (
        lambda q, k, v, w: nn.attention(q, k, v).reshape(2, 4, 16, 16).transpose(0, 2, 1, 3).reshape(32, 64) @ w,
        [half(2, 2, 2, 16, 16), half(2, 2, 1, 16, 16), half(2, 2, 1, 16, 16), half(64, 16)], ["attention", "product"],
    ),
    "attention that is causal": (
        lambda q, k, v: nn.attention(q, k, v, causal=True), [half(2, 2, 32, 16)] * 3, ["attention"],
    ),
    "embeddings": (
        lambda i, t, p: nn.embedding(i, t) + p, [tensor(3, 8, dtype="i32"), (5, 32), (8, 32)], ["pointwise"],
    ),
    "coordinates": (lambda x: x + np.where(x[:1] > 0, 1, 2) * nn.softmax(x), [(4, 32)], ["rows"]),
    "a mask": (lambda m, x: np.where(m, x, -1.0), [tensor(1, 64, dtype="u8"), (4, 64)], ["pointwise"]),
    "transposed results": (lambda x: np.exp(x).T, [(16, 32)], ["pointwise"]),
    "an input as it is": (lambda x: (x, x + 1), [(4, 32)], ["pointwise", "pointwise"]),
    "values that repeat": (
        lambda x, y: np.broadcast_to(x, (3, 64)) * y.T + np.broadcast_to(x[0], (3, 64)),
        [(1, 64), (64, 3)], ["pointwise"],
    ),
    "small operations side by side": (
        lambda x, y, z, s: (x * s, np.exp(y) + 1, y * y, z - s), [(4, 32), (4, 32), (1, 4, 32), ()],
        ["pointwise", "pointwise"],
    ),
    "numbers": (lambda s, t: (np.sqrt(s * s) + t, s + 1), [(), ()], ["pointwise"]),
    "zeros that a product multiplies": (
        lambda x, w: np.broadcast_to(0.0, (16, 64)).astype("float16") @ w + x, [half(16, 32), half(64, 32)],
        ["product"],
    ),
    "rotary embedding": (rotated, [(2, 4, 8, 16), (8, 16), (8, 16)], ["pointwise"]),
    "halves": (lambda x: x[:, :32] * nn.silu(x[:, 32:]), [(4, 64)], ["pointwise"]),
    "what is left to NumPy": (
        lambda x: np.exp(np.cumsum(x + 1, axis=1) * 0.01), [(4, 32)], ["pointwise", "left over", "pointwise"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_plan_computes_its_graph(name: str) -> None:
    function, arrays, wanted = CASES[name]
    graph = trace_graph(function, *arrays, name="case")
    plan = graph.plan(ARCH)
    assert sorted(kinds(plan)) == sorted(wanted), plan.explain()
    short = any(graph.nodes[i].dtype.bits == 16 for i in graph.inputs)
    close(plan, graph, 2e-3 if short else 1e-5)


def encoder(
    x: Any, mask: Any, wq: Any, bq: Any, wk: Any, bk: Any, wv: Any, bv: Any, wo: Any, bo: Any, *rest: Any
) -> Any:
    gain, bias, up, c, down, d, gain2, bias2 = rest
    b, s, h = x.shape

    def heads(w: Any, bias: Any) -> Any:
        return (x.reshape(b * s, h) @ w + bias).reshape(b, s, 2, -1).transpose(0, 2, 1, 3)

    o = nn.attention(heads(wq, bq), heads(wk, bk), heads(wv, bv), mask)
    o = o.transpose(0, 2, 1, 3).reshape(b, s, h) @ wo + bo
    y = nn.layer_norm(o + x, gain, bias)
    return nn.layer_norm(nn.gelu(y @ up + c) @ down + d + y, gain2, bias2)


@pytest.mark.parametrize(
    ("queries", "keys", "mask"),
    [
        ((1, 4, 32, 16), (1, 4, 32, 16), (1, 1, 1, 32)),
        ((1, 1, 32, 16), (1, 1, 32, 16), ()),
        ((4, 32, 16), (4, 32, 16), ()),
        ((2, 4, 1, 16), (2, 4, 48, 16), (2, 1, 1, 48)),
        ((1, 4, 1, 16), (1, 4, 48, 16), ()),
        ((1, 2, 2, 1, 16), (1, 2, 1, 48, 16), ()),
    ],
)
def test_a_batch_a_head_or_a_query_that_is_alone_has_attention_in_one_kernel(
    queries: Shape, keys: Shape, mask: Shape
) -> None:
    def attend(q: Any, k: Any, v: Any, *masks: Any) -> Any:
        return nn.attention(q, k, v, *masks)

    given = [half(*queries), half(*keys), half(*keys), *([half(*mask)] if mask else [])]
    graph = trace_graph(attend, *given)
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["attention"], plan.explain()
    close(plan, graph, 2e-3)


@pytest.mark.parametrize(("arch", "preset"), [("sm_80", "mma"), ("sm_90a", "wgmma")])
def test_a_mask_of_bytes_leaves_attention_to_tensor_cores(arch: str, preset: str) -> None:
    """The mask is the program's first array; instructions are chosen for the type of the queries."""
    given = [half(1, 2, 64, 64)] * 3
    graph = trace_graph(lambda q, k, v, seen: nn.attention(q, k, v, seen), *given, tensor(1, 1, 64, 64, dtype="u8"))
    plan = graph.plan(arch)
    assert plan.kernels[0].schedule.name.startswith(preset), plan.explain()
    close(plan, graph, 2e-3)


def test_a_reshape_that_drops_an_axis_of_one_element_is_no_obstacle_to_an_epilog() -> None:
    graph = trace_graph(lambda x, w, b: nn.relu(x.reshape(16, 32) @ w + b), half(1, 16, 32), half(32, 16), half(16))
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["product"], plan.explain()
    close(plan, graph, 2e-3)


@pytest.fixture(scope="module")
def layer() -> tuple[Graph, Plan]:
    h, f = 32, 64
    shapes = [(2, 16, h), (2, 1, 1, 16), *[(h, h), (h,)] * 4, (h,), (h,), (h, f), (f,), (f, h), (h,), (h,), (h,)]
    graph = trace_graph(encoder, *(tensor(*s, dtype=F) for s in shapes))
    return graph, graph.plan(ARCH)


def test_a_layer_of_a_transformer_is_five_kernels(layer: tuple[Graph, Plan]) -> None:
    graph, plan = layer
    assert kinds(plan) == ["products", "attention", "product rows", "product", "product rows"]
    assert len({launch.kernel.schedule.cuda() for launch in plan.launches if launch.kernel}) <= 6
    arrays = drawn(graph)
    exact, eager = graph.evaluate(*arrays), graph.evaluate(*arrays, rounded=True)
    error = np.abs(plan(*arrays).astype(np.float64) - exact).max()
    assert error <= np.abs(eager - exact).max()  # of operators that run one by one, each rounded to f16


def test_a_plan_runs_again(layer: tuple[Graph, Plan]) -> None:
    graph, plan = layer
    arrays = drawn(graph, 3)
    assert np.array_equal(plan(*arrays), plan(*arrays))


def test_kernels_begin_while_the_ones_before_them_end() -> None:
    def function(x: Any, w: Any, g: Any) -> Any:
        return nn.layer_norm(np.cumsum(np.exp(nn.softmax(x * 2) @ w), axis=0), g)

    graph = trace_graph(function, (32, 32), (32, 32), (32,), name="g")
    plan = graph.plan(ARCH, dependent=True)
    early = [x.kernel.schedule.lowered().dependent if x.kernel else None for x in plan.launches]
    assert kinds(plan) == ["rows", "product", "left over", "rows"]
    assert early == [False, True, None, False]  # the library's operations have ended when the next launch begins
    close(plan, graph, 1e-4)
    assert not any(k.schedule.lowered().dependent for k in graph.plan("sm_89", dependent=True).kernels)


def test_the_model_decides_between_one_kernel_and_several() -> None:
    def gate(x: Any, w: Any, u: Any) -> Any:
        return nn.silu(x @ w.T) * (x @ u.T)

    plan = trace_graph(gate, half(12288, 768), half(768, 768), half(768, 768)).plan(ARCH)
    assert kinds(plan) == ["product", "product"]
    assert "one kernel would take" in plan.launches[0].why


def test_what_others_read_is_no_prolog() -> None:
    def both(x: Any, w: Any) -> Any:
        y = nn.relu(x)
        return y.reshape(-1), y @ w

    graph = trace_graph(both, half(2, 16, 32), half(32, 64))
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["pointwise", "product"], plan.explain()
    close(plan, graph, 2e-3)


def test_parts_of_a_part_give_the_short_floats_that_others_convert() -> None:
    def norms(x: Any, w: Any, g: Any) -> Any:
        y = (x @ w.T).sum(axis=-1, keepdims=True) * 0.1 + x
        return nn.rms_norm(y, g) @ w

    graph = trace_graph(norms, half(2, 16, 32), half(32, 32), half(32))
    plan = graph.plan("sm_80")
    assert kinds(plan) == ["product rows", "rows", "product"], plan.explain()
    close(plan, graph, 3e-3)


GATHERS: dict[str, tuple[Any, bool]] = {  # and whether a kernel computes all
    "of all elements": (lambda x, i: np.take(x, i), True),
    "of a vector": (lambda x, i: x.reshape(-1)[i] * 2, True),
    "of elements, by a list": (lambda x, i: np.take(x, i.reshape(-1)), True),
    "of elements of a transpose": (lambda x, i: np.take(x.T, i), True),
    "of computed elements": (lambda x, i: np.take(x + 1, i) - 1, True),
    "of columns": (lambda x, i: x.T[i[0]], True),
    "of another axis": (lambda x, i: x.reshape(4, 4, 8).transpose(1, 0, 2)[i[0]], True),
    "of the last axis": (lambda x, i: x.reshape(4, 4, 8).transpose(2, 0, 1)[i[0]] * 2, True),
    "beside its table": (lambda x, i: x[i[0]] + x[:3], True),
    "of one line": (lambda x, i: x[None][i[0] * 0], False),
    "of a vector of one": (lambda x, i: np.take(x[:1, :1], i * 0), False),
}


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("kind", ["f4", "f2"])
def test_gathers_read_the_axis_that_they_name(name: str, kind: str) -> None:
    function, by_kernels = GATHERS[name]
    x, i = np.random.default_rng(0).standard_normal((16, 8)).astype(kind), np.array([[3, 1, 2], [0, 3, 1]], "i4")
    graph = trace_graph(function, x, i)
    made = graph.plan(ARCH)
    assert all(launch.kernel is not None for launch in made.launches) == by_kernels
    np.testing.assert_allclose(made(x, i), function(x, i), rtol=2e-3)


def test_the_norm_of_gathered_rows_computes_its_squares() -> None:
    """The kernel that gathers rows, which others read too, stores neither squares nor wider floats."""

    def embedded(table: Any, ids: Any, gain: Any) -> Any:
        x = table[ids]
        return nn.rms_norm(x, gain), x * 2

    graph = trace_graph(embedded, half(40, 32), tensor(2, 16, dtype="i32"), half(32))
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["pointwise", "rows"], plan.explain()
    assert all(plan.graph.nodes[i].dtype.name == F for x in plan.launches for i in x.part.outputs)
    close(plan, graph, 2e-3)


@pytest.mark.parametrize("form", ["norm", "centred"])
def test_norms_of_single_heads_are_one_kernel(form: str) -> None:
    """A head is part of a product's row: what the fold and the result need is computed in the shape of heads."""

    def heads(x: Any, w: Any, b: Any, g: Any) -> Any:
        y = (x @ w.T + b).reshape(2, 16, 4, 32)
        return nn.rms_norm(y, g) if form == "norm" else normed(y.astype("float32"), g).astype("float16")

    graph = trace_graph(heads, half(2, 16, 64), half(128, 64), half(128), half(32))
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["product", "rows"], plan.explain()
    close(plan, graph, 4e-3)


def test_a_value_that_the_caller_reads_too_is_computed_again_from_fewer_bytes() -> None:
    def both(x: Any, w: Any, g: Any) -> Any:
        y = (x @ w.T).astype("float32") * 2
        return nn.rms_norm(y.reshape(2, 16, 4, 32), g), y

    graph = trace_graph(both, half(2, 16, 64), half(128, 64), tensor(32))
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["product", "rows"], plan.explain()  # the product gives both, in 16 bits and in 32
    assert str(plan.graph.nodes[plan.launches[-1].part.inputs[0]].dtype) == F
    close(plan, graph, 4e-3)


def test_a_fold_is_not_computed_again_for_each_column() -> None:
    """The sums of one array's rows scale those of another: one number for each row is stored."""

    def scaled(x: Any, y: Any) -> Any:
        return y * (x * x).sum(axis=-1, keepdims=True)

    graph = trace_graph(scaled, (64, 48), (64, 32))
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["reduction", "pointwise"], plan.explain()
    close(plan, graph, 1e-4)


def test_rotary_positions_of_a_part_of_each_head_are_one_kernel() -> None:
    def turned(x: Any, cos: Any, sin: Any) -> Any:
        heads = x.transpose(0, 2, 1, 3)
        part = heads[..., :16]
        other = np.concatenate([-part[..., 8:], part[..., :8]], axis=-1)
        return np.concatenate([part * cos + other * sin, heads[..., 16:]], axis=-1)

    graph = trace_graph(turned, half(2, 24, 4, 40), half(24, 16), half(24, 16))
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["pointwise"], plan.explain()
    close(plan, graph, 2e-3)


@pytest.mark.parametrize(("count", "rows", "forms"), [
    (4, 8, ["pointwise"]),
    (5, 8, ["left over", "pointwise"]),
    (2, 1 << 17, ["left over"]),
])  # fmt: skip
def test_concatenations_of_many_parts_and_large_ones_alone_are_left(count: int, rows: int, forms: list[str]) -> None:
    def joined(*parts: Any) -> Any:
        made = np.concatenate(parts, axis=-1)
        return made if rows > 8 else np.maximum(made, 0)

    graph = trace_graph(joined, *[half(rows, 24)] * count)
    plan = graph.plan(ARCH)
    assert kinds(plan) == forms, plan.explain()
    if rows == 8:
        close(plan, graph, 2e-3)


def test_products_read_copies_of_windows() -> None:
    """The windows of an image are no matrix: a kernel copies them, and the product keeps its epilog."""

    def windows(x: Any, w: Any, b: Any) -> Any:
        parted = x.reshape(2, 2, 4, 2, 4, 32).transpose(0, 1, 3, 2, 4, 5)
        return nn.relu(parted @ w.T + b)

    graph = trace_graph(windows, half(2, 8, 8, 32), half(48, 32), half(48))
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["pointwise", "product"], plan.explain()
    close(plan, graph, 3e-3)


def test_products_of_heads_read_and_write_batches_of_matrices() -> None:
    """Heads side by side in a row are no batch of matrices: they are copied to one, and the result from one."""

    def heads(w: Any, x: Any) -> Any:
        v = x.reshape(2, 24, 4, 2, 16)[:, :, :, 1].transpose(0, 2, 1, 3)
        return (w @ v).transpose(0, 2, 1, 3).reshape(2, 24, 64)

    graph = trace_graph(heads, half(2, 4, 24, 24), half(2, 24, 128))
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["pointwise", "product", "pointwise"], plan.explain()
    close(plan, graph, 5e-3)


@pytest.mark.parametrize("mask", ["conditions", "numbers", "conditions and causal"])
@pytest.mark.parametrize("arch", [ARCH, "sm_80"])
def test_queries_that_see_no_key_have_zeros(mask: str, arch: str) -> None:
    """As padding in front of a sentence has; NaN would reach all of the next layer's results. The graph says so too."""
    kind = "f16" if mask == "numbers" else "u8"

    def attend(q: Any, k: Any, v: Any, m: Any) -> Any:
        return nn.attention(q, k, v, m, causal=mask == "conditions and causal", lse=True)

    graph = trace_graph(attend, *[half(2, 2, 40, 32)] * 3, tensor(2, 1, 40, 40, dtype=kind))
    plan = graph.plan(arch)
    assert kinds(plan) == ["attention"], plan.explain()
    text = str(plan.kernels[0].schedule.computed)
    # The exponentials are a step that the sum and the product read, and are compared with no condition again.
    choices = {"conditions": 2, "numbers": 1, "conditions and causal": 4}[mask]
    assert (text.count("exp2"), text.count("where(")) == (1, choices)
    *arrays, seen = drawn(graph)
    seen = np.ones_like(seen)
    seen[1, :, :7] = seen[1, :, :, :7] = 0
    given = np.where(seen > 0, 0.5, -np.inf).astype("float16") if mask == "numbers" else seen
    wanted, sums = graph.evaluate(*arrays, given)
    assert not wanted[1, :, :7].any()
    assert np.isneginf(sums[1, :, :7]).all()
    for found, logs in (plan(*arrays, given), graph.passes().graph.evaluate(*arrays, given)):
        np.testing.assert_allclose(found.astype(np.float64), wanted, atol=2e-3)
        assert not found[1, :, :7].any()
        np.testing.assert_allclose(logs, sums, rtol=1e-3, atol=2e-3)


def test_few_queries_of_many_keys_share_them_among_blocks() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.attention(q, k, v)

    graph = trace_graph(attend, half(1, 1, 4, 1, 64), *[half(1, 1, 1, 1024, 64)] * 2)
    plan = graph.plan(ARCH)
    assert kinds(plan) == ["attention"]
    assert plan.kernels[0].schedule.name.startswith("decode")
    close(plan, graph, 2e-3)


NORMS: dict[str, Callable[..., Any]] = {
    "of the sum alone": lambda x, w, b, r, g: nn.layer_norm(x @ w.T + b + r, g),
    "of a sum that others read": lambda x, w, b, r, g: (y := x @ w.T + b + r, nn.rms_norm(y, g)),
    "without the product's array": lambda x, w, b, r, g: nn.softmax(x @ w.T + b),
    "of rows that do not follow each other": lambda x, w, b, r, g: nn.rms_norm(x.swapaxes(0, 1) @ w.T, g),
}


@pytest.mark.product
@pytest.mark.parametrize("arch", [ARCH, "sm_80"])
@pytest.mark.parametrize("name", NORMS)
def test_a_product_and_the_folds_of_its_rows_are_one_kernel(name: str, arch: str) -> None:
    arrays = [half(2, 24, 32), half(64, 32), half(64), half(2, 24, 64), half(64)]
    graph = trace_graph(NORMS[name], *arrays, name="norm")
    plan = graph.plan(arch, strict=True)
    assert kinds(plan) == ["product rows"], plan.explain()
    close(plan, graph, 3e-3)


def test_the_model_decides_whether_rows_are_folded_behind_their_product() -> None:
    """It knows that large products, and those whose rows are normed by a cluster, take longer than it says."""

    def norm(x: Any, w: Any, b: Any, g: Any) -> Any:
        return nn.layer_norm(x @ w.T + b, g)

    def parts(rows: int, columns: int) -> list[str]:
        graph = trace_graph(norm, half(rows, columns), half(columns, columns), half(columns), half(columns))
        return kinds(graph.plan(ARCH))

    assert parts(512, 64) == parts(4096, 64) == ["product rows"]
    assert parts(512, 512) == ["product", "rows"]  # of which the second begins while the first ends
    assert parts(65536, 64) == parts(128, 768) == parts(12288, 1024) == ["product", "rows"]


def test_costly_functions_behind_large_products_have_a_kernel_of_their_own() -> None:
    def up(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return y * 0.5 * (1 + nn.erf(y * 0.7071))

    plan = trace_graph(up, half(12288, 768), half(768, 3072), half(3072)).plan(ARCH)
    assert kinds(plan) == ["product", "pointwise"]
    assert "one kernel would take" in plan.launches[0].why
    small = trace_graph(up, half(256, 768), half(768, 3072), half(3072)).plan(ARCH)
    assert kinds(small) == ["product"]


def test_gelu_runs_under_the_products_of_other_tiles() -> None:
    def up(x: Any, w: Any, b: Any) -> Any:
        return nn.gelu(x @ w.T + b)

    plan = trace_graph(up, half(12288, 768), half(3072, 768), half(3072)).plan(ARCH)
    assert kinds(plan) == ["product"]
    (launch,) = plan.launches
    assert 0 < launch.exposed_us < launch.modelled_us / 3


def test_the_library_computes_what_a_failed_kernel_would(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(runner: Runner, launch: object) -> object:
        raise CompileError("nvrtc", "no compiler today")

    monkeypatch.setattr(Runner, "_callable", refuse)
    graph = trace_graph(lambda x: np.exp(x) * 2, (8, 32), name="twice")
    arrays = drawn(graph)
    plan, strict = graph.plan(ARCH), graph.plan(ARCH, strict=True)
    for each in (plan, strict):
        each.runner.host = False  # as on a machine with a GPU
    with pytest.warns(UserWarning, match="launch 0 of twice: the library computes .*, which failed: no compiler today"):
        made = plan(*arrays)
    np.testing.assert_allclose(made, graph.evaluate(*arrays), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        plan(*arrays)
    with pytest.raises(FireironError, match="no compiler today"):
        strict(*arrays)


def test_a_kernel_that_spills_is_launched_and_a_strict_plan_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[bool]()

    def compiled(schedule: Schedule, *, allow_spills: bool = False) -> Any:
        said.append(allow_spills)
        if not allow_spills:
            raise CompileError("spills", "registers run out")
        return HostKernel(schedule.lowered())

    graph = trace_graph(lambda x: np.exp(x) * 2, (8, 32), name="twice")
    plan, strict = graph.plan(ARCH), graph.plan(ARCH, strict=True)
    monkeypatch.setattr(Schedule, "compile", compiled)
    with pytest.warns(UserWarning, match=r"slower than it could be: CompileError\[spills\]: registers run out"):
        made = plan.runner._built(plan.kernels[0].schedule)
    assert isinstance(made, HostKernel)
    assert said == [False, True]
    with pytest.raises(CompileError, match="registers run out"):
        strict.runner._built(strict.kernels[0].schedule)


def test_a_kernel_does_not_read_its_own_result_transposed() -> None:
    def square(x: Any) -> Any:
        y = np.exp(x)
        return y, y + y.T

    def column(x: Any) -> Any:
        y = x.mean(axis=(1, 2), keepdims=True)
        return np.exp(y.swapaxes(1, 2) * 0.3), np.maximum(y, y.swapaxes(1, 2))

    for function, shape in ((square, (8, 8)), (column, (7, 7, 12))):
        graph = trace_graph(function, shape)
        close(graph.plan(ARCH), graph, 1e-5)


def test_kernels_are_compiled_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))  # a plan from disk has no schedules to compile

    def layers(x: Any, w: Any, u: Any, v: Any) -> Any:
        return nn.softmax(nn.relu(x @ w) @ u) @ v

    both, names = threading.Barrier(2, timeout=20), list[str]()

    def compiled(schedule: Schedule) -> Any:
        both.wait()  # a kernel alone would wait in vain
        names.append(schedule.name)
        if schedule.name.startswith("row"):
            raise CompileError("nvrtc", "no rows today")
        return schedule.name

    monkeypatch.setattr(Schedule, "compile", compiled)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    plan = trace_graph(layers, half(16, 64), half(64, 96), half(96, 32), half(32, 80)).plan("sm_80")
    assert kinds(plan) == ["product", "product", "rows", "product"]
    runner = plan.runner
    runner.host = False  # as on a machine with a GPU
    schedules = [launch.kernel.schedule for launch in plan.launches if launch.kernel]
    assert runner._callable(plan.launches[0]) == schedules[0].name
    assert sorted(names) == sorted(each.name for each in set(schedules))
    assert set(runner.compiled) == {each for each in schedules if not each.name.startswith("row")}


def test_a_product_stores_what_others_read_beside_what_follows_it() -> None:
    def layer(x: Any, w: Any, b: Any, u: Any) -> Any:
        y = x @ w + b
        return y, nn.gelu(y) @ u

    graph = trace_graph(layer, half(2, 16, 32), half(32, 64), half(64), half(64, 32))
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["product", "product"], plan.explain()
    close(plan, graph, 3e-3)


def test_the_gradient_of_an_activation_is_computed_behind_the_product_that_it_scales() -> None:
    """Both factors come from one tanh, and lie in another shape than the product."""

    def gradient(dy: Any, w: Any, h: Any) -> Any:
        t = np.tanh(h * 0.8)
        dx = dy @ w
        return dx * (t + 1).reshape(2, 16, 64) + (dx.astype("float32") * (1 - t * t).reshape(2, 16, 64)).astype(F)

    graph = trace_graph(gradient, half(2, 16, 32), half(32, 64), half(32, 64))
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["product"], plan.explain()
    close(plan, graph, 4e-3)

    def kept(dy: Any, w: Any, h: Any) -> Any:  # what others read is no part of the epilog
        t = np.tanh(h * 0.8)
        return (dy @ w) * (t + 1), t @ w.T

    graph = trace_graph(kept, half(2, 16, 32), half(32, 64), half(2, 16, 64))
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan).count("product") == 2
    assert "pointwise" in kinds(plan), plan.explain()
    close(plan, graph, 4e-3)


@pytest.mark.parametrize("shape", [(3, 20, 64), (40, 1, 64), (1, 24, 64), (33, 48), (2, 2, 9, 40)])
def test_sums_over_rows_beside_the_rows_are_one_kernel(shape: Shape) -> None:
    *lines, _ = range(len(shape))

    def both(x: Any, y: Any) -> Any:
        away = x - x.mean(axis=-1, keepdims=True)
        return away * y, (away * y).sum(axis=tuple(lines)), x.sum(axis=tuple(lines))

    graph = trace_graph(both, shape, shape)
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["rows"], plan.explain()
    close(plan, graph, 1e-4)


def test_sums_over_rows_that_are_no_single_dim_have_a_kernel_of_their_own() -> None:
    def both(x: Any, y: Any) -> Any:
        away = (x - x.mean(axis=-1, keepdims=True)) * y
        return away, away.sum(axis=(0, 1))

    graph = trace_graph(both, (4, 20, 48), (20, 48))  # an array has no batch
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["rows", "reduction"], plan.explain()
    assert "not one kernel" in plan.launches[0].why
    close(plan, graph, 1e-4)


def test_a_product_with_one_column_is_a_sum_of_rows() -> None:
    graph = trace_graph(lambda x, w, b: nn.relu(x @ w.T + b), half(16, 64), half(1, 64), half(1))
    plan = graph.plan(ARCH, strict=True)
    assert kinds(plan) == ["reduction"]
    close(plan, graph, 2e-3)


def test_results_share_memory(layer: tuple[Graph, Plan]) -> None:
    _, plan = layer
    of_row = 2 * 16 * 32 * 2  # bytes
    assert plan.memory.nbytes == 4 * of_row  # queries, keys, values and what attention gives are alive together
    assert plan.memory.apart == 7 * of_row  # two of them for the wide activations
    # One by one: queries, keys, values, and scores in f32 beside the weights that softmax gives.
    assert plan.memory.eager > plan.memory.nbytes


def test_what_operators_hold_that_run_one_by_one() -> None:
    def chain(x: Any, y: Any) -> Any:
        wide = np.exp(x) @ y  # both alive: 4096 bytes, and 8192
        return np.exp(wide.T).sum()  # the view holds what it sees: 8192 twice

    plan = trace_graph(chain, (16, 64), (64, 128)).plan(ARCH)
    assert plan.memory.eager == 2 * 16 * 128 * 4


def test_explain_says_what_became_of_each_operation(layer: tuple[Graph, Plan]) -> None:
    _, plan = layer
    told = plan.explain()
    assert told.splitlines()[0].endswith("5 kernels")
    assert "on chip between two products: matmul, cast, mul, add, lt, max, sub, exp, select, sum, div, le" in told
    assert "in the product's registers: add, cast, normcdf, mul" in told
    assert told.count(" us\n") == 5


def test_each_kernel_is_a_file(layer: tuple[Graph, Plan], tmp_path: Path) -> None:
    _, plan = layer
    files = plan.write(tmp_path / "cuda")
    assert 5 <= len(files) <= 6
    assert all("__global__" in file.read_text() for file in files)


def test_what_is_left_over_is_listed() -> None:
    plan = trace_graph(lambda x: np.cumsum(x, axis=0), (4, 32), name="sums").plan(ARCH)
    assert repr(plan) == "<plan of sums for sm_90a: 0 kernels, 1 operation left to the library>"
    assert "left over  cumsum (1)" in plan.explain()
    with pytest.raises(FireironError, match="graph-strict"):
        trace_graph(lambda x: np.cumsum(x, axis=0), (4, 32)).plan(ARCH, strict=True)


def test_later_launches_go_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    import fireiron.graph.run as running

    def function(x: Any, w: Any) -> Any:
        y = nn.softmax(x[8:] @ w)
        return (y + 1.0)[:, 16:] @ w[16:]

    graph = trace_graph(function, (24, 32), (32, 32))
    plan, runner = graph.plan("sm_89"), running.Runner(graph.plan("sm_89"))
    seen: list[list[int]] = []

    class Library(running.NumPy):
        def queue(self, like: Any) -> tuple[int, int] | None:
            return 0, 7

    class Kernel:
        """Compute by simulation, and find arrays by their addresses later."""

        def __init__(self, made: Any) -> None:
            self.made, self.interface = made, made.interface
            self.last: dict[int, Any] = {}

        def __call__(self, *inputs: Any, out: Any) -> None:
            seen.append([x.__array_interface__["data"][0] for x in (*inputs, *out)])
            self.made(*inputs, out=out if len(out) > 1 else out[0])

        def planned(self, arrays: Any) -> Any:
            return self

        def encoded(self, scalars: Any) -> tuple[int, ...]:
            return ()

        align_mask = 15

        def run(self, addresses: list[int], numbers: Any, stream: int) -> None:
            assert stream == 7
            seen.append(addresses)

    make = runner._callable
    monkeypatch.setattr(runner, "_callable", lambda launch: Kernel(make(launch)))
    monkeypatch.setattr(running, "library_of", lambda arrays: Library())
    block = np.zeros(1 << 20, np.uint8)
    monkeypatch.setattr(Library, "empty", lambda self, nbytes, like: block[: max(1, nbytes)])
    monkeypatch.setattr(Library, "elements", lambda self, size, dtype, like: block[-4 * size :].view(dtype.numpy))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(graph.nodes[i].shape).astype("f") for i in graph.inputs]
    made = runner(list(arrays))
    np.testing.assert_allclose(made, plan(*arrays), rtol=1e-5)
    first, seen[:] = list(seen), []
    assert len(first) == len(plan.launches) == len(runner.quick)
    runner(list(arrays))
    assert seen == first  # slices begin behind their line's first element
    assert any(a != arrays[0].ctypes.data and a - arrays[0].ctypes.data == 8 * 32 * 4 for each in first for a in each)


def test_an_input_with_gaps() -> None:
    from fireiron.algebra.dtypes import f32
    from fireiron.graph.nodes import Builder

    b = Builder()
    x = b.input("x", (8, 32), f32, strides=(96, 1))
    graph = b.graph("doubled", [b.add("add", x, x)])
    plan = graph.plan("sm_89")
    assert plan.views[graph.inputs[0]].strides == (96, 1)
    array = np.arange(8 * 32, dtype="f").reshape(8, 32)
    np.testing.assert_array_equal(plan(array), array * 2)


@pytest.mark.parametrize(("kind", "function"), [("f16", "exp2_approx"), ("f32", "expf")])
def test_exponentials_of_short_floats_below_their_maximum_are_quick(kind: str, function: str) -> None:
    """Rounding the product of the difference and log2(e) is less than a rounding of 16-bit values."""
    graph = trace_graph(lambda x: nn.softmax(x.astype("float32")).sum(1), tensor(8, 64, dtype=kind))
    (kernel,) = graph.plan("sm_89").kernels
    text = kernel.schedule.cuda()
    assert [name for name in ("exp2_approx", "expf") if f" {name}(" in text] == [function]


def test_rows_without_a_kernel_are_divided_by_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fold computes its points again, so that no wide floats are stored, as operations one by one would do."""
    lowered = planning.lowered

    def of_one_fold(graph: Graph, part: Any, *rest: Any) -> Any:
        if sum(graph.nodes[n].kind == "fold" for n in part.nodes) > 1:
            raise Misfit("the test takes no kernel of several folds")
        return lowered(graph, part, *rest)

    monkeypatch.setattr(planning, "lowered", of_one_fold)
    monkeypatch.setattr(planning, "kept_launches", lambda *_: None)

    def normed(x: Any, gain: Any) -> tuple[Any, Any]:
        wide = x.astype("float32")
        return nn.layer_norm(wide, gain).astype("float16"), wide.max(1)

    graph = trace_graph(normed, tensor(16, 64, dtype="f16"), (64,))
    plan = graph.plan("sm_89")
    assert [x.part.kind for x in plan.launches] == ["reduction", "reduction", "reduction", "pointwise"], plan.explain()
    assert "again for each fold" in plan.explain()
    x, gain = np.random.default_rng(0).standard_normal((16, 64)).astype("f2"), np.linspace(1, 2, 64).astype("f")
    for found, right in zip(plan(x, gain), graph.evaluate(x.astype("f8"), gain), strict=True):
        np.testing.assert_allclose(found, right, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("collect", [nn.segment_sum, nn.segment_set])
def test_lines_at_numbers_begin_at_zeros_whatever_the_memory_held(
    collect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fireiron.graph.run import NumPy

    monkeypatch.setattr(NumPy, "empty", lambda _, nbytes, like: np.full(max(1, nbytes), 0x42, np.uint8))
    graph = trace_graph(lambda x, ids: np.tanh(collect(x * 2, ids, 90)), (30, 8), tensor(30, dtype="i32"))
    plan, rng = graph.plan("sm_90a"), np.random.default_rng(0)
    assert [launch.cleared != () for launch in plan.launches] == [True, False]
    for _ in range(2):
        ids = rng.permutation(90)[:30] if collect is nn.segment_set else rng.integers(0, 90, 30)
        arrays = rng.standard_normal((30, 8)).astype(np.float32), ids.astype(np.int32)
        np.testing.assert_allclose(plan(*arrays), graph.evaluate(*arrays), rtol=1e-5, atol=1e-6)
