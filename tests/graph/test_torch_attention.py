"""Attention as one operator of torch's graphs: its gradient, masks that change nothing, the choice of kernels."""
# pyright: reportMissingImports=false

from __future__ import annotations

import importlib.util
import math
from types import SimpleNamespace
from typing import Any

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

import fireiron.torch
from fireiron.graph import torch_attention
from fireiron.graph.torch_backend import plans

attention: Any = torch.nn.functional.scaled_dot_product_attention
MASKS = ("none", "causal", "conditions", "numbers", "zeros", "places", "groups")


def heads(count: int) -> Any:
    return torch.randn(2, 32, count, 16).transpose(1, 2).half().requires_grad_()


@pytest.mark.parametrize("how", MASKS)
def test_gradients_of_attention(how: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    q, k, v = heads(4), heads(2 if how == "groups" else 4), heads(2 if how == "groups" else 4)
    mask = {"conditions": torch.rand(2, 1, 1, 32) > 0.3, "numbers": torch.randn(2, 1, 32, 32).half()}.get(how)

    def run(q: Any, k: Any, v: Any, mask: Any) -> Any:
        if how == "zeros":  # as transformers write a mask of ones
            mask = (1.0 - torch.ones(2, 1, 1, 32, dtype=q.dtype).expand(2, 1, 32, 32)) * -1e4
        if how == "places":
            mask = (torch.arange(32)[None, None, :, None] >= 0).expand(2, -1, 32, 32)
        return attention(q, k, v, attn_mask=mask, is_causal=how == "causal", enable_gqa=how == "groups")

    y = torch.compile(run, backend=fireiron.torch.backend)(q, k, v, mask)
    dy = torch.randn_like(y)
    made = torch.autograd.grad(y, (q, k, v), dy)
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    exact = run(*wide, mask.float() if how == "numbers" else mask)
    torch.testing.assert_close(y.float(), exact, rtol=3e-3, atol=3e-3)
    for got, wanted in zip(made, torch.autograd.grad(exact, wide, dy.float()), strict=True):
        torch.testing.assert_close(got.float(), wanted, rtol=4e-3, atol=4e-3)
    forward, backward = plans()[-2:]
    # The forward pass keeps no weights: its results are attention, and a number for each row.
    assert [x.part.kind for x in forward.launches] == ["attention"]
    assert [forward.graph.nodes[i].shape for i in forward.graph.outputs] == [(2, 4, 32, 16), (2, 4, 32), (2, 4, 32, 16)]
    assert len({forward.views[i].node for i in forward.graph.outputs}) == 2
    assert len(forward.kernels[0].inputs) == (4 if mask is not None else 3)
    (gradient,) = (n for n in backward.graph.nodes if n.op == "foreign" and n["label"] != "item")
    assert len(gradient.inputs) == (7 if mask is not None else 6)
    labels = [dict(n.attributes)["label"] for n in backward.graph.nodes if n.op == "foreign"]
    assert labels == ["fireiron.kept_attention_backward", "item", "item", "item"]


@pytest.mark.parametrize("how", ["dropout", "learned mask"])
def test_attention_whose_gradient_is_another_one_is_left_to_torch(how: str) -> None:
    torch._dynamo.reset()
    q, k, v = heads(2), heads(2), heads(2)
    mask = torch.zeros(32, 32).half().requires_grad_(how == "learned mask")
    seen: list[Any] = []

    def backend(module: Any, _: Any) -> Any:
        torch_attention.keep_attention(module, training=True)
        seen.extend(n.target for n in module.graph.nodes if n.op == "call_function")
        return module

    def run(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, attn_mask=mask, dropout_p=0.5 * (how == "dropout"))

    torch.compile(run, backend=backend)(q, k, v)
    assert len(seen) == 1
    assert seen[0] is not torch.ops.fireiron.kept_attention.default


def test_masks_of_one_number_are_left_out_where_they_change_nothing() -> None:
    def scores(q: Any, fill: float, truth: bool) -> Any:
        zeros = torch.full((32, 32), fill, dtype=torch.float16)
        both = torch.ones(32, 32, dtype=torch.bool) if truth else torch.zeros(32, 32, dtype=torch.bool)
        one = torch.ops.fireiron.kept_attention(q, q, q, zeros[None, None] * 1, 0.0, False, None, False)[0]
        return one + torch.ops.fireiron.kept_attention(q, q, q, both, 0.0, False, None, False)[0]

    from torch.fx.experimental.proxy_tensor import make_fx

    for fill, truth, left in ((0.0, True, 0), (-3.0, True, 1), (0.0, False, 1)):
        module = make_fx(lambda q: scores(q, fill, truth))(heads(2).detach())  # noqa: B023
        for node in module.graph.nodes:
            node.meta["val"] = node.meta.get("val", node.meta.get("tensor_meta"))
        torch_attention.simplify_positions(module)
        found = [n for n in module.graph.nodes if n.target is torch.ops.fireiron.kept_attention.default]
        kept = [n for n in found if n.args[3] is not None]
        assert (len(found), len(kept)) == (2, left), (fill, truth)


def positions(kind: str) -> Any:
    """Return a mask that is computed from positions alone; causal, or with a key more for each query."""
    place = torch.arange(32)
    seen = (place[None, :] <= place[:, None] + (kind == "one key more")).expand(2, 1, 32, 32)
    return torch.where(seen, 0.0, -math.inf).half() if kind == "float" else seen


@pytest.mark.parametrize("kind", ["bool", "float", "one key more"])
def test_causal_masks_become_a_flag(kind: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    kept = torch.ops.fireiron.kept_attention.default
    q = heads(2).detach()
    module = make_fx(lambda q: kept(q, q, q, positions(kind), 0.0, False, None, False)[0])(q)
    for node in module.graph.nodes:
        node.meta["val"] = node.meta.get("val", node.meta.get("tensor_meta"))
    before = module(q)
    torch_attention.simplify_positions(module)
    (call,) = (n for n in module.graph.nodes if n.target is kept)
    assert (call.args[3] is None, call.args[5]) == ((False, False) if kind == "one key more" else (True, True))
    torch.testing.assert_close(module(q), before)


@pytest.mark.parametrize(
    ("first", "step", "padding", "follows"), [(0, 1, -1, True), (3, 1, 1, True), (3, 1, 4, False), (0, 2, -1, False)]
)
def test_gradients_of_lines_that_follow_each_other_are_padded(
    first: int, step: int, padding: int, follows: bool
) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    backward = torch.ops.aten.embedding_dense_backward.default

    def gradient(dy: Any) -> Any:
        return backward(dy, torch.arange(first, first + 8 * step, step)[None], 32, padding, False) * 2

    dy = torch.randn(1, 8, 6)
    module = make_fx(gradient)(dy)
    for node in module.graph.nodes:
        node.meta["val"] = node.meta.get("val", node.meta.get("tensor_meta"))
    torch_attention.simplify_positions(module)
    assert (backward not in {n.target for n in module.graph.nodes}) == follows
    torch.testing.assert_close(module(dy), gradient(dy), rtol=0, atol=0)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("kind", ["bool", "one key more"])
def test_causal_masks_of_inference_are_no_arrays(kind: str, by_name: bool) -> None:
    torch._dynamo.reset()
    q = heads(2).detach()

    def run(q: Any) -> Any:
        seen = positions(kind)
        return attention(q, q, q, attn_mask=seen) if by_name else attention(q, q, q, seen)

    with torch.no_grad():
        made = torch.compile(run, backend=fireiron.torch.backend)(q)
        torch.testing.assert_close(made, run(q), atol=2e-3, rtol=2e-3)
    read = {node.dtype.name for node in plans()[-1].graph.nodes if node.op in ("array", "input")}
    assert ("u8" in read) == (kind == "one key more")


def test_the_kernels_of_the_gradient() -> None:
    def tensors(heads: int = 8, dtype: Any = torch.float16, columns: int = 64, length: int = 4096) -> Any:
        return SimpleNamespace(shape=(2, heads, length, columns), dtype=dtype, is_cuda=True)

    def names(q: Any, k: Any, mask: bool, *usable: str) -> list[str]:
        return [way.__name__ for way in torch_attention.ways(q, k, mask, lambda name: name in usable)]

    q, every = tensors(), ("cudnn", "flash", "efficient")
    assert names(q, q, False, *every) == ["_by_cudnn", "_of_package", "_by_flash", "_by_efficient", "_by_products"]
    assert names(q, q, True, *every) == ["_by_cudnn", "_by_efficient", "_by_products"]
    assert names(q, q, True) == ["_by_products"]
    assert names(q, tensors(2), False, *every) == ["_by_cudnn", "_of_package", "_by_products"]
    assert names(tensors(dtype=torch.float32), tensors(), False, *every) == ["_by_efficient", "_by_products"]
    wide = ["_of_package", "_by_flash", "_by_efficient", "_by_products"]
    assert names(tensors(columns=256), tensors(), False, *every) == wide
    assert names(heads(2), heads(2), False, *every) == ["_by_products"]
    few, odd = tensors(length=384), tensors(length=385)
    assert names(few, few, False, *every)[:2] == ["_of_package", "_by_cudnn"]
    assert names(few, q, False, *every)[:2] == names(odd, odd, False, *every)[:2] == ["_by_cudnn", "_of_package"]
    assert names(few, tensors(2, length=384), False, *every)[:2] == ["_by_cudnn", "_of_package"]
    assert names(few, few, True, *every)[0] == "_by_cudnn"


def test_a_kernel_that_fails_is_not_tried_again(monkeypatch: Any) -> None:
    calls: list[str] = []

    def broken(*_: Any) -> Any:
        calls.append("broken")
        raise RuntimeError("no plan\nfor these")

    monkeypatch.setattr(torch_attention, "ways", lambda *_: (broken, torch_attention._by_products))
    q = heads(2).detach()
    o, sums = torch.ops.fireiron.kept_attention(q, q, q, None, 0.0, False, None, False)
    with pytest.warns(UserWarning, match="other kernels than broken: no plan$"):
        first = torch.ops.fireiron.kept_attention_backward(o, q, q, q, None, o, sums, False, None)
    second = torch.ops.fireiron.kept_attention_backward(o, q, q, q, None, o, sums, False, None)
    assert calls == ["broken"]
    torch.testing.assert_close(first, second)
