"""Attention on the GPU, against its reference: head dims, lengths, masks, and data whose result is exact."""

from __future__ import annotations

from typing import Any

import pytest
from verified import verified

import fireiron
from fireiron import tensor
from fireiron.jit.driver import driver
from fireiron.schedules import attention


def heads(queries: int, keys: int, depth: int, width: int, dtype: str, **options: Any) -> Any:
    q, k, v = (tensor(2, 3, n, d, dtype=dtype) for n, d in ((queries, depth), (keys, depth), (keys, width)))
    return attention.attention(q, k, v, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "width"),
    [
        (512, 512, 64, 64),
        (512, 512, 128, 128),
        (77, 300, 128, 64),
        (300, 77, 96, 32),
        (1, 1000, 64, 64),
        (200, 300, 40, 40),
        (300, 200, 72, 72),
        (200, 300, 136, 120),
    ],
)
def test_mma(gpu: int, queries: int, keys: int, depth: int, width: int, dtype: str, causal: bool) -> None:
    verified(attention.mma(heads(queries, keys, depth, width, dtype, causal=causal)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys", "depth", "width"), [(200, 300, 64, 64), (77, 130, 128, 160)])
def test_volta(gpu: int, queries: int, keys: int, depth: int, width: int, causal: bool) -> None:
    """Later architectures emulate the instruction of quad-pairs."""
    spec = heads(queries, keys, depth, width, "f16", causal=causal)
    verified(
        attention.volta(spec, warps=1 if width == 64 else None)
    )  # one warp copies wide chunks through 128 registers


@pytest.mark.parametrize(
    ("preset", "group", "keys", "depth", "width"),
    [("decode", 16, 5000, 576, 512), ("decode", 128, 300, 576, 512), ("mma", 3, 300, 96, 64), ("simt", 2, 70, 40, 32)],
)
def test_latents(gpu: int, preset: str, group: int, keys: int, depth: int, width: int) -> None:
    """One cache holds keys, and the values in its first columns."""
    q, cache = tensor(2, 1, group, 2, depth, dtype="bf16"), tensor(2, 1, keys, depth, dtype="bf16")
    if preset == "decode" and driver().compute_capability(gpu) not in (80, 90, 100):
        pytest.skip("a block takes 113 KiB of shared memory")
    verified(getattr(attention, preset)(attention.latent.on(q="b h g i d")(q, cache, width=width)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("preset", "queries", "keys", "columns"),
    [("mma", 512, 1024, 128), ("mma", 77, 300, 64), ("decode", 4, 5000, 128), ("simt", 33, 70, 32)],
)
def test_eight_bits(gpu: int, preset: str, queries: int, keys: int, columns: int, causal: bool) -> None:
    """Weights are rounded to e4m3, and nothing else is; heads have scales."""
    if driver().compute_capability(gpu) < 89:
        pytest.skip("products of 8-bit floats are for sm_89 and later")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    q, k, v = (
        (torch.randn(2, 3, n, columns, device="cuda") * 2).to(torch.float8_e4m3fn) for n in (queries, keys, keys)
    )
    scales = [torch.rand(3, device="cuda") + 0.3 for _ in range(3)]
    described = {name: tensor(3, name=name) for name in ("q_scale", "k_scale", "v_scale")}
    spec = heads(queries, keys, columns, columns, "e4m3", out="bf16", causal=causal, **described)
    out = torch.empty(2, 3, queries, columns, device="cuda", dtype=torch.bfloat16)
    getattr(attention, preset)(spec).compile()(q, k, v, *scales, out=out)
    of_q, of_k, of_v = (x.double()[:, None, None] for x in scales)
    scores = q.double() @ k.double().mT * columns**-0.5 * of_q * of_k
    if causal:
        places = torch.arange(queries, device="cuda")[:, None] + keys - queries
        scores = scores.masked_fill(torch.arange(keys, device="cuda") > places, -torch.inf)
    part = torch.exp(scores - scores.amax(-1, keepdim=True))
    total, values = part.sum(-1, keepdim=True), v.double() * of_v
    want = part / total @ values
    bound = (2.0**-4 * part + 2.0**-18) / total @ values.abs() * 1.001 + 2.0**-8 * want.abs()
    assert ((out.double() - want).abs() <= bound).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "depth"),
    [(512, 512, 64), (512, 1024, 128), (300, 77, 128), (77, 300, 64), (1000, 2000, 64), (300, 300, 32), (200, 300, 80)],
)
def test_wgmma(gpu: int, queries: int, keys: int, depth: int, causal: bool) -> None:
    if driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")
    verified(attention.wgmma(heads(queries, keys, depth, depth, "bf16", causal=causal)))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_many_heads_of_tokens(gpu: int, dtype: str) -> None:
    """Heads lie side by side in each token; an array says which queries see anything."""
    if driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")
    strides = (384 * 12 * 64, 64, 12 * 64, 1)
    q, k, v = (tensor(8, 12, 384, 64, dtype=dtype, strides=strides) for _ in range(3))
    seen = tensor(384, dtype="u8", name="seen")
    verified(attention.wgmma(attention.attention(q, k, v)))
    verified(attention.wgmma(attention.attention(q, k, v, mask=lambda i, seen: seen[i] > 0, seen=seen)))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("sharing", "queries", "keys", "depth", "width"),
    [
        (4, 1, 5000, 128, 128),
        (1, 16, 3000, 64, 64),
        (8, 2, 4096, 128, 64),
        (5, 3, 77, 32, 32),
        (2, 1, 40000, 256, 256),
        (4, 2, 3000, 72, 40),
    ],
)
def test_decode(gpu: int, sharing: int, queries: int, keys: int, depth: int, width: int, dtype: str) -> None:
    q = tensor(2, 3, sharing, queries, depth, dtype=dtype)
    k, v = (tensor(2, 3, keys, n, dtype=dtype) for n in (depth, width))
    verified(attention.decode(attention.attention.on(q="b h g i d")(q, k, v)))


@pytest.mark.parametrize("preset", ["decode", "mma", "wgmma"])
def test_lengths_of_padded_keys(gpu: int, preset: str) -> None:
    """Loops end where an array says."""
    torch = pytest.importorskip("torch")
    if preset == "wgmma" and driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")
    queries = 4 if preset == "decode" else 200
    given = (tensor(4, 2, n, 128, dtype="bf16") for n in (queries, 3000, 3000))
    lengths = tensor(4, dtype="i32", name="lengths")
    spec = attention.attention(*given, mask=lambda b, j, lengths: j < lengths[b], lengths=lengths)
    q, k, v = (torch.randn(4, 2, n, 128, device="cuda").bfloat16() for n in (queries, 3000, 3000))
    found = torch.tensor([3000, 1, 0, 1500], device="cuda", dtype=torch.int32)
    out = torch.empty_like(q)
    getattr(attention, preset)(spec).compile()(q, k, v, found, out=out)
    seen = torch.arange(3000, device="cuda") < found[:, None, None, None]
    scores = (q.double() @ k.double().transpose(-1, -2) / 128**0.5).masked_fill(~seen, -torch.inf)
    wanted = torch.nan_to_num(scores.softmax(-1)) @ v.double()
    assert (out.double() - wanted).abs().max() < 3e-2


def test_simt(gpu: int) -> None:
    verified(attention.simt(heads(100, 70, 64, 32, "f16", causal=True)))


@pytest.mark.parametrize("preset", ["mma", "wgmma"])
@pytest.mark.parametrize("depth", [64, 128])
def test_exact_data(gpu: int, depth: int, preset: str) -> None:
    """Zero queries take the mean of the values; queries that see one key far above all others take its value."""
    torch = pytest.importorskip("torch")
    if preset == "wgmma" and driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")
    kernel = getattr(attention, preset)(heads(256, 512, depth, depth, "f16")).compile()
    v = torch.randint(-8, 8, (2, 3, 512, depth)).half()
    out = torch.empty(2, 3, 256, depth, dtype=torch.float16, device="cuda")

    def weighed(q: Any, k: Any) -> Any:
        kernel(q.half().cuda(), k.half().cuda(), v.cuda(), out=out)
        return out.cpu()

    nothing, anything = torch.zeros(2, 3, 256, depth), torch.randn(2, 3, 512, depth)
    mean = v.double().mean(2, keepdim=True).expand(2, 3, 256, depth)
    assert (weighed(nothing, anything).double() - mean).abs().max() < 2e-3
    marks = 64 * torch.eye(512, depth)  # query i matches key i, far above all others
    found = weighed(marks[:256].expand(2, 3, 256, depth), marks.expand(2, 3, 512, depth))
    assert torch.equal(found[:, :, :depth], v[:, :, :depth])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth", [64, 128])
def test_launches_agree(gpu: int, depth: int, causal: bool) -> None:
    """A wait that is missing shows in some launches of many alone: each must give the bits of the first."""
    torch = pytest.importorskip("torch")
    if driver().compute_capability(gpu) != 90:
        pytest.skip("wgmma is for sm_90a alone")
    q, k, v = (torch.randn(2, 3, 4096, depth, device="cuda").bfloat16() for _ in range(3))
    kernel = attention.wgmma(heads(4096, 4096, depth, depth, "bf16", causal=causal)).compile()
    first = kernel(q, k, v).clone()
    wanted = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    assert (first.float() - wanted).abs().max() < 2e-2
    assert all(torch.equal(kernel(q, k, v), first) for _ in range(200))


def by_torch(torch: Any, q: Any, k: Any, v: Any, seen: Any, kept: Any = 1.0, sinks: Any = None) -> Any:
    """Attend in f64, with heads of keys repeated."""
    k, v = (x.double().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q.double() @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
    if sinks is not None:
        beside = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
        return (torch.cat([scores, beside], -1).softmax(-1)[..., :-1] * kept) @ v
    return (torch.nan_to_num(scores.softmax(-1)) * kept) @ v


@pytest.mark.parametrize("queries", [1, 200])
@pytest.mark.parametrize("lines", [16, 64, 256])
def test_pages(gpu: int, lines: int, queries: int) -> None:
    """Caches of several lengths lie in pages, in any order; few queries share them among blocks."""
    torch = pytest.importorskip("torch")
    batch, most = 3, 2048
    each = most // lines
    q = torch.randn(batch, 8, queries, 128, device="cuda").bfloat16()
    k, v = (torch.randn(batch * each + 1, 2, lines, 128, device="cuda").bfloat16() for _ in range(2))
    pages = torch.randperm(batch * each + 1, device="cuda")[: batch * each].reshape(batch, each).int()
    lengths = torch.tensor([most, 1, 777], device="cuda", dtype=torch.int32)
    made = fireiron.attention(q, k, v, pages=pages, lengths=lengths, enable_gqa=True, debug=True)
    keys, values = (x[pages.long()].transpose(1, 2).reshape(batch, 2, most, 128) for x in (k, v))
    seen = torch.arange(most, device="cuda") < lengths[:, None, None, None]
    assert (made.double() - by_torch(torch, q, keys, values, seen)).abs().max() < 3e-2
    with pytest.raises(fireiron.FireironError, match="attention-pages"):
        fireiron.attention(q, k, v, pages=pages + batch * each, lengths=lengths, enable_gqa=True, debug=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sequences_behind_each_other(gpu: int, dtype: str, causal: bool) -> None:
    """Each sequence sees its own keys alone, forward and in gradients."""
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    edges = torch.tensor([0, 300, 300, 333, 1400], device="cuda", dtype=torch.int32)
    q, k, v = (torch.randn(1500, n, 64, device="cuda").to(kind).requires_grad_() for n in (4, 2, 2))
    made = fireiron.attention(q, k, v, offsets=edges, is_causal=causal, enable_gqa=True, debug=True)
    place = torch.arange(1500, device="cuda")
    mine = torch.searchsorted(edges[1:], place.int(), right=True)
    seen = (mine[:, None] == mine) & (place[:, None] < 1400) & (place < 1400)
    seen = seen & (place <= place[:, None]) if causal else seen
    doubles = [x.detach().double().requires_grad_() for x in (q, k, v)]
    want = by_torch(torch, *(x.transpose(0, 1)[None] for x in doubles), seen)[0].transpose(0, 1)
    assert (made.double() - want).abs().max() < 3e-2
    by = torch.randn_like(made)
    found = torch.autograd.grad(made, (q, k, v), by)
    wanted = torch.autograd.grad(want, doubles, by.double())
    for got, good in zip(found, wanted, strict=True):
        assert (got.double() - torch.nan_to_num(good)).abs().max() < 2e-2 * torch.nan_to_num(good).abs().max()


@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_dropout_and_sinks(gpu: int, dtype: str, depth: int) -> None:
    """A GPU drops the weights that Philox in NumPy drops, forward and in gradients."""
    torch = pytest.importorskip("torch")
    import numpy as np

    kind, shape = getattr(torch, dtype), (2, 4, 300, 500)
    q, k, v = (torch.randn(2, 4, n, depth, device="cuda").to(kind).requires_grad_() for n in (300, 500, 500))
    sinks = torch.tensor([0.5, -1.0, 0.0, 2.0], device="cuda", requires_grad=True)
    b, h, i, j = np.ix_(*map(np.arange, shape))
    words = fireiron.philox((j // 16 * 4 + j % 8 // 2, i, b * 4 + h, 9), (77, 3))
    bits = np.choose(np.broadcast_to(j // 8 % 2 * 2 + j % 2, shape), words) >> 8
    kept = torch.tensor((bits >= round(0.25 * 2**24)) / 0.75, device="cuda")
    made = fireiron.attention(q, k, v, sinks=sinks, dropout_p=0.25, seed=(3 * 2**32 + 77, 9))
    doubles = [x.detach().double().requires_grad_() for x in (q, k, v, sinks)]
    seen = torch.ones(300, 500, dtype=torch.bool, device="cuda")
    want = by_torch(torch, *doubles[:3], seen, kept, doubles[3])
    assert (made.double() - want).abs().max() < 3e-2
    by = torch.randn_like(made)
    found = torch.autograd.grad(made, (q, k, v, sinks), by)
    for got, good in zip(found, torch.autograd.grad(want, doubles, by.double()), strict=True):
        assert (got.double() - good).abs().max() < 2e-2 * good.abs().max()
