"""Attention as an operator of torch, simulated: values and gradients against torch's own, compiled and exported."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import fireiron
from fireiron import FireironError, equal, tanh, where
from fireiron.front.score_text import text_of

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
ft: Any = __import__("fireiron.torch", fromlist=["attention"])
sdpa: Any = torch.nn.functional.scaled_dot_product_attention


def drawn(*shape: int, dtype: str = "float32", turned: bool = False) -> Any:
    """Draw numbers; turned ones lie as (batch, sequence, heads, elements)."""
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    made = made.transpose(1, 2).contiguous().transpose(1, 2) if turned else made
    return made.to(getattr(torch, dtype)).requires_grad_()


def agree(ours: Any, torchs: Any, *inputs: Any, within: float = 1e-4) -> None:
    made, wanted = ours(*inputs), torchs(*inputs)
    assert made.dtype == wanted.dtype
    assert torch.allclose(made, wanted, rtol=within, atol=within)
    weights = torch.linspace(-1, 1, wanted.numel()).reshape(wanted.shape).to(wanted.dtype)
    pairs = zip(torch.autograd.grad(made, inputs, weights), torch.autograd.grad(wanted, inputs, weights), strict=True)
    for x, (got, want) in zip(inputs, pairs, strict=True):
        assert got.dtype == want.dtype
        assert got.stride() == x.stride()
        assert torch.allclose(got, want, rtol=within, atol=within)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [2, 4])
def test_tensor_cores(heads: int, causal: bool, turned: bool) -> None:
    """Half precision is multiplied by tensor cores; heads may share keys, and lie in any order."""
    q, k, v = (
        drawn(1, n, length, width, dtype="float16", turned=turned)
        for n, length, width in ((heads, 24, 32), (2, 40, 32), (2, 40, 16))
    )
    options = {"is_causal": causal, "enable_gqa": heads > 2}
    agree(lambda *x: fireiron.attention(*x, **options), lambda *x: sdpa(*x, **options), q, k, v, within=1e-2)


@pytest.mark.parametrize(
    ("dtype", "depth", "width"), [("float16", 256, 256), ("float16", 192, 128), ("float32", 160, 144)]
)
def test_wide_heads(dtype: str, depth: int, width: int) -> None:
    """Gradients of keys and values are kernels of their own where registers do not hold both."""
    q, k, v = (drawn(1, 2, n, d, dtype=dtype) for n, d in ((20, depth), (24, depth), (24, width)))
    within = 1e-4 if dtype == "float32" else 1e-2
    agree(
        lambda *x: fireiron.attention(*x, is_causal=True), lambda *x: sdpa(*x, is_causal=True), q, k, v, within=within
    )


def test_f32() -> None:
    q, k, v = drawn(1, 2, 10, 8), drawn(1, 2, 12, 8), drawn(1, 2, 12, 4)
    agree(ft.scaled_dot_product_attention, sdpa, q, k, v)


@pytest.mark.parametrize(("adds", "shape"), [(False, (6, 8)), (True, (2, 1, 6, 8)), (False, (1, 2, 1, 8))])
def test_masks_of_tensors(adds: bool, shape: tuple[int, ...]) -> None:
    q, k, v = drawn(2, 2, 6, 8), drawn(2, 2, 8, 8), drawn(2, 2, 8, 8)
    mask = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    mask = mask if adds else mask > -0.5
    agree(lambda *x: ft.scaled_dot_product_attention(*x, attn_mask=mask), lambda *x: sdpa(*x, attn_mask=mask), q, k, v)


def test_other_numbers_of_dims() -> None:
    for lead in ((2,), (2, 2, 1)):
        q, k, v = (drawn(*lead, n, 8) for n in (6, 8, 8))
        assert torch.allclose(ft.scaled_dot_product_attention(q, k, v), sdpa(q, k, v), atol=1e-5)


def test_functions() -> None:
    """A score function's gradient is derived from it; documents and slopes are tensors beside."""
    q, k, v = drawn(1, 2, 12, 8), drawn(1, 2, 12, 8), drawn(1, 2, 12, 8)
    documents, slope = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]]), torch.tensor([0.5, 0.25])
    i, j = torch.arange(12)[:, None], torch.arange(12)
    seen = (documents[0, :, None] == documents[0]) & (j <= i)

    def ours(q: Any, k: Any, v: Any) -> Any:
        return fireiron.attention(
            q, k, v, scale=0.5, documents=documents.int(), slope=slope,
            mask=lambda b, i, j, documents: equal(documents[b, i], documents[b, j]) & (j <= i),
            score=lambda s, h, i, j, slope: tanh(s / 2) * 2 - slope[h] * (i - j),
        )  # fmt: skip

    def torchs(q: Any, k: Any, v: Any) -> Any:
        scores = torch.tanh(q @ k.mT * 0.5 / 2) * 2 - slope[:, None, None] * (i - j)
        return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v

    agree(ours, torchs, q, k, v)


@pytest.mark.parametrize("causal", [False, True])
def test_loops_bounded_by_arrays(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    """Masks of documents bound the loops over keys and over queries, compiled too."""
    monkeypatch.setattr("fireiron.front.attention_bounds.LEAST_KEYS", 64)
    q, k, v = (drawn(1, 2, n, 16, dtype="float16") for n in (199, 259, 259))
    generator = torch.Generator().manual_seed(1)
    rows, columns = (torch.randint(5, (1, n), generator=generator).sort(1).values.int() for n in (199, 259))
    seen = rows[:, None, :, None] == columns[:, None, None]
    seen = seen & (torch.arange(259) <= torch.arange(199)[:, None]) if causal else seen

    def ours(q: Any, k: Any, v: Any) -> Any:
        return fireiron.attention(
            q, k, v, is_causal=causal, rows=rows, columns=columns,
            mask=lambda b, i, j, rows, columns: equal(rows[b, i], columns[b, j]),
        )  # fmt: skip

    def torchs(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.mT * 16**-0.5).float().masked_fill(~seen, -torch.inf)
        return (torch.nan_to_num(scores.softmax(-1)).to(v.dtype)) @ v

    made = ours(q, k, v)
    assert torch.allclose(made, torchs(q, k, v), rtol=1e-2, atol=1e-2)
    weights = torch.linspace(-1, 1, made.numel()).reshape(made.shape).half()
    keep = seen.any(-1)[..., None]  # rows without keys are NaN in torch's gradients
    mine = torch.autograd.grad(made, (q, k, v), weights * keep)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")(q, k, v)
    assert torch.equal(compiled, made)
    again = torch.autograd.grad(compiled, (q, k, v), weights * keep)
    assert all(torch.equal(x, y) for x, y in zip(mine, again, strict=True))
    some = seen | ~seen.any(-1, keepdim=True)
    other = sdpa(q, k, v, attn_mask=some)
    theirs = torch.autograd.grad(other, (q, k, v), weights * keep)
    for got, want in zip(mine, theirs, strict=True):
        assert torch.allclose(got, want, rtol=1e-2, atol=1e-2)


def test_logarithms_have_gradients() -> None:
    """A loss of the logarithms of the sums goes back to queries and keys; a row without keys gives -inf."""
    q, k, v = drawn(1, 1, 6, 8), drawn(1, 1, 8, 8), drawn(1, 1, 8, 8)
    made, sums = fireiron.attention(q, k, v, lse=True)
    scores = q @ k.mT * 8**-0.5
    want = scores.logsumexp(-1)
    assert torch.allclose(sums, want, atol=1e-5)
    ours = torch.autograd.grad((made.sum() + (sums**2).sum()), (q, k, v))
    theirs = torch.autograd.grad(((scores.softmax(-1) @ v).sum() + (want**2).sum()), (q, k, v))
    for got, wanted in zip(ours, theirs, strict=True):
        assert torch.allclose(got, wanted, atol=1e-4)
    made, sums = fireiron.attention(q, k, v, mask=lambda i, j: j < i - 3, lse=True)
    assert (made[:, :, :4] == 0).all()
    assert torch.isneginf(sums[:, :, :4]).all()
    back = torch.autograd.grad(made.sum(), (q, k, v))
    assert all(torch.isfinite(x).all() for x in back)


@pytest.mark.parametrize("options", [{"mask": lambda j: j >= 12}, {"score": lambda s, j: where(j < 12, -torch.inf, s)}])
def test_gradients_behind_a_mask_that_is_known_to_hide_all_keys(options: Any) -> None:
    q, k, v = (drawn(1, 2, n, 16).requires_grad_() for n in (8, 12, 12))
    made = fireiron.attention(q, k, v, **options)
    for x in (made, *torch.autograd.grad(made.sum(), (q, k, v))):
        assert not x.any()


@pytest.mark.parametrize("sums", [False, True])
def test_the_function_of_autograd_is_as_the_operator(sums: bool) -> None:
    """On a GPU, calls without arrays that torch only differentiates take it."""
    from fireiron.front.torch_ops import LEARNED

    q, k, v = drawn(1, 2, 17, 16), drawn(1, 2, 23, 16), drawn(1, 2, 23, 16)
    found: list[Any] = []
    for run in (LEARNED["attention"], torch.ops.fireiron.attention):
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        made = run(*given, [], "", text_of(None, None, (), (), False), 0.25, False)
        wanted = [y.sin().sum() for y in made[: 1 + sums]]
        found.append((*made, *torch.autograd.grad(wanted, given)))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_compiled_and_exported() -> None:
    q, k, v = (drawn(1, 2, n, 16, dtype="float16") for n in (16, 24, 24))

    def model(q: Any, k: Any, v: Any) -> Any:
        return fireiron.attention(q * 2, k, v, is_causal=True, mask=lambda i, j: i - j < 9) + 1

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), model(q, k, v))
    compiled(q, k, v).sum().backward()
    assert q.grad is not None

    class Module(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return ft.scaled_dot_product_attention(q, k, v)

    exported = torch.export.export(Module(), (q.detach(), k.detach(), v.detach()))
    assert "fireiron.attention" in exported.graph_module.code
    assert torch.equal(exported.module()(q, k, v), ft.scaled_dot_product_attention(q, k, v))


def within_sequences(q: Any, k: Any, v: Any, edges: Any, key_edges: Any, window: tuple[int, int]) -> Any:
    """Attend sequence by sequence; rows behind the last one are zeros."""
    rows = []
    for a, b, c, d in zip(edges, edges[1:], key_edges, key_edges[1:], strict=False):
        x, y, z = (t.transpose(0, 1) for t in (q[a:b], k[c:d], v[c:d]))
        y, z = (t.repeat_interleave(x.shape[0] // y.shape[0], 0) for t in (y, z))
        place, j = torch.arange(b - a)[:, None] + (d - c) - (b - a), torch.arange(d - c)
        before, behind = (n if n >= 0 else 1000 for n in window)
        seen = (j >= place - before) & (j <= place + behind)
        scores = (x @ y.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -1e30)
        rows.append((torch.where(seen, scores.softmax(-1), 0.0) @ z).transpose(0, 1))
    return torch.cat([*rows, torch.zeros(len(q) - edges[-1], q.shape[1], v.shape[2])])


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (9, 4)])
def test_sequences_behind_each_other(window: tuple[int, int]) -> None:
    """Arguments are those of torch's varlen_attn; gradients visit the sequence of each key alone."""
    q, k, v = drawn(85, 4, 8), drawn(135, 2, 8), drawn(135, 2, 8)
    edges, key_edges = [0, 20, 20, 80], [0, 10, 30, 130]
    given = (torch.tensor(x, dtype=torch.int32) for x in (edges, key_edges))
    options = {"window_size": window, "enable_gqa": True}
    ours = functools.partial(_varlen, *given, options)
    agree(ours, lambda *x: within_sequences(*x, edges, key_edges, window), q, k, v)
    if window == (-1, 0):
        compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(q, k, v), ours(q, k, v))


def _varlen(edges: Any, key_edges: Any, options: Any, q: Any, k: Any, v: Any) -> Any:
    return ft.varlen_attn(q, k, v, edges, key_edges, 60, 100, **options)


def test_pages_and_lengths() -> None:
    q, k = torch.randn(2, 2, 3, 8), torch.randn(5, 2, 16, 8)
    pages, lengths = torch.tensor([[1, 4], [0, 2]]), torch.tensor([20, 32])
    made = fireiron.attention(q, k, k, pages=pages, lengths=lengths)
    keys = k[pages].permute(0, 2, 1, 3, 4).reshape(2, 2, 32, 8)
    seen = torch.arange(32) < lengths[:, None, None, None]
    assert torch.allclose(made, sdpa(q, keys, keys, attn_mask=seen), atol=1e-5)
    padded = fireiron.attention(q, keys, keys, lengths=lengths)
    assert torch.allclose(padded, made, atol=1e-6)
    with pytest.raises(FireironError, match="attention-pages"):
        fireiron.attention(q, k, k, pages=pages + 1, lengths=lengths)
    with pytest.raises(FireironError, match="requires-grad"):
        fireiron.attention(q.requires_grad_(), k, k, pages=pages, lengths=lengths)


def test_dropout_and_sinks() -> None:
    """Forward and gradients drop the weights that Philox in NumPy drops; sinks learn."""
    q, k, v = drawn(2, 4, 10, 8), drawn(2, 2, 21, 8), drawn(2, 2, 21, 8)
    sinks = torch.tensor([0.5, -1.0, 0.0, 1.0]).requires_grad_()
    b, h, i, j = np.ix_(*map(np.arange, (2, 4, 10, 21)))
    words = fireiron.philox((j // 16 * 4 + j % 8 // 2, i, b * 4 + h, 7), (12345, 2**31))
    kept = np.choose(np.broadcast_to(j // 8 % 2 * 2 + j % 2, (2, 4, 10, 21)), words) >> 8 >= round(0.25 * 2**24)

    def ours(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        return fireiron.attention(q, k, v, sinks=sinks, dropout_p=0.25, seed=(2**63 + 12345, 7), enable_gqa=True)

    def torchs(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        scores = q @ k.repeat_interleave(2, 1).mT / 8**0.5
        beside = sinks[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, beside], -1).softmax(-1)[..., :-1] * torch.tensor(kept) / 0.75
        return weights @ v.repeat_interleave(2, 1)

    agree(ours, torchs, q, k, v, sinks)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v, sinks), ours(q, k, v, sinks))


def test_seeds_are_torchs() -> None:
    q, k, v = drawn(1, 2, 6, 8), drawn(1, 2, 8, 8), drawn(1, 2, 8, 8)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(ft.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q, k, v = (torch.empty(2, n, 128, 64, dtype=torch.bfloat16, device="cuda") for n in (8, 2, 2))
        made, sums = fireiron.attention(q, k, v, enable_gqa=True, lse=True)
    assert (made.shape, made.dtype, made.device.type) == (q.shape, q.dtype, "cuda")
    assert (sums.shape, sums.dtype) == ((2, 8, 128), torch.float32)


def test_without_elements() -> None:
    q = drawn(1, 2, 4, 8)
    none = torch.empty(1, 2, 0, 8)
    made, sums = fireiron.attention(q, none, none, lse=True)
    assert (made == 0).all()
    assert torch.isneginf(sums).all()


def test_operators_keep_to_torchs_rules() -> None:
    q, k, v = (drawn(1, 1, n, 16, dtype="float16") for n in (16, 24, 24))
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(torch.ops.fireiron.attention, (q, k, v, [], "", "", 0.25, False), test_utils=checks)
    text = text_of(None, lambda s, h, j, bias: s + bias[h, j], (("bias", 2, "f32"),))
    given = q, k, v, [drawn(1, 24)], "bias", text, 0.25, False
    torch.library.opcheck(torch.ops.fireiron.attention, given, test_utils=checks)
    made, sums = (x.detach() for x in torch.ops.fireiron.attention(*given))
    back = torch.ones_like(made), None, *(x.detach() for x in (q, k, v)), made, sums, [given[3][0].detach()]
    torch.library.opcheck(torch.ops.fireiron.attention_backward, (*back, *given[4:], "bias"), test_utils=checks[:2])


def test_refusals() -> None:
    q, k, v = drawn(1, 4, 6, 8), drawn(1, 2, 6, 8), drawn(1, 2, 6, 8)
    with pytest.raises(FireironError, match="attention-heads"):
        fireiron.attention(q, k, v)
    with pytest.raises(FireironError, match="attention-dropout"):
        ft.scaled_dot_product_attention(k, k, v, dropout_p=1.0)
    near = drawn(20)
    with pytest.raises(FireironError, match="near has no gradient: its subscripts are not all indices and numbers"):
        fireiron.attention(k, k, v, near=near, score=lambda s, i, j, near: s + near[i - j + 6])
    with pytest.raises(FireironError, match="near has no gradient: a mask reads it"):
        fireiron.attention(k, k, v, near=near, mask=lambda j, near: near[j] > 0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("at", ["bhij", "1hij", "b11j", "h", "ji", ""])
def test_gradients_of_a_bias(at: str, dtype: str) -> None:
    """A bias of any dims learns: what broadcasting repeats is added up, by numbers as by indices."""
    sizes = {"b": 2, "h": 4, "i": 10, "j": 21, "1": 1}
    q, k, v = (drawn(2, h, n, 8, dtype=dtype) for h, n in ((4, 10), (2, 21), (2, 21)))
    bias = torch.randn([sizes[x] for x in at] or [2]).requires_grad_()

    def read(b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
        return bias[tuple({"b": b, "h": h, "i": i, "j": j}.get(x, 0) for x in at) or 1]

    def ours(q: Any, k: Any, v: Any, bias: Any) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
            return s + read(b, h, i, j, bias) * (j - i) * 0.1

        return fireiron.attention(q, k, v, bias=bias, score=score, is_causal=True, enable_gqa=True)

    def torchs(q: Any, k: Any, v: Any, bias: Any) -> Any:
        b, h, i, j = (torch.arange(sizes[x]) for x in "bhij")
        added = read(b[:, None, None, None], h[:, None, None], i[:, None], j, bias)
        scores = q @ k.repeat_interleave(2, 1).mT / 8**0.5 + added * (j - i[:, None]) * 0.1
        return scores.masked_fill(j > i[:, None], -torch.inf).softmax(-1) @ v.repeat_interleave(2, 1)

    wide = [x.detach().double().requires_grad_() for x in (q, k, v, bias)]
    made, want = ours(q, k, v, bias), torchs(*wide)
    dy = torch.randn(want.shape)
    within = 1e-4 if dtype == "float32" else 2e-2
    grads = torch.autograd.grad(made, (q, k, v, bias), dy.to(made.dtype))
    for got, right in zip(grads, torch.autograd.grad(want, wide, dy.double()), strict=True):
        assert torch.allclose(got.double(), right, atol=within, rtol=within)
    if at == "1hij":
        compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
        again = torch.autograd.grad(compiled(q, k, v, bias), (q, k, v, bias), dy.to(made.dtype))
        assert all(map(torch.equal, again, grads))


def test_masks_of_numbers_learn() -> None:
    """A mask that SDPA adds to scores has a gradient, in its own type and at its own broadcast dims."""
    q, k, v = drawn(2, 2, 6, 8), drawn(2, 2, 9, 8), drawn(2, 2, 9, 8)
    for shape in ((6, 9), (2, 1, 1, 9)):
        agree(
            lambda q, k, v, bias: ft.scaled_dot_product_attention(q, k, v, attn_mask=bias),
            lambda q, k, v, bias: sdpa(q, k, v, attn_mask=bias), q, k, v, drawn(*shape),
        )  # fmt: skip


def test_floats_of_eight_bits() -> None:
    """A call with scales is the call of what the numbers are worth; it is traced, and has no gradients."""
    q, k, v = (drawn(1, 2, n, 32).detach().to(torch.float8_e4m3fn) for n in (16, 24, 24))
    scales = tuple(torch.rand(2) + 0.5 for _ in range(3))

    def ours(q: Any, k: Any, v: Any) -> Any:
        return fireiron.attention(q, k, v, scales=scales)

    made = ours(q, k, v)
    wide = (x.float() * s[:, None, None] for x, s in zip((q, k, v), scales, strict=True))
    assert made.dtype == torch.bfloat16
    assert torch.allclose(made.float(), sdpa(*wide), atol=0.1, rtol=0.1)
    assert torch.equal(torch.compile(ours, fullgraph=True, backend="aot_eager")(q, k, v), made)
    columns = torch.zeros(1, 2, 32, 32, dtype=v.dtype)[..., :24]  # of values, which start at multiples of 16 bytes
    columns.copy_(v.mT)
    assert torch.equal(ours(q, k, columns.mT), made)
    with pytest.raises(FireironError, match="floats of 8 bits have no gradient"):
        fireiron.attention(q, k, v, scales=(scales[0].requires_grad_(), *scales[1:]))


@pytest.mark.parametrize("heads", [2, 1])
def test_a_call_of_a_known_kind_runs_its_kernel_at_once(heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls on a GPU; here a kernel that is simulated stands for the compiled one."""
    from fireiron.front import torch_attention as module
    from fireiron.front import torch_repeated
    from fireiron.front.torch_ops import as_numpy, as_torch
    from fireiron.jit.kernel import as_tuple

    right, runs = module.programs.forward, []

    def forward(what: Any, out: Any, host: bool) -> Any:
        kernel = right(what, out, True)

        def run(*tensors: Any, out: tuple[Any, ...]) -> tuple[Any, ...]:
            runs.append(1)
            for mine, array in zip(out, as_tuple(kernel(*map(as_numpy, tensors))), strict=True):
                mine.copy_(as_torch(array))
            return out

        return run

    def called(kernel: Any, host: bool, *tensors: Any, out: tuple[Any, ...]) -> None:
        seen.append((tensors, kernel(*tensors, out=out)))

    seen: list[Any] = []
    for one in (module, torch_repeated):
        monkeypatch.setattr(one, "dispatched", lambda *tensors: False)
    monkeypatch.setattr(module.programs, "forward", forward)
    monkeypatch.setattr(module, "called", called)
    q, k, v = (
        torch.randn(1, h, n, 16).half().transpose(1, 2).contiguous().transpose(1, 2)
        for h, n in ((2, 9), (heads, 12), (heads, 12))
    )
    o, sums = fireiron.attention(q, k, v, lse=True, enable_gqa=heads == 1)
    ((tensors, outs),) = seen
    # The kernel gets the tensors' own memory, so that the launch says all that the call does.
    assert [x.data_ptr() for x in (*tensors, *outs)] == [x.data_ptr() for x in (q, k, v, o, sums)]
    assert runs == [1]


def test_lines_that_start_off_16_bytes_are_copied() -> None:
    from fireiron.front import torch_attention as module

    x = torch.zeros(2 * 4 * 16 + 1).half()[1:].reshape(1, 2, 4, 16)
    taken = module._taken(x)
    assert x.is_contiguous()
    assert taken.data_ptr() % 16 == 0
    assert torch.equal(taken, x)
