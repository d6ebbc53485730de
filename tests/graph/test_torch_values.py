"""The backend of torch.compile gives torch's values where arrays have no dims or elements, repeat, or hold integers."""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import trace_graph

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

import fireiron.torch
from fireiron.graph.torch_backend import plans

F: Any = torch.nn.functional
INT8, INT32, UINT8 = torch.int8, torch.int32, torch.uint8


def same(function: Callable[..., Any], *inputs: Any) -> None:
    torch._dynamo.reset()
    got, want = torch.compile(function, backend=fireiron.torch.backend)(*inputs), function(*inputs)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for one, other in pairs:
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert torch.allclose(one.double(), other.double(), atol=1e-5, equal_nan=True)


def drawn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(0) + 1,
    "mean": lambda x: x.mean(-1, keepdim=True) * 2,
    "amax": lambda x: x.amax(()),
    "var": lambda x: x.var(0, correction=0),
    "var of one": lambda x: x.var(),
    "softmax": lambda x: torch.softmax(x * 2, 0),
    "log_softmax": lambda x: torch.log_softmax(x, -1) + x,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_folds_of_a_number(name: str) -> None:
    same(NUMBERS[name], drawn())


def test_a_number_of_64_bits_without_dims_is_read_in_place() -> None:
    same(lambda x, n: torch.embedding(x, n.sum()) + 1, drawn(8, 4), torch.tensor([1, 2]))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "groups"), [((2, 32, 6, 5), 8), ((2, 12, 7), 12), ((1, 6, 2, 3, 4), 2), ((3, 8), 2)])
def test_group_norm_is_not_left_to_torch(shape: tuple[int, ...], groups: int, last: bool) -> None:
    """One kernel, also with SiLU behind it, unless the channels lie together."""
    x, gain, bias = drawn(*shape), drawn(shape[1]), drawn(shape[1] + 100)[: shape[1]]
    x = x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x
    before = len(plans())
    same(lambda *given: F.silu(F.group_norm(given[0], groups, *given[1:])), x, gain, bias)
    (made,) = plans()[before:]
    assert not made.foreign
    assert len(made.kernels) == 1 or (last and len(shape) > 2)
    same(lambda x: F.group_norm(x, groups, None, bias, eps=0.1), x)


@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_group_norm(last: bool) -> None:
    x, gain, bias = drawn(2, 16, 5, 6), drawn(16), drawn(17)[:16]
    x = x.to(memory_format=torch.channels_last) if last else x
    given = [y.requires_grad_() for y in (x, gain, bias)]
    ahead = drawn(2, 16, 5, 6)
    torch._dynamo.reset()
    function = lambda x, gain, bias: F.silu(F.group_norm(x, 4, gain, bias))  # noqa: E731
    compiled = torch.compile(function, backend=fireiron.torch.backend)
    ours, wanted = (torch.autograd.grad(f(*given), given, ahead) for f in (compiled, function))
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(ours, wanted, strict=True))


@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norms_of_vectors(order: float) -> None:
    before = len(plans())
    same(lambda x: x / torch.linalg.vector_norm(x, order, (0, 2), keepdim=True), drawn(3, 4, 5))
    same(lambda x: torch.linalg.vector_norm(x, order) * 2, drawn(3, 4))
    assert not any(plan.foreign for plan in plans()[before:])


PARTS: dict[str, Callable[[Any], Any]] = {
    "pairs": lambda x: torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * 2 + x,
    "one element": lambda x: torch.cat([x[..., :1] * 2, x[..., 1:] * 3], -1) + 1,
    "a repeated element": lambda x: torch.cat([x * 2, x[:, :1].expand(4, 3)], -1) + 1,
    "numbers": lambda x: torch.cat([torch.zeros(4, 3), x * 2, torch.ones(4, 1)], -1) * 2,
    "repeated lines": lambda x: torch.cat([x[:1] * 2, x[1:2].expand(3, 8)], 0) * 2,
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_the_same_along_their_axis(name: str) -> None:
    before = len(plans())
    same(PARTS[name], drawn(4, 8))
    assert [(len(plan.kernels), len(plan.foreign)) for plan in plans()[before:]] == [(1, 0)]


PIECES: dict[str, Callable[[Any, Any], Any]] = {
    "of zeros": lambda x, y: torch.slice_scatter(torch.zeros_like(x), y[:, :3], 1, 2, 5) + x,
    "at the end": lambda x, y: torch.slice_scatter(x * 2, y[:, :3], 1, -3),
    "rows": lambda x, y: torch.slice_scatter(x, y[:2], 0, 0, 2) * 2,
    "all": lambda x, y: torch.slice_scatter(x, y, 1) * 2,
    "every third": lambda x, y: torch.slice_scatter(torch.zeros(4, 9), y[:, :3], 1, 1, None, 3) * 2 + y[:, :1],
    "every other row": lambda x, y: torch.slice_scatter(x, y[:2], 0, 1, 4, 2) * 2,
    "beyond the end": lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 6, 100) * 2,
}


@pytest.mark.parametrize("name", PIECES)
def test_lines_that_are_replaced(name: str) -> None:
    before = len(plans())
    same(PIECES[name], drawn(4, 8), drawn(4, 9)[:, :8])
    assert not plans()[before].foreign


def test_gradients_of_rotary_embedding_are_kernels() -> None:
    """Gradients of slices are lines between zeros, computed with what adds them up."""

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        one, other = x[..., :8], x[..., 8:]
        return x * cos + torch.cat([-other, one], -1) * sin

    x, cos, sin = drawn(2, 3, 6, 16).requires_grad_(), drawn(6, 16), drawn(6, 17)[:, :16]
    torch._dynamo.reset()
    before = len(plans())
    compiled = torch.compile(turned, backend=fireiron.torch.backend)
    ours, wanted = (torch.autograd.grad(f(x, cos, sin), x, drawn(2, 3, 6, 16))[0] for f in (compiled, turned))
    assert torch.allclose(ours, wanted, atol=1e-5)
    assert [(len(plan.kernels), len(plan.foreign)) for plan in plans()[before:]] == [(1, 0), (1, 0)]


@torch.library.custom_op("tests::dense_sum", mutates_args=())
def dense_sum(x: torch.Tensor) -> torch.Tensor:
    """Add up lines, as a kernel that reads memory in order does."""
    assert x.is_contiguous()
    return x.sum(-1)


@dense_sum.register_fake
def _dense_sum(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[:-1])


def test_operators_of_users_get_tensors_that_lie_as_traced() -> None:
    """The kernel of the convolution stores channels last."""
    x, f = (drawn(*shape).round().half() for shape in ((2, 8, 6, 6), (16, 8, 3, 3)))
    with torch.no_grad():
        same(lambda x, f: dense_sum(F.relu(F.conv2d(x, f))), x, f)


REPEATED: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: (x * 2).expand(8, 4) + 1,
    "softmax": lambda x: torch.softmax(x, 1).expand(8, 4) + 1,
    "functions": lambda x: torch.exp(x).expand(8, 4).tanh() * 3,
    "parts": lambda x: torch.cat([torch.zeros(1, 4), x], 1).expand(8, 8) / 8,
    "a new axis": lambda x: torch.cat([x * 2, x], 1)[None].expand(3, 1, 8) + 1,
    "beside": lambda x: (torch.exp(x).expand(8, 4) - 1, x + 1),
}


@pytest.mark.parametrize("name", REPEATED)
def test_every_line_of_a_repeated_result_is_written(name: str) -> None:
    same(REPEATED[name], drawn(1, 4))


def test_a_gradient_that_is_repeated() -> None:
    x = drawn(8, 8).requires_grad_()
    torch._dynamo.reset()
    made = torch.compile(lambda x: x.mean(0, keepdim=True).chunk(2, 1)[-1], backend=fireiron.torch.backend)(x)
    (by_x,) = torch.autograd.grad(made, x, torch.ones(1, 4))
    assert torch.equal(by_x, torch.cat([torch.zeros(8, 4), torch.full((8, 4), 0.125)], 1))


BYTES: dict[str, Callable[[Any], Any]] = {
    "sums": lambda x: x + x,
    "products": lambda x: x * 3 - 100,
    "negatives": lambda x: -x,
    "powers": lambda x: x.pow(2),
    "narrowed": lambda x: (x.int() * 300).to(INT8),
    "other signs": lambda x: (x.to(UINT8), x.to(INT8)),
    "sums of bytes": lambda x: x.sum(0, dtype=INT8),
}


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("kind", [INT8, UINT8])
def test_bytes_wrap(name: str, kind: Any) -> None:
    same(BYTES[name], torch.arange(-128, 128).to(kind).reshape(64, 4))


def test_elements_are_converted_before_they_are_added() -> None:
    same(lambda x: x.sum(0, dtype=INT32), drawn(40, 3) * 4)


def test_numbers_become_true() -> None:
    x = drawn(3, 4) > 0
    same(lambda x: F.pad(x, (0, 1), value=3).float() * 2, x)
    same(lambda x: torch.full_like(x, 2).float() + x, x)
    same(lambda x: x.masked_fill(x, 2).float() + 1, x)


def test_folds_of_repeated_numbers() -> None:
    same(lambda x: torch.full_like(x, 3.0).amin(1), drawn(3, 1))
    same(lambda x: torch.full_like(x, 3.0).sum(0) + x, drawn(3, 5))
    same(lambda x: torch.full_like(x, 2.0).prod(1, keepdim=True) + x, drawn(3, 5))


def test_calls_that_read_no_input() -> None:
    def written(x: Any) -> Any:
        y = x.clone()
        y[...] = 1
        return y.all() / 2

    same(written, drawn())


def test_views_without_elements() -> None:
    same(lambda x: x[5:].reshape(-1)[..., -1:], drawn(3, 4))


def test_variances_of_few_elements_in_numpy() -> None:
    graph = trace_graph(lambda x: np.var(x, axis=0, ddof=1), (1, 8))
    assert np.isnan(graph.plan()(np.ones((1, 8), np.float32))).all()


@pytest.mark.parametrize(("traced", "given", "said"), [
    (torch.empty(2, 8, 3, 3), torch.empty(2, 8, 3, 3, memory_format=torch.channels_last), {"order": (0, 2, 3, 1)}),
    (torch.empty(2, 8, 5), torch.empty(2, 5, 8).transpose(1, 2), {"order": (0, 2, 1)}),
    (torch.empty(2, 5, 8).transpose(1, 2), torch.empty(2, 8, 5), {}),
    (torch.empty(4, 7), torch.empty(32).as_strided((4, 7), (8, 1)), {"strides": (8, 1), "padded": True}),
    (torch.empty(4, 7), torch.empty(40).as_strided((4, 7), (9, 1)), {}),
    (torch.empty(4, 8)[:, :7], torch.empty(4, 8)[:, :7], {"strides": (8, 1)}),
], ids=["images", "lines", "dense lines", "padded lines", "other gaps", "a slice of the caller"])  # fmt: skip
def test_plans_read_what_a_forward_pass_kept_as_it_lies(traced: Any, given: Any, said: dict[str, Any]) -> None:
    """Where it lies as results of plans may, though torch traced dense tensors; other tensors lie as traced."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from fireiron.graph.from_torch import imported

    module = make_fx(lambda x: (x * 2,), tracing_mode="fake")(traced)
    graph, *_ = imported(module, examples=[given])
    found = dict(graph.nodes[graph.inputs[0]].attributes)
    assert {name: found[name] for name in ("order", "strides", "padded") if name in found} == said


def test_padded_lines_have_the_memory_behind_the_last_one() -> None:
    """A tensor whose memory ends with its last element is copied."""
    from fireiron.graph.torch_library import Torch

    whole = torch.arange(32.0)
    for memory, copied in ((whole, False), (whole[:31].clone(), True)):
        line = Torch(True).spread(memory.as_strided((4, 7), (8, 1)), (8, 1), True)
        assert len(line) == 32
        assert (line.data_ptr() != memory.data_ptr()) == copied
        assert torch.equal(line.as_strided((4, 7), (8, 1)), whole.as_strided((4, 7), (8, 1)))


TRUTHS: dict[str, Callable[[Any], Any]] = {
    "infinities": lambda x: x.isinf(),
    "finite numbers": lambda x: x.isfinite(),
    "any": lambda x: x.isinf().any(),
    "any along a dim": lambda x: (x > 0).any(1),
    "all along dims": lambda x: (x > -3).all(0, keepdim=True),
    "any of integers": lambda x: x.nan_to_num(0).int().any(),
    "two numbers": lambda x: torch.where(x.isinf().any(), 2.5, 1.0) * x,
    "two numbers of points": lambda x: torch.where(x > 0, 2.5, 1.0),
    "bounds of T5": lambda x: x.clamp(-torch.where(x.isinf().any(), 9.0, 6.0), torch.where(x.isinf().any(), 9.0, 6.0)),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_truths(name: str) -> None:
    x = drawn(6, 50)
    x[2, 3], x[4, 1], x[5, 2] = torch.inf, torch.nan, -torch.inf
    before = len(plans())
    same(TRUTHS[name], x)
    assert not [node["label"] for plan in plans()[before:] for node in plan.graph.nodes if node.op == "foreign"]
