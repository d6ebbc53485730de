"""Convolutions and pooling in graphs: their meaning, their parts, and what their kernels compute on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, nn, tensor, trace_graph
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.plan import Plan
from fireiron.graph.sizes import symbolic
from fireiron.graph.views import View, lies_last
from fireiron.graph.windows import WINDOWS

Shape = tuple[int, ...]
ARCHS = ("sm_90a", "sm_80")


def drawn(shapes: list[Shape], kind: str = "float16") -> list[Any]:
    """Draw arrays."""
    rng = np.random.default_rng(0)
    return [(0.3 * rng.standard_normal(s)).astype(kind) for s in shapes]


def looped(x: Any, taps: Shape, stride: Shape, pads: Any, dilation: Shape, outer: Shape) -> Any:
    """Yield, for each result's pixel, the pixels that its window reads, one by one, and those that lie inside."""
    for at in product(*map(range, outer)):
        found: dict[Shape, Shape] = {}
        for tap in product(*map(range, taps)):
            place = tuple(p * s + t * d - b for p, s, t, d, (b, _) in zip(at, stride, tap, dilation, pads, strict=True))
            if all(0 <= i < n for i, n in zip(place, x.shape[2:], strict=True)):
                found[tap] = place
        yield at, found


def convolved(x: Any, f: Any, outer: Shape, stride: Shape, pads: Any, dilation: Shape, groups: int) -> Any:
    """Convolve by loops."""
    made = np.zeros((x.shape[0], f.shape[0], *outer))
    part, per = f.shape[1], f.shape[0] // groups
    for at, found in looped(x, f.shape[2:], stride, pads, dilation, outer):
        for k, (tap, place) in product(range(f.shape[0]), found.items()):
            first = k // per * part
            made[(slice(None), k, *at)] += (
                x[(slice(None), slice(first, first + part), *place)] @ f[(k, slice(None), *tap)]
            )
    return made


CONVOLUTIONS: dict[str, tuple[Shape, Shape, dict[str, Any], Shape]] = {
    "line": ((2, 4, 9), (6, 4, 3), {"padding": 1, "stride": 2}, (5,)),
    "image": ((2, 4, 5, 6), (6, 4, 3, 2), {"padding": [(0, 2), (1, 0)]}, (5, 6)),
    "groups": ((1, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "dilation": 2, "padding": 2}, (5, 5)),
    "depthwise": ((1, 3, 4, 4), (3, 1, 3, 3), {"groups": 3, "padding": "same"}, (4, 4)),
    "volume": ((1, 2, 3, 4, 4), (3, 2, 2, 3, 3), {"stride": (1, 2, 1), "padding": "valid"}, (2, 1, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_a_sum_over_windows(name: str) -> None:
    images, filters, options, outer = CONVOLUTIONS[name]
    rank = len(outer)
    x, f, b = drawn([images, filters, filters[:1]], "float64")
    conv = getattr(nn, f"conv{rank}d")
    graph = trace_graph(lambda x, f, b: conv(x, f, b, **options), *((s.shape) for s in (x, f, b)))
    a = dict(next(n for n in graph.nodes if n.op == "conv").attributes)
    wanted = convolved(x, f, outer, a["stride"], a["pads"], a["dilation"], a["groups"]) + b.reshape(-1, *(1,) * rank)
    assert graph.nodes[graph.outputs[0]].shape == wanted.shape
    np.testing.assert_allclose(graph.evaluate(x, f, b), wanted, atol=1e-12)
    np.testing.assert_allclose(conv(x, f, b, **options), wanted, atol=1e-12)  # called with arrays, it computes
    np.testing.assert_allclose(graph.optimised().evaluate(x, f, b), wanted, atol=1e-12)


def test_windows_that_do_not_overlap_are_a_product() -> None:
    graph = trace_graph(lambda x, f, b: nn.conv2d(x, f, b, stride=4), (2, 3, 8, 8), (5, 3, 4, 4), (5,))
    arrays = drawn([(2, 3, 8, 8), (5, 3, 4, 4), (5,)], "float64")
    made = graph.optimised()
    assert [n.op for n in made.nodes if n.kind in ("product", "windows")] == ["matmul"]
    np.testing.assert_allclose(made.evaluate(*arrays), graph.evaluate(*arrays), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"stride": 2, "padding": 1, "ceil_mode": True}])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling_takes_the_largest_value_or_the_mean(rank: int, options: dict[str, Any]) -> None:
    (x,) = drawn([(2, 3, 6, 5, 4)[: rank + 2]], "float64")
    for name in ("max", "avg"):
        pool = getattr(nn, f"{name}_pool{rank}d")
        graph = trace_graph(lambda x, pool=pool: pool(x, 3, **options), x.shape)
        node = graph.nodes[graph.outputs[0]]
        a, made = dict(node.attributes), graph.evaluate(x)
        apart = a.get("dilation", (1,) * rank)
        for at, found in looped(x, a["window"], a["stride"], a["pads"], apart, node.shape[2:]):
            values = np.array([x[(..., *place)] for place in found.values()])
            if name == "max":
                wanted = values.max(0)
            else:  # padding counts, but not what ceil_mode adds behind it
                inside = [
                    sum(-b <= p * s + t - b < n + b for t in range(3))
                    for p, s, (b, _), n in zip(at, a["stride"], a["pads"], x.shape[2:], strict=True)
                ]
                wanted = values.sum(0) / np.prod(inside)
            np.testing.assert_allclose(made[(..., *at)], wanted, atol=1e-12)


def test_means_may_leave_padding_out() -> None:
    graph = trace_graph(lambda x: nn.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (1, 1, 4, 4))
    np.testing.assert_allclose(graph.evaluate(np.ones((1, 1, 4, 4))), np.ones((1, 1, 4, 4)))


def test_whole_numbers_are_exact() -> None:
    x, f = np.full((1, 64, 3, 3), 127, np.int8), np.full((2, 64, 3, 3), 127, np.int8)
    made = nn.conv2d(x, f)
    assert made.dtype == np.int32
    assert made[0, 0, 0, 0] == 64 * 9 * 127 * 127


def normed(x: Any, scale: Any, shift: Any) -> Any:
    """Apply the scale and shift of a batch norm."""
    return x * scale[:, None, None] + shift[:, None, None]


def block(x: Any, f: Any, s: Any, b: Any, g: Any, t: Any, c: Any) -> Any:
    """Compute a residual block of images (N, H, W, C) and filters (K, taps, taps, C)."""
    x, f, g = (a.transpose(0, 3, 1, 2) for a in (x, f, g))
    y = nn.relu(normed(nn.conv2d(x, f, padding=1), s, b))
    return nn.relu(normed(nn.conv2d(y, g, padding=1), t, c) + x).transpose(0, 2, 3, 1)


BLOCK: list[Shape] = [(2, 8, 8, 16), (16, 3, 3, 16), (16,), (16,), (16, 3, 3, 16), (16,), (16,)]


def forms(plan: Plan) -> list[str]:
    return [launch.part.kind if launch.kernel is not None else launch.why for launch in plan.launches]


def held(graph: Graph, arch: str, atol: float = 3e-3) -> Plan:
    """Hold what a plan computes to the graph in f64."""
    nodes = [graph.nodes[i] for i in graph.inputs]
    arrays = [a.astype(node.dtype.numpy) for a, node in zip(drawn([n.shape for n in nodes]), nodes, strict=True)]
    plan = graph.plan(arch, strict=True)
    made, wanted = plan(*arrays), graph.evaluate(*arrays)
    for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (made, wanted)), strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, atol=atol, rtol=4e-3)
    return plan


def traced(function: Callable[..., Any], shapes: list[Shape], kind: str = "f16", **options: Any) -> Graph:
    return trace_graph(function, *(tensor(*s, dtype=kind) for s in shapes), name="net", **options)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_residual_block_is_two_kernels(arch: str) -> None:
    plan = held(traced(block, BLOCK), arch)
    assert forms(plan) == ["convolution", "convolution"], plan.explain()
    assert all(launch.modelled_us is not None for launch in plan.launches)
    assert "conv_mul_add_maximum (5)" in plan.explain()
    assert "in the convolution's registers: mul, add, maximum" in plan.explain()


# The number of kernels counts copies: of images, of filters with taps, and of the result.
CASES: dict[str, tuple[Callable[..., Any], list[Shape], int]] = {
    "unequal": (lambda x, f: nn.relu(nn.conv2d(x, f, padding=[(0, 1), (2, 1)])), [(2, 16, 9, 9), (32, 16, 3, 3)], 4),
    "stride": (lambda x, f: nn.relu(nn.conv2d(x, f, stride=2, dilation=2)), [(2, 16, 9, 9), (32, 16, 3, 3)], 4),
    "groups": (
        lambda x, f, b: nn.relu(nn.conv2d(x, f, b, padding=1, groups=2) + x),
        [(2, 32, 8, 8), (32, 16, 3, 3), (32,)], 4,
    ),
    "narrow": (lambda x, f, b: nn.relu(nn.conv2d(x, f, b, groups=4)), [(2, 16, 6, 6), (16, 4, 3, 3), (16,)], 4),
    "depthwise": (lambda x, f, b: nn.relu(nn.conv2d(x, f, b, groups=16)), [(2, 16, 6, 6), (16, 1, 3, 3), (16,)], 3),
    "stem": (
        lambda x, f, b: nn.relu(nn.conv2d(x, f, b, stride=2, padding=3)), [(2, 3, 16, 16), (32, 3, 7, 7), (32,)], 4,
    ),
    "volume": (lambda x, f: nn.relu(nn.conv3d(x, f, padding=1)), [(1, 16, 3, 4, 5), (16, 16, 3, 3, 3)], 4),
    "vector first": (
        lambda x, f, b: b[:, None, None] - nn.conv2d(x, f), [(1, 16, 6, 6), (32, 16, 1, 1), (32,)], 3,
    ),
    "part of the channels": (
        lambda x, f, g: nn.conv2d(nn.conv2d(x, f)[:, 16:], g), [(2, 16, 6, 6), (32, 16, 1, 1), (32, 16, 1, 1)], 4,
    ),
    "gates of channels": (
        lambda x, f, g: nn.conv2d((y := nn.relu(nn.conv2d(x, f))) * nn.sigmoid(y.mean((2, 3), keepdims=True)), g),
        [(2, 16, 6, 6), (16, 16, 1, 1), (16, 16, 1, 1)], 5,
    ),
}  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CASES)
def test_convolutions_with_what_follows(name: str, arch: str) -> None:
    function, shapes, kernels = CASES[name]
    plan = held(traced(function, shapes), arch)
    assert len(plan.kernels) == kernels, plan.explain()


def test_further_types() -> None:
    def layer(x: Any, f: Any, b: Any) -> Any:
        return nn.relu(nn.conv2d(x, f, b, padding=1))

    shapes: list[Shape] = [(1, 8, 6, 6), (16, 8, 3, 3), (16,)]
    held(traced(layer, shapes, "bf16"), "sm_80", 3e-2)
    held(traced(layer, shapes, "f32"), "sm_80", 1e-5)


@pytest.mark.parametrize("function", [
    lambda x: nn.max_pool2d(x, 3, 2, 1), lambda x: nn.max_pool2d(x, 2, 2, ceil_mode=True),
    lambda x: nn.avg_pool2d(x, 3, 2, 1), lambda x: nn.avg_pool2d(x, 3, 2, 1, True, False),
])  # fmt: skip
def test_pooling_is_a_kernel(function: Callable[..., Any]) -> None:
    assert forms(held(traced(function, [(2, 16, 9, 9)]), "sm_90a")) == ["pointwise", "pooling", "pointwise"]


def network(
    x: Any, stem: Any, s: Any, b: Any, f: Any, t: Any, c: Any, g: Any, u: Any, d: Any, short: Any, v: Any
) -> Any:
    """Compute a small ResNet: a stem, a maximum of windows, two blocks, a mean, and a product."""
    y = nn.max_pool2d(nn.relu(normed(nn.conv2d(x, stem, stride=2, padding=3), s, b)), 3, 2, 1)
    y = nn.relu(normed(nn.conv2d(y, f, padding=1), t, c) + y)
    y = nn.relu(normed(nn.conv2d(y, g, stride=2, padding=1), u, d) + nn.conv2d(y, short, stride=2))
    return y.mean((2, 3)) @ v


NETWORK: list[Shape] = [
    (2, 3, 32, 32), (16, 3, 7, 7), (16,), (16,), (16, 16, 3, 3), (16,), (16,), (32, 16, 3, 3), (32,), (32,),
    (32, 16, 1, 1), (32, 24),
]  # fmt: skip
WEIGHTS = ("stem", "f", "g")


@pytest.mark.parametrize("arch", ARCHS)
def test_a_small_resnet(arch: str) -> None:
    graph = traced(network, NETWORK, fixed=WEIGHTS)
    plan = held(graph, arch, atol=1e-2)
    assert [form for form in forms(plan) if "once" not in form] == [
        "pointwise", "convolution", "pooling", "convolution", "convolution", "convolution", "reduction", "product",
    ], plan.explain()  # fmt: skip
    assert [launch.once for launch in plan.launches].count(True) == 3  # filters whose memory has another order
    images = [n for n, node in enumerate(plan.graph.nodes) if node.op in ("conv", "max_pool")]
    assert all(plan.views[n].strides[1] == 1 for n in images)


def test_results_that_are_returned_keep_the_order_of_the_images() -> None:
    shapes: list[Shape] = [(2, 16, 6, 6), (32, 16, 3, 3)]
    plan = traced(lambda x, f: nn.relu(nn.conv2d(x, f)), shapes).plan("sm_90a")
    assert plan.views[plan.graph.outputs[0]].strides == (32 * 16, 16, 4, 1)
    b = Builder()
    kind = tensor(1, dtype="f16").dtype
    x, f = (b.input(name, s, kind, order=(0, 2, 3, 1)) for name, s in zip("xf", shapes, strict=True))
    y = b.add("conv", x, f, stride=(1, 1), pads=((0, 0), (0, 0)), dilation=(1, 1), groups=1)
    plan = b.graph("net", [y]).plan("sm_90a")
    assert plan.views[plan.graph.outputs[0]].strides == (32 * 16, 1, 4 * 32, 32)
    assert forms(plan) == ["convolution"]
    arrays = drawn(shapes)
    np.testing.assert_allclose(plan(*arrays), plan.graph.evaluate(*arrays), atol=3e-3)


def test_images_lie_last() -> None:
    def view(*strides: int) -> View:
        return View(0, 0, (2, 16, 4, 4), strides)

    assert lies_last(view(256, 1, 64, 16), 2)
    assert lies_last(view(512, 1, 128, 32), 2)  # half of the channels of wider images
    assert not lies_last(view(256, 16, 4, 1), 2)
    assert not lies_last(view(272, 1, 68, 17), 2)  # pixels that vectors of 16 bytes do not divide
    assert not lies_last(view(0, 1, 64, 16), 2)  # one image for all
    assert not lies_last(View(0, 4, (2, 16, 4, 4), (512, 1, 128, 32)), 2)  # a start within a vector


def test_a_copy_has_the_order_that_a_reshape_needs() -> None:
    def flat(x: Any, f: Any, v: Any) -> Any:
        return nn.relu(nn.conv2d(x, f, padding=1)).reshape(2, -1) @ v

    graph = traced(flat, [(2, 16, 4, 4), (16, 16, 3, 3), (256, 32)])
    plan = held(graph, "sm_90a", 2e-2)
    assert [plan.graph.nodes[launch.part.nodes[0]].op for launch in plan.launches].count("copy") == 3


def test_one_plan_for_all_batches() -> None:
    def layer(x: Any, f: Any, b: Any) -> Any:
        return nn.relu(nn.max_pool2d(nn.relu(nn.conv2d(x, f, b, padding=1)), 2))

    shapes: list[Shape] = [(32, 16, 3, 3), (32,)]
    plan = symbolic(lambda n: traced(layer, [(n, 16, 8, 8), *shapes]), (6,), "sm_80")
    assert plan is not None
    for n in (5, 9):
        graph, arrays = traced(layer, [(n, 16, 8, 8), *shapes]), drawn([(n, 16, 8, 8), *shapes])
        np.testing.assert_allclose(plan.sized(n)(*arrays), graph.evaluate(*arrays), atol=3e-3)


def test_an_epilog_that_reads_coordinates_is_a_part_of_its_own() -> None:
    b = Builder()
    kind = tensor(1, dtype="f16").dtype
    x, f = b.input("x", (1, 16, 4, 4), kind), b.input("f", (16, 16, 1, 1), kind)
    y = b.add("conv", x, f, stride=(1, 1), pads=((0, 0), (0, 0)), dilation=(1, 1), groups=1)
    at = b.add("iota", shape=(1, 16, 4, 4), axis=3)
    plan = b.graph("net", [b.add("add", y, b.add("cast", at, dtype=kind))]).plan("sm_90a")
    assert forms(plan) == ["pointwise", "convolution", "pointwise", "pointwise"]
    assert "not one kernel: an operation behind the convolution reads coordinates" in plan.explain()


def test_misuse() -> None:
    shape = next(op for op in WINDOWS if op.name == "conv").shape
    a = {"stride": (1, 1), "pads": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    for images, filters, code in (
        ((1, 4, 4), (4, 4, 3, 3), "graph-shape"), ((1, 4, 4, 4), (4, 3, 3, 3), "conv-groups"),
        ((1, 4, 2, 4), (4, 4, 3, 3), "conv-window"),
    ):  # fmt: skip
        with pytest.raises(FireironError) as caught:
            shape([images, filters], a)
        assert caught.value.code == code
    with pytest.raises(FireironError, match="a bias"):
        shape([(1, 4, 4, 4), (8, 4, 3, 3), (4,)], a)
