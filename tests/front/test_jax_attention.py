"""Attention of JAX arrays, traced by jit, grad and vmap, on the simulator: values and gradients against JAX's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fireiron
from fireiron import FireironError, equal, tanh

jax: Any = pytest.importorskip("jax", reason="JAX is not installed")
jnp: Any = jax.numpy
attention: Any = __import__("fireiron.jax", fromlist=["attention"]).attention
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Simulate, where JAX sees a GPU too: what runs there is tested in tests/gpu/test_jax.py."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def drawn(*shape: int, dtype: str = "float32") -> Any:
    return jnp.asarray(RNG.standard_normal(shape).astype(np.float32)).astype(dtype)


def usual(q: Any, k: Any, v: Any, seen: Any = True) -> Any:
    heads = q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(x, heads, 1) for x in (k, v))
    scores = jnp.where(seen, jnp.einsum("bhid,bhjd->bhij", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5, -jnp.inf)
    return (jax.nn.softmax(scores, -1) @ v.astype(jnp.float32)).astype(q.dtype)


def agree(ours: Callable[..., Any], theirs: Callable[..., Any], *given: Any, within: float = 1e-5) -> None:
    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        def of(*given: Any) -> Any:
            made = function(*given).astype(jnp.float32)
            return (made * jnp.linspace(-1, 1, made.size).reshape(made.shape)).sum()

        return of

    made, wanted = jax.jit(ours)(*given), theirs(*given)
    assert made.dtype == wanted.dtype
    assert np.allclose(made.astype(np.float32), wanted.astype(np.float32), atol=within)
    places = tuple(range(len(given)))
    for got, want in zip(jax.jit(jax.grad(loss(ours), places))(*given), jax.grad(loss(theirs), places)(*given),
                         strict=True):  # fmt: skip
        assert got.dtype == want.dtype
        assert np.allclose(got.astype(np.float32), want.astype(np.float32), atol=within)


def test_values_and_gradients() -> None:
    agree(attention, usual, drawn(1, 2, 10, 8), drawn(1, 2, 12, 8), drawn(1, 2, 12, 4))


def test_heads_share_keys_on_tensor_cores() -> None:
    q, k, v = drawn(1, 4, 24, 32, dtype="float16"), drawn(1, 2, 40, 32, dtype="float16"), drawn(1, 2, 40, 16)
    seen = np.arange(24)[:, None] >= np.arange(40)

    def ours(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, is_causal=True, enable_gqa=True)

    agree(ours, lambda *x: usual(*x, seen), q, k, v.astype("float16"), within=1e-2)


def test_masks_and_scores_read_arrays() -> None:
    q, k, v = (drawn(1, 2, 12, 8) for _ in range(3))
    documents, slope = jnp.array([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]]), jnp.array([0.5, 0.25])
    shown = jnp.asarray(RNG.random(12) < 0.8).at[jnp.array([0, 3, 7])].set(True)
    i, j = np.arange(12)[:, None], np.arange(12)

    def ours(q: Any, k: Any, v: Any) -> Any:
        return attention(
            q, k, v, scale=0.5, documents=documents, slope=slope, shown=shown,
            mask=lambda b, i, j, documents, shown: equal(documents[b, i], documents[b, j]) & (j <= i) & (shown[j] > 0),
            score=lambda s, h, i, j, slope: tanh(s / 2) * 2 - slope[h] * (i - j),
        )  # fmt: skip

    def theirs(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.tanh(jnp.einsum("bhid,bhjd->bhij", q, k) * 0.5 / 2) * 2 - slope[:, None, None] * (i - j)
        seen = (documents[0, :, None] == documents[0]) & (j <= i) & shown
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1) @ v

    agree(ours, theirs, q, k, v)


def test_logarithms_of_sums_have_gradients() -> None:
    q, k, v = drawn(1, 1, 6, 8), drawn(1, 1, 8, 8), drawn(1, 1, 8, 8)

    def theirs(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.logsumexp(jnp.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5, -1)

    agree(lambda *x: attention(*x, lse=True)[1], lambda q, k, v: theirs(q, k, v) + 0 * v.sum(), q, k, v)


def test_lengths_sinks_and_their_gradients() -> None:
    q, k, v, sinks = drawn(2, 2, 10, 8), drawn(2, 2, 12, 8), drawn(2, 2, 12, 4), drawn(2)
    lengths = jnp.array([12, 5])

    def ours(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        return attention(q, k, v, lengths=lengths, sinks=sinks)

    def theirs(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        scores = jnp.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
        scores = jnp.where(jnp.arange(12) < lengths[:, None, None, None], scores, -jnp.inf)
        more = jnp.broadcast_to(sinks[:, None, None], (2, 2, 10, 1))
        return jax.nn.softmax(jnp.concatenate([scores, more], -1), -1)[..., :-1] @ v

    agree(ours, theirs, q, k, v, sinks)


def test_sequences_behind_each_other() -> None:
    q, k, v = drawn(14, 2, 8), drawn(20, 2, 8), drawn(20, 2, 8)
    offsets, key_offsets = np.array([0, 5, 12]), np.array([0, 8, 20])
    i, j = np.arange(14)[:, None], np.arange(20)
    mine, theirs = (np.searchsorted(edges[1:], x, side="right") for edges, x in ((offsets, i), (key_offsets, j)))
    last = (key_offsets[1:] - offsets[1:])[np.minimum(mine, 1)]
    seen = (mine == theirs) & (j <= i + last)

    def ours(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, offsets=offsets, key_offsets=key_offsets, is_causal=True)[:12]

    def plain(q: Any, k: Any, v: Any) -> Any:
        return usual(*(x.swapaxes(0, 1)[None] for x in (q[:12], k, v)), seen[:12])[0].swapaxes(0, 1)

    agree(ours, plain, q, k, v)


def test_dropout_and_pages_are_those_of_numpy() -> None:
    q, pages = drawn(2, 2, 6, 8), jnp.array([[2, 0], [1, 3]])
    k, v, lengths, words = drawn(4, 2, 8, 8), drawn(4, 2, 8, 8), jnp.array([13, 4]), jnp.array([3, 4, 5], jnp.int32)
    options: dict[str, Any] = {"pages": pages, "lengths": lengths, "seed": words, "dropout_p": 0.5}
    plain = {name: x if name == "dropout_p" else np.asarray(x) for name, x in options.items()}
    wanted = fireiron.attention(*map(np.asarray, (q, k, v)), **plain)
    assert np.allclose(jax.jit(lambda q: attention(q, k, v, **options))(q), wanted, atol=1e-5)
    assert np.allclose(attention(q, k, v, **options | {"seed": (4 * 2**32 + 3, 5)}), wanted, atol=1e-5)
    with pytest.raises(FireironError, match="attention-dropout"):
        attention(q, q, q, dropout_p=0.5)
    with pytest.raises(FireironError, match="requires-grad"):
        jax.grad(lambda q: attention(q, k, v, pages=pages, lengths=lengths).sum())(q)
    with pytest.raises(FireironError, match="attention-pages"):
        attention(q, k, v, pages=pages + 1, lengths=lengths)


def test_vmap_and_its_gradient() -> None:
    q, k, v = drawn(2, 1, 1, 4, 8), drawn(2, 1, 1, 5, 8), drawn(2, 1, 1, 5, 8)
    agree(jax.vmap(attention), jax.vmap(usual), q, k, v)


def test_the_code_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "notebooks/torch.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python jax\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {"__name__": "page"}
    exec(compile(source, "schedule.py", "exec"), space)
    assert [space[name].shape for name in ("by_q", "by_k", "by_v")] == [(1, 2, 8, 16)] * 3


def test_no_keys_and_no_queries() -> None:
    made, sums = attention(drawn(1, 1, 3, 8), drawn(1, 1, 0, 8), drawn(1, 1, 0, 4), lse=True)
    assert made.shape == (1, 1, 3, 4)
    assert not made.any()
    assert jnp.isneginf(sums).all()
    back = jax.grad(lambda q: attention(q, drawn(1, 1, 3, 8), drawn(1, 1, 3, 4)).sum())(drawn(1, 1, 0, 8))
    assert back.shape == (1, 1, 0, 8)


def test_a_call_is_a_foreign_function_of_xla() -> None:
    x = drawn(1, 1, 4, 8)
    text = jax.jit(jax.grad(lambda q: attention(q, q, q).sum())).lower(x).as_text()
    assert "@fireiron_attention(" in text
    assert "@fireiron_attention_backward(" in text
    assert "callback" not in text


def test_what_cannot_be_is_refused_while_it_is_traced() -> None:
    x, bias = drawn(1, 2, 4, 8), drawn(4, 4)

    def code(function: Callable[..., Any], *given: Any) -> str:
        with pytest.raises(FireironError) as caught:
            jax.eval_shape(function, *given)
        return caught.value.code

    def biased(bias: Any) -> Any:
        return attention(x, x, x, bias=bias, score=lambda s, i, j, bias: s + bias[i // 2, j]).sum()

    assert code(lambda x: attention(x, x[:, :1], x[:, :1]), x) == "attention-heads"
    assert code(lambda x: attention(x, x, x[..., 0]), x) == "wrong-shape"
    assert code(lambda x: attention(x, x, x, mask=lambda z: z), x) == "attention-function"
    assert code(jax.grad(biased), bias) == "requires-grad"
    assert jax.grad(lambda x: biased(jax.lax.stop_gradient(x)))(bias).shape == (4, 4)


@pytest.mark.parametrize("at", ["bhij", "1hij", "b11j", "h", ""])
def test_gradients_of_a_bias(at: str) -> None:
    """A bias of any dims learns, also where heads share keys, and under jit."""
    sizes = {"b": 2, "h": 4, "i": 6, "j": 9, "1": 1}
    q, k, v, bias = drawn(2, 4, 6, 8), drawn(2, 2, 9, 8), drawn(2, 2, 9, 8), drawn(*[sizes[x] for x in at] or [2])

    def read(b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
        return bias[tuple({"b": b, "h": h, "i": i, "j": j}.get(x, 0) for x in at) or 1]

    def ours(q: Any, bias: Any) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any, bias: Any) -> Any:
            return s + read(b, h, i, j, bias) * (j - i) * 0.1

        return (attention(q, k, v, bias=bias, score=score, enable_gqa=True) ** 2).sum()

    def plain(q: Any, bias: Any) -> Any:
        b, h, i, j = jnp.ix_(*(jnp.arange(sizes[x]) for x in "bhij"))
        scores = jnp.einsum("bhid,bhjd->bhij", q, k.repeat(2, 1)) * 8**-0.5 + read(b, h, i, j, bias) * (j - i) * 0.1
        return ((jax.nn.softmax(scores) @ v.repeat(2, 1)) ** 2).sum()

    found, wanted = jax.jit(jax.grad(ours, (0, 1)))(q, bias), jax.grad(plain, (0, 1))(q, bias)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_floats_of_eight_bits() -> None:
    q, k, v = (drawn(1, 2, n, 32) for n in (16, 24, 24))
    small, scales = [x.astype(jnp.float8_e4m3fn) for x in (q, k, v)], (jnp.array([0.5, 2.0], jnp.float32),) * 3
    made = jax.jit(lambda *x: attention(*x, scales=scales))(*small)
    wide = (x.astype(jnp.float32) * scales[0][:, None, None] for x in small)
    assert made.dtype == jnp.bfloat16
    np.testing.assert_allclose(made.astype(jnp.float32), attention(*wide), rtol=0.1, atol=0.1)
