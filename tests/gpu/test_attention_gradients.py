"""Attention's gradients on the GPU: the schedules bit by bit, and the operator of torch against f64."""

from __future__ import annotations

from typing import Any

import pytest
from verified import verified

import fireiron
from fireiron import equal, tensor
from fireiron.jit.driver import driver
from fireiron.schedules import attention_gradients as gradients

GROUPED = {"q": "b h g i d", "dy": "b h g i e", "lse": "b h g i", "delta": "b h g i"}


@pytest.mark.parametrize("preset", ["wgmma", "mma"])
@pytest.mark.parametrize("function", ["of_queries", "of_keys", "of_keys_alone", "of_values"])
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "width"),
    [(300, 500, 64, 64), (200, 70, 128, 64), (200, 300, 192, 128), (300, 200, 256, 256)],
)
def test_presets(
    gpu: int, queries: int, keys: int, depth: int, width: int, group: int, function: str, preset: str
) -> None:
    if preset == "wgmma" and (driver().compute_capability(gpu) != 90 or (group > 1 and function != "of_queries")):
        pytest.skip("wgmma is for sm_90a alone, and loops over heads of queries have no roles")
    if function == "of_keys" and depth + width > 2 * 128 + 64 * (preset == "wgmma"):
        pytest.skip("registers do not hold the gradients of such keys and values")
    lead = (2, 2) if group == 1 else (2, 2, group)
    shapes = (*lead, queries, depth), (2, 2, keys, depth), (2, 2, keys, width), (*lead, queries, width)
    rows = [tensor(*lead, queries, dtype="f32") for _ in range(2)]
    arrays = (*(tensor(*shape, dtype="bf16") for shape in shapes), *rows)
    known = dict(zip(("q", "k", "v", "dy", "lse", "delta"), arrays, strict=True))
    if function == "of_values":
        del known["v"], known["delta"]
    program = getattr(gradients, function).on(**{n: dims for n, dims in GROUPED.items() if group > 1 and n in known})
    spec = program(*known.values(), causal=True)
    verified(getattr(gradients, preset)(spec), repeats=2)


def wanted(torch: Any, q: Any, k: Any, v: Any, dy: Any, seen: Any, scores: Any = None) -> tuple[Any, ...]:
    """Compute attention, the logarithms of its sums and its gradients in f64 by torch's autograd."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, 1) for x in (k, v))
    products = q @ keys.mT * q.shape[-1] ** -0.5
    products = products if scores is None else scores(products)
    masked = products.masked_fill(~seen, -torch.inf)
    weights = masked.softmax(-1).nan_to_num(0.0)
    made = weights @ values
    return (made.detach(), masked.logsumexp(-1).detach(), *torch.autograd.grad(made, (q, k, v), dy.double()))


def near(got: Any, want: Any, within: float) -> None:
    assert (got.double() - want).abs().max() <= within * want.abs().max() + 1e-6


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "shared", "queries", "keys", "depth", "dtype"),
    [
        (4, 4, 512, 512, 64, "bfloat16"),
        (4, 4, 300, 700, 128, "float16"),
        (8, 2, 257, 129, 64, "bfloat16"),
        (3, 1, 64, 1000, 96, "float16"),
        (2, 2, 100, 150, 64, "float32"),
        (2, 2, 60, 70, 128, "float32"),
        (2, 2, 200, 300, 40, "bfloat16"),
        (4, 2, 300, 200, 72, "float16"),
        (2, 2, 200, 300, 208, "bfloat16"),
        (2, 2, 300, 200, 240, "float16"),
        (2, 2, 300, 200, 256, "bfloat16"),
        (4, 2, 200, 300, 192, "float16"),
        (2, 1, 60, 70, 160, "float32"),
    ],
)
def test_operator(
    gpu: int, heads: int, shared: int, queries: int, keys: int, depth: int, causal: bool, dtype: str
) -> None:
    """Queries and keys of any number; tensors that lie as (batch, sequence, heads, elements)."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    q, k, v = (
        torch.randn(2, n, h, depth, device="cuda", dtype=kind).transpose(1, 2).requires_grad_()
        for n, h in ((queries, heads), (keys, shared), (keys, shared))
    )
    dy = torch.randn(2, queries, heads, depth, device="cuda", dtype=kind).transpose(1, 2)
    made, sums = fireiron.attention(q, k, v, is_causal=causal, enable_gqa=True, lse=True)
    found = made, sums, *torch.autograd.grad(made, (q, k, v), dy)
    i, j = torch.arange(queries, device="cuda")[:, None], torch.arange(keys, device="cuda")
    want = wanted(torch, q, k, v, dy, j <= i if causal else i >= 0)
    for got, right in zip(found, want, strict=True):
        near(got, right, 2.0**-14 if dtype == "float32" else 2.0**-6)
    again = torch.autograd.grad(fireiron.attention(q, k, v, is_causal=causal, enable_gqa=True), (q, k, v), dy)
    assert all(map(torch.equal, found[2:], again))


def test_functions(gpu: int) -> None:
    """Documents, a soft cap and slopes; rows without keys have zeros, -inf and no gradient."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 4, 500, 64, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
    dy = torch.randn_like(q)
    documents = (torch.arange(500, device="cuda", dtype=torch.int32) // 90)[None]
    slope = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    made, sums = fireiron.attention(
        q, k, v, lse=True, documents=documents, slope=slope,
        mask=lambda b, i, j, documents: equal(documents[b, i], documents[b, j]) & (j <= i - 3),
        score=lambda s, h, i, j, slope: fireiron.tanh(s / 4) * 4 - slope[h] * (i - j),
    )  # fmt: skip
    i, j = torch.arange(500, device="cuda")[:, None], torch.arange(500, device="cuda")
    seen = (documents[0, :, None] == documents[0]) & (j <= i - 3)
    want = wanted(torch, q, k, v, dy, seen, lambda s: torch.tanh(s / 4) * 4 - slope.double()[:, None, None] * (i - j))
    assert (made[:, :, :3] == 0).all()
    assert torch.equal(torch.isneginf(sums), torch.isneginf(want[1]))
    near(sums.nan_to_num(neginf=0), want[1].nan_to_num(neginf=0), 2.0**-10)
    for got, right in zip((made, *torch.autograd.grad(made, (q, k, v), dy)), (want[0], *want[2:]), strict=True):
        near(got, right, 2.0**-6)


@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_bounds_of_masks_that_read_arrays(gpu: int, depth: int, causal: bool) -> None:
    """Loops of all three kernels are bounded; documents start within groups of 64."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 2, 2000, depth, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
    dy = torch.randn_like(q)
    documents = torch.randint(0, 2000, (2, 7), device="cuda").sort().values
    place = torch.arange(2000, device="cuda").expand(2, -1).contiguous()
    documents = torch.searchsorted(documents, place, right=True).int()
    made = fireiron.attention(
        q, k, v, is_causal=causal, documents=documents,
        mask=lambda b, i, j, documents: equal(documents[b, i], documents[b, j]),
    )  # fmt: skip
    seen = (documents[:, None, :, None] == documents[:, None, None, :]) & (
        place[0] <= place[0][:, None] if causal else True
    )
    want = wanted(torch, q, k, v, dy, seen)
    for got, right in zip((made, *torch.autograd.grad(made, (q, k, v), dy)), (want[0], *want[2:]), strict=True):
        near(got, right, 2.0**-6)


@pytest.mark.parametrize("size", [64, 128])
def test_lists_of_blocks(gpu: int, size: int) -> None:
    """Blocks of a list may have gaps: only the first of them are whole."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, 2, 1100, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    blocks = (torch.rand(18, 18, device="cuda") < 0.4).int()
    blocks[:, 1] = 1
    made = fireiron.attention(q, k, v, blocks=blocks, mask=lambda i, j, blocks: blocks[i // size, j // size] > 0)
    seen = blocks.bool().repeat_interleave(size, 0).repeat_interleave(size, 1)[:1100, :1100]
    near(made, wanted(torch, q, k, v, torch.zeros_like(q), seen)[0], 2.0**-8)


def test_compiled(gpu: int) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (torch.randn(1, 2, 200, 64, device="cuda", dtype=torch.float16).requires_grad_() for _ in range(3))

    def model(q: Any, k: Any, v: Any) -> Any:
        return fireiron.attention(q * 0.5, k, v, mask=lambda i, j: i - j < 50).float().square()

    compiled = torch.compile(model, fullgraph=True)
    assert torch.allclose(compiled(q, k, v), model(q, k, v), atol=1e-3)
    ours, theirs = (torch.autograd.grad(f(q, k, v).sum(), (q, k, v)) for f in (compiled, model))
    assert all(torch.allclose(x, y, atol=1e-2) for x, y in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("at", ["bhij", "1hij", "b11j", "h", ""])
@pytest.mark.parametrize(("depth", "dtype"), [(64, "bfloat16"), (128, "float16"), (96, "bfloat16"), (32, "float32")])
def test_gradients_of_a_bias(gpu: int, depth: int, dtype: str, at: str) -> None:
    """A bias learns whatever it broadcasts along, and has the same bits in every run."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    kind, sizes = getattr(torch, dtype), {"b": 3, "h": 4, "i": 200, "j": 333, "1": 1}
    q, k, v = (torch.randn(3, h, n, depth, device="cuda", dtype=kind) for h, n in ((4, 200), (2, 333), (2, 333)))
    bias = torch.randn([sizes[x] for x in at] or [2], device="cuda").requires_grad_()
    dy = torch.randn_like(q)

    def read(b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
        return bias[tuple({"b": b, "h": h, "i": i, "j": j}.get(x, 0) for x in at) or 1]

    def score(s: Any, b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
        return s + read(b, h, i, j, bias) * (j - i) * 0.01

    made = fireiron.attention(q, k, v, bias=bias, score=score, is_causal=True, enable_gqa=True)
    first, second = (torch.autograd.grad(made, bias, dy, retain_graph=True)[0] for _ in range(2))
    b, h, i, j = (torch.arange(sizes[x], device="cuda") for x in "bhij")
    b, h, i = b[:, None, None, None], h[:, None, None], i[:, None]
    wide = bias.detach().double().requires_grad_()
    scores = q.double() @ k.double().repeat_interleave(2, 1).mT * depth**-0.5
    scores = (scores + read(b, h, i, j, wide) * (j - i) * 0.01).masked_fill(j > i, -torch.inf)
    weights, values = scores.softmax(-1), v.double().repeat_interleave(2, 1)
    want = torch.autograd.grad(weights @ values, wide, dy.double(), retain_graph=True)[0]
    assert torch.equal(first, second)
    # Gradients read the rounded result of attention: what each query loses by that moves a sum over all scores too.
    lost = ((weights @ values).to(kind).double() - weights @ values) * dy.double()
    moved = ((weights * lost.sum(-1, keepdim=True)).detach() * (j - i) * 0.01).sum(-1)
    within = (1e-4 if dtype == "float32" else 2e-2) * want.abs().max() + 1e-6
    assert ((first.double() - want).abs() <= within + (0 if at else 6 * moved.square().sum().sqrt())).all()
