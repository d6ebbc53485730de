"""Operators of torch on a GPU: values and gradients in half precision, under torch.compile, and what a call costs."""

from __future__ import annotations

import pytest

import fireiron
from fireiron import gelu, silu

torch = pytest.importorskip("torch", reason="torch is not installed")
ft = __import__("fireiron.torch", fromlist=["gemm"])
F = torch.nn.functional


def drawn(*shape, scale=1.0):
    return (scale * torch.randn(*shape, device="cuda")).to(torch.bfloat16).requires_grad_()


def agree(ours, wanted, *inputs, within=2e-2):
    """Compare with torch in f32: within two roundings of bf16 of the largest value."""
    wide = [x.detach().float().requires_grad_() for x in inputs]
    made, right = ours(*inputs), wanted(*wide)
    weight = torch.randn_like(right).to(made.dtype)
    pairs = [(made, right)]
    pairs += zip(
        torch.autograd.grad(made, inputs, weight), torch.autograd.grad(right, wide, weight.float()), strict=True
    )
    for got, want in pairs:
        assert (got.float() - want).abs().max() <= within * want.abs().max()


def linear(x, w, bias):
    return fireiron.gemm(x, w, layout="row,col", epilog=lambda acc, bias: gelu(acc + bias), bias=bias)


def block(x, w, bias):
    made = fireiron.gemm(x, w, layout="row,col", epilog=lambda acc, bias: silu(acc + bias), bias=bias)
    return ft.rms_norm(ft.layer_norm(made, made.shape[-1:]), made.shape[-1:])


def torchs(x, w, bias):
    made = F.silu(F.linear(x, w, bias))
    return F.rms_norm(F.layer_norm(made, made.shape[-1:]), made.shape[-1:], eps=torch.finfo(torch.bfloat16).eps)


def test_gradients():
    inputs = drawn(512, 256), drawn(384, 256, scale=0.06), drawn(384)
    agree(linear, lambda x, w, b: F.gelu(F.linear(x, w, b)), *inputs)
    agree(block, torchs, *inputs)
    agree(lambda x: ft.softmax(x, -1), lambda x: torch.softmax(x, -1), drawn(64, 1000))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_torch_compile(backend):
    inputs = drawn(512, 256), drawn(384, 256, scale=0.06), drawn(384)
    agree(torch.compile(block, fullgraph=True, backend=backend), torchs, *inputs)


def test_rows_of_any_number_share_a_kernel():
    from fireiron.front import torch_rows

    ft.softmax(drawn(7, 640))
    before = torch_rows._kernel.cache_info().misses
    for rows in (1, 8, 333):
        x = drawn(rows, 640)
        assert torch.allclose(ft.softmax(x).float(), torch.softmax(x.float(), -1), atol=1e-2)
    assert torch_rows._kernel.cache_info().misses == before


def test_rows_with_results_of_their_own():
    agree(lambda x: ft.cumsum(x), lambda x: torch.cumsum(x, -1), drawn(64, 1000))
    apart = torch.stack([torch.randperm(200, device="cuda") for _ in range(64)])  # of equal values torch takes any
    agree(lambda x: ft.topk(x, 8)[0], lambda x: torch.topk(x, 8).values, apart.bfloat16().requires_grad_())
    x, w, b = drawn(4, 32, 8, 8), drawn(32), drawn(32)
    agree(lambda *a: ft.group_norm(a[0], 8, *a[1:]), lambda *a: F.group_norm(a[0], 8, *a[1:]), x, w, b)
    turn = 6 * torch.rand(33, 64, device="cuda")
    c, s = turn.cos()[:, None], turn.sin()[:, None]

    def turned(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    agree(lambda x: ft.apply_rotary_emb(x, turn.cos(), turn.sin()), turned, drawn(2, 33, 4, 128))


def images(*shape, dtype=torch.float16):
    return torch.randn(*shape, device="cuda").to(dtype).to(memory_format=torch.channels_last).requires_grad_()


@pytest.mark.parametrize("windows", [{"padding": 1}, {"stride": 2, "padding": 1}, {"padding": 1, "groups": 4}])
@pytest.mark.parametrize("form", ["eager", "compiled"])
def test_convolutions(windows, form):
    """Values and gradients of a convolution with bias and relu, against torch's in f32."""

    def ours(x, w, b):
        return fireiron.conv2d(x, w, b, activation="relu", **windows)

    x, b = images(4, 64, 15, 17), torch.randn(128, device="cuda").half().requires_grad_()
    w = (images(128, 64 // windows.get("groups", 1), 3, 3) * 0.04).detach().requires_grad_()
    made = (torch.compile(ours, fullgraph=True, backend="aot_eager") if form == "compiled" else ours)(x, w, b)
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
    before = F.conv2d(*wide, **windows)
    wanted = F.relu(before)
    gradient = torch.randn_like(wanted) * (before.abs() > 1e-3)  # nearer to 0, rounding decides whether relu passes it
    found = torch.autograd.grad(made, (x, w, b), gradient.half())
    expected = torch.autograd.grad(wanted, wide, gradient)
    for got, want in zip((made, *found), (wanted, *expected), strict=True):
        assert (got.double() - want).abs().max() <= 4e-3 * want.abs().max()


def test_convolutions_of_f32_and_volumes():
    x, w = torch.randn(2, 12, 9, 9, device="cuda"), torch.randn(24, 12, 3, 3, device="cuda")
    assert torch.allclose(fireiron.conv2d(x, w).double(), F.conv2d(x.double(), w.double()), atol=1e-3)
    x, w = torch.randn(1, 32, 6, 7, 8, device="cuda").half(), torch.randn(64, 32, 3, 3, 3, device="cuda").half()
    wanted = F.conv3d(x.double(), w.double(), padding=1)
    assert (fireiron.conv3d(x, w, padding=1).double() - wanted).abs().max() <= 2e-3 * wanted.abs().max()
