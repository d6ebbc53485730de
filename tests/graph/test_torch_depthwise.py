"""Depthwise convolutions in training steps of the backend: the operator whose gradients are kernels, simulated."""
# pyright: reportMissingImports=false

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch
from torch import nn

import fireiron.torch
from fireiron.graph import torch_depthwise
from fireiron.graph.torch_backend import plans


class Block(nn.Module):
    """Be a block of a network of depthwise convolutions: with strides, a norm, and a convolution of single pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16)
        self.last = nn.Conv2d(16, 8, 1)

    def forward(self, x: Any) -> Any:
        return self.last(self.second(torch.relu(self.norm(self.first(x)))))


def step(fast: bool, dtype: Any, layout: Any) -> tuple[list[Any], list[str]]:
    """Return the gradients of a training step, and the operators that the backend's plans leave to torch."""
    torch.manual_seed(3)
    torch._dynamo.reset()
    model = Block().to(dtype).to(memory_format=layout)
    x = torch.randn(2, 16, 8, 6).to(dtype).to(memory_format=layout).requires_grad_()
    before = len(plans())
    call: Any = torch.compile(model, backend=fireiron.torch.backend) if fast else model
    call(x).float().square().mean().backward()
    made = [n for plan in plans()[before:] for n in plan.graph.nodes if n.op == "foreign"]
    left = [str(dict(n.attributes)["label"]) for n in made]
    return [x.grad, *(p.grad for p in model.parameters())], left


def test_gradients_of_depthwise_layers_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_depthwise, "on_gpu", lambda x: True)
    wanted, _ = step(False, torch.float32, torch.channels_last)
    found, left = step(True, torch.float16, torch.channels_last)
    for got, want in zip(found, wanted, strict=True):
        assert (got.float() - want).norm() <= 2e-2 * want.norm() + 1e-4
    assert sum("conv_filters_gradient" in x for x in left) == 2
    assert sum("conv_transpose" in x for x in left) == 2


@pytest.mark.parametrize(("dtype", "last", "there"), [
    (torch.float32, True, True), (torch.float16, False, True), (torch.float16, True, False),
])  # fmt: skip
def test_other_convolutions_stay(dtype: Any, last: bool, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of f32, with channels first, and on a CPU torch computes them."""
    monkeypatch.setattr(torch_depthwise, "on_gpu", lambda x: there)
    _, left = step(True, dtype, torch.channels_last if last else torch.contiguous_format)
    assert not [x for x in left if "conv_transpose" in x or "conv_filters_gradient" in x]
