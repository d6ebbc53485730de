"""Operators of torch on a GPU: values and gradients in half precision, under torch.compile, and what a call costs."""

from __future__ import annotations

import numpy as np
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


def test_plain_calls_go_past_the_dispatcher():
    """Calls that torch need not see run their function; those that it traces, watches or differentiates do not."""
    from torch.autograd import forward_ad
    from torch.utils._python_dispatch import TorchDispatchMode

    from fireiron.front.torch_ops import dispatched

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            seen.append(str(op))
            return op(*args, **(kwargs or {}))

    x, weight, seen = torch.randn(4, 64, device="cuda"), torch.nn.Parameter(torch.ones(64, device="cuda")), []
    assert not dispatched(x, None)
    assert dispatched(x, weight)
    assert dispatched(x.cpu())
    assert dispatched(x.clone().requires_grad_())
    with torch.no_grad():
        assert not dispatched(x, weight)
    with Watch():
        ft.softmax(x)
    assert any("fireiron.softmax" in op for op in seen)
    with forward_ad.dual_level():
        assert dispatched(forward_ad.make_dual(x, x))
    inside = []
    torch.func.vmap(lambda y: inside.append(dispatched(y)) or y)(x)
    assert inside == [True]


@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("form", ["bhsd", "bshd", "keys beside"])
def test_attention_again_is_attention(heads, form, monkeypatch):
    """The second call of a kind skips the checks, and gives the same bits; other places and strides are seen."""
    from fireiron.front import torch_attention

    def made(h, rows):
        if form == "bshd":
            return torch.randn(2, rows, h, 64, device="cuda").half().transpose(1, 2)
        return torch.randn(2, h, rows, 64, device="cuda").half()

    q, k, v = made(4, 130), made(heads, 200), made(heads, 200)
    v = v.mT.contiguous().mT if form == "keys beside" else v
    options = {"enable_gqa": heads != 4}
    usual, runs = torch_attention._located, []
    monkeypatch.setattr(torch_attention, "_located", lambda *given: runs.append(1) or usual(*given))
    first = fireiron.attention(q, k, v, lse=True, **options)
    for again in range(2):
        o, sums = fireiron.attention(q, k, v, lse=True, **options)
        assert torch.equal(o, first[0]), again
        assert torch.equal(sums, first[1]), again
        assert o.stride() == first[0].stride()
        assert len(runs) <= (1 if form != "keys beside" else 2 + again)  # values of 16 bits are copied there
    wanted = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), **options)
    assert (o.float() - wanted).abs().max() < 4e-3
    assert torch.equal(ft.scaled_dot_product_attention(q, k, v, **options), o)
    moved = torch.empty(q.numel() + 1, device="cuda", dtype=q.dtype)[1:].as_strided(q.shape, q.stride()).copy_(q)
    assert torch.equal(fireiron.attention(moved, k, v, **options), o)  # lines that start off 16 bytes are copied
    causal = fireiron.attention(q[:, :, :100], k[:, :, :100], v[:, :, :100], is_causal=True, **options)
    assert not torch.equal(causal, o[:, :, :100])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    ("lines", "width", "k"), [(640, 160, 8), (37, 61, 3), (3000, 8, 2), (300, 712, 8), (200, 1024, 4)]
)
def test_top_of_few(dtype, lines, width, k):
    """Of equal values, zeros of both signs, infinities and NaN of both signs, as a stable sort finds them."""
    drawn = np.random.default_rng(2)
    given = np.round(2 * drawn.standard_normal((lines, width))).astype(np.float32)
    given[::5] = drawn.choice(np.float32([0.0, -0.0, -1.0]), given[::5].shape)
    given[1::5] = drawn.choice(np.float32([np.nan, -np.nan, np.inf, -np.inf, 1.0]), given[1::5].shape)
    x = torch.from_numpy(given).cuda().to(getattr(torch, dtype))
    values, columns = ft.topk(x, k)
    y = x.double().cpu().numpy()
    wanted = np.lexsort((-np.where(np.isnan(y), 0.0, y), ~np.isnan(y)), axis=1)[:, :k]
    assert np.array_equal(columns.cpu().numpy(), wanted)
    assert np.array_equal(values.double().cpu().numpy(), np.take_along_axis(y, wanted, 1), equal_nan=True)


NORMS = {
    "layer_norm": lambda f, x, y, w, b: f.layer_norm(x, x.shape[-1:], w, b),
    "rms_norm": lambda f, x, y, w, b: f.rms_norm(x, x.shape[-1:], w, eps=1e-6),
    "add_layer_norm": lambda f, x, y, w, b: f.add_layer_norm(x, y, x.shape[-1:], w, b),
    "add_rms_norm": lambda f, x, y, w, b: f.add_rms_norm(x, y, x.shape[-1:], w, eps=1e-6),
}


class Exact:
    """The norms of sums, by torch in f64."""

    layer_norm, rms_norm = staticmethod(F.layer_norm), staticmethod(F.rms_norm)

    @staticmethod
    def add_layer_norm(x, y, shape, w, b):
        return F.layer_norm(x + y, shape, w, b), x + y

    @staticmethod
    def add_rms_norm(x, y, shape, w, eps):
        return F.rms_norm(x + y, shape, w, eps), x + y


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(700, 96), (130, 4096), (96, 12288), (40, 16384), (33, 9001)])
def test_gradients_of_norms(name, shape):
    """Wide rows take a second kernel for gain and bias; with a sum, its other gradient is added. Calls are repeated."""
    torch.manual_seed(1)
    for _ in range(3):
        x, y, *by = (torch.randn(shape, device="cuda").bfloat16() for _ in range(4))
        w, b = (torch.randn(shape[-1], device="cuda").bfloat16() for _ in range(2))
        found = []
        for f, kind in ((ft, torch.bfloat16), (Exact, torch.float64)):
            given = [t.to(kind).requires_grad_() for t in (x, y, w, b)]
            made = NORMS[name](f, *given)
            made = made if isinstance(made, tuple) else (made,)
            used = [t for t, wanted in zip(given, (True, "add" in name, True, "layer" in name), strict=True) if wanted]
            found.append(torch.autograd.grad(made, used, [g.to(kind) for g in by[: len(made)]]))
        for got, want in zip(*found, strict=True):
            assert got.dtype == torch.bfloat16
            assert (got.double() - want).abs().max() <= 1.5e-2 * want.abs().max(), (got.double() - want).abs().max()


def _last(x):
    return x.to(memory_format=torch.channels_last)


REPEATED = {
    "softmax": lambda x, w, t: ft.softmax(x),
    "layer_norm": lambda x, w, t: ft.layer_norm(x, (96,), w, w),
    "add_rms_norm": lambda x, w, t: ft.add_rms_norm(x, x.flip(0), (96,), w),
    "cumsum": lambda x, w, t: ft.cumsum(x),
    "topk": lambda x, w, t: ft.topk(x, 8),
    "embedding": lambda x, w, t: ft.embedding(t, x),
    "cross_entropy": lambda x, w, t: ft.cross_entropy(x, t),
    "conv2d": lambda x, w, t: fireiron.conv2d(_last(x.view(4, 16, 6, 16)), _last(x[:24].view(16, 16, 3, 3))),
    "max_pool2d": lambda x, w, t: fireiron.max_pool2d(_last(x.view(4, 16, 6, 16)), 2),
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_calls_are_right(name):
    """Calls of one kind on two sets of tensors, on two streams, and with the gradient on: the same bits."""
    run = REPEATED[name]
    sets = [
        (torch.randn(64, 96, device="cuda").half(), torch.randn(96, device="cuda").half(), torch.randint(0, 64, (64,)))
        for _ in range(2)
    ]
    sets = [(x, w, t.cuda()) for x, w, t in sets]

    def flat(made):
        return [y.clone() for y in (made if isinstance(made, tuple) else (made,))]

    with torch.no_grad():
        for _ in range(2):
            quick = [flat(run(*one)) for one in sets]
        aside = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(aside):
            other = flat(run(*sets[1]))
        torch.cuda.synchronize()
    usual = [flat(run(x.clone().requires_grad_(), w, t)) for x, w, t in sets]
    for got, want in zip([*quick, other], [*usual, usual[1]], strict=True):
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a, b)


def test_the_host_needs_no_more_than_a_few_calls_of_torch():
    """What the host needs for a call, in one process, against torch's functions."""
    from time import perf_counter

    x, w = torch.randn(64, 256, device="cuda").half(), torch.ones(256, device="cuda").half()
    pairs = {
        "softmax": (lambda: ft.softmax(x), lambda: torch.softmax(x, -1)),
        "add_rms_norm": (lambda: ft.add_rms_norm(x, x, (256,), w), lambda: F.rms_norm(x + x, (256,), w)),
        "layer_norm": (lambda: ft.layer_norm(x, (256,), w, w), lambda: F.layer_norm(x, (256,), w, w)),
    }

    def least(call):
        found = []
        for _ in range(50):
            torch.cuda.synchronize()
            begin = perf_counter()
            for _ in range(20):
                call()
            found.append((perf_counter() - begin) / 20)
        return min(found)

    for name, (ours, theirs) in pairs.items():
        assert least(ours) < 4 * least(theirs), name
