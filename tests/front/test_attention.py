"""Attention of arrays of NumPy, simulated: orders in memory, masks, score functions, heads that share keys."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fireiron
from fireiron import FireironError, equal, where
from fireiron.base.errors import CheckError
from fireiron.front import attention as front
from fireiron.front import attention_bounds, host, verbs
from fireiron.front.score_text import functions_of, text_of
from fireiron.jit import nvrtc12


def arrays(heads: int = 2, dtype: str = "float16") -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(heads)
    shapes = (1, heads, 20, 16), (1, 2, 30, 16), (1, 2, 30, 8)
    q, k, v = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    return q, k, v


def wanted(q: Any, k: Any, v: Any, seen: Any = True, scale: float = 0.25) -> Any:
    k, v = (np.repeat(x.astype(np.float64), q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = np.where(seen, np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k) * scale, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bhje->bhie", p / p.sum(-1, keepdims=True), v)


def places() -> tuple[Any, Any]:
    return np.arange(20)[:, None], np.arange(30)


def test_heads_that_share_keys_in_any_order() -> None:
    q, k, v = arrays(6)
    turned = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v))
    made, lse = fireiron.attention(*turned, enable_gqa=True, lse=True)
    assert (made.dtype, lse.dtype, lse.shape) == (np.float16, np.float32, (1, 6, 20))
    np.testing.assert_allclose(made, wanted(q, k, v), atol=3e-3)


def test_masks_and_arrays() -> None:
    q, k, v = arrays()
    i, j = places()
    documents = np.repeat(np.arange(3, dtype=np.int32), 10)[None]
    made = fireiron.attention(
        q, k, v, is_causal=True, documents=documents,
        mask=lambda b, i, j, documents: equal(documents[b, i], documents[b, j]) | (i - j < 4),
    )  # fmt: skip
    seen = ((documents[0, :20, None] == documents[0]) | (i - j < 4)) & (j <= i)
    np.testing.assert_allclose(made, wanted(q, k, v, seen), atol=3e-3)


@pytest.mark.parametrize(("what", "causal"), [("documents", False), ("documents", True), ("blocks", False)])
def test_loops_are_bounded_by_masks_that_read_arrays(what: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are not numbers stand behind and ahead of all visible keys: a visited one would spoil the sums."""
    monkeypatch.setattr(attention_bounds, "LEAST_KEYS", 64)
    chance = np.random.default_rng(5)
    q, k, v = (chance.normal(size=(1, 2, n, 16)).astype(np.float16) for n in (200, 330, 330))
    i, j = np.arange(200)[:, None], np.arange(330)
    if what == "documents":
        mine, theirs = (np.arange(n, dtype=np.int32)[None] // 70 for n in (200, 330))
        mask: Any = lambda b, i, j, mine, theirs: equal(mine[b, i], theirs[b, j])  # noqa: E731
        given, seen, hidden = {"mine": mine, "theirs": theirs}, i // 70 == j // 70, j >= 256
    else:
        blocks = np.eye(4, 6, 1, dtype=np.int32)
        mask = lambda i, j, blocks: blocks[i // 64, j // 64] > 0  # noqa: E731
        given, seen, hidden = {"blocks": blocks}, blocks[i // 64, j // 64] > 0, (j < 64) | (j >= 320)
    right = wanted(q, k, v, seen & (j <= i) if causal else seen)
    v[:, :, hidden] = np.nan
    made = fireiron.attention(q, k, v, mask=mask, is_causal=causal, **given)
    np.testing.assert_allclose(made, right, atol=3e-3)
    monkeypatch.setattr(attention_bounds, "LEAST_KEYS", 1024)
    assert np.isnan(fireiron.attention(q, k, v, mask=mask, **given)).any()


def test_whole_chunks_are_computed_without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where bounds say that queries see all keys of a chunk, documents are not compared: wrong bounds show it.

    A block has two warpgroups, each with bounds of its own. Heads of 192 columns are not speculated on; with
    speculation, chunks that are computed a second time are compared in any case.
    """
    monkeypatch.setattr("fireiron.front.host.SIMULATED", "sm_90a")
    monkeypatch.setattr(attention_bounds, "LEAST_KEYS", 64)
    front.forward.cache_clear()
    chance = np.random.default_rng(6)
    q, k, v = (chance.normal(size=(1, 1, 256, 192)).astype(np.float16) for _ in range(3))
    documents = np.repeat(np.arange(2, dtype=np.int32), (200, 56))[None]
    mask: Any = lambda b, i, j, documents: equal(documents[b, i], documents[b, j])  # noqa: E731
    i, j = np.arange(256)[:, None], np.arange(256)
    made = fireiron.attention(q, k, v, mask=mask, documents=documents)
    np.testing.assert_allclose(made, wanted(q, k, v, (i < 200) == (j < 200), 192**-0.5), atol=3e-3)
    right = attention_bounds.found

    def made_with(last: int, whole: int) -> Any:
        def found(*given: Any) -> Any:
            first = right(*given)[0]
            return first, np.full_like(first, last), np.zeros_like(first), np.full_like(first, whole)

        monkeypatch.setattr(attention_bounds, "found", found)
        return fireiron.attention(q, k, v, mask=mask, documents=documents)

    everything, unbounded = made_with(last=256, whole=256), made_with(last=230, whole=0)
    front.forward.cache_clear()
    np.testing.assert_allclose(everything, wanted(q, k, v, True, 192**-0.5), atol=3e-3)
    np.testing.assert_array_equal(unbounded, made)  # a bound inside a chunk hides none of its keys


WIDTH = 4


def test_functions_are_traced_once_while_they_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask is traced again when a number that it reads has changed."""
    given = {"mask": lambda i, j: i - j < WIDTH, "score": None, "arrays": ()}
    first = text_of(**given)
    monkeypatch.setattr("fireiron.front.score_text._written", None)
    assert text_of(**given) == first
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "WIDTH", 5)
    assert text_of(**given) == first.replace("4", "5")


@pytest.mark.parametrize("code", ["registers", "spills", "shared-memory"])
def test_other_plans_where_registers_or_memory_run_out(code: str) -> None:
    """Another preset is tried only where no plan suffices, or a plan is refused for another reason."""
    tried: list[tuple[str, dict[str, int]]] = []

    class Presets:
        @staticmethod
        def wgmma(spec: Any, **plan: int) -> Any:
            tried.append(("wgmma", plan))
            raise CheckError(code if plan.get("chunk", 64) > 48 else "atom-arch", "no")

        @staticmethod
        def mma(spec: Any, **plan: int) -> Any:
            tried.append(("mma", plan))
            raise CheckError(code, "no")

    spec = fireiron.program(x="n")(lambda x: x)(fireiron.tensor(4))
    with pytest.raises(CheckError, match="nothing-legal"):
        front._kernel(Presets, spec, True, ("wgmma", "mma"), {"mma": {"warps": 1}}, front.OTHER_ROWS)  # pyright: ignore[reportPrivateUsage]
    of_mma = [("mma", {"warps": 1}), *(("mma", plan) for plan in front.OTHER_ROWS["mma"])]
    assert tried == [("wgmma", {}), ("wgmma", {"chunk": 48}), *of_mma]


@pytest.mark.parametrize("columns", [(176, 256), (208, 240), (240, 256)])
def test_gradients_of_wide_heads_off_whole_swizzled_lines(columns: tuple[int, int]) -> None:
    """Tensor cores compute them, with one number of rows at a time or another."""
    depth, width = columns

    def array(n: int, size: int) -> front.Array:
        return front.Array((1, 2, n, size), (2 * n * size, n * size, size, 1), "bf16")

    q, k, v, dy = array(300, depth), array(333, depth), array(333, width), array(300, width)
    made = front.gradients(front.Attention(q, k, v, "", (), 0.1, True), dy, (q, k, v), False)
    assert all("mma" in each.kernel.source for each in made)


HIDDEN: dict[str, dict[str, Any]] = {
    "keys behind the last": {"mask": lambda j: j >= 30},
    "the only query": {"mask": lambda i, j: (i > 0) & (j > 3)},
    "what is not causal": {"mask": lambda i, j: j > i, "is_causal": True},
    "scores": {"score": lambda s, j: where(j < 30, -np.inf, s)},
}


@pytest.mark.product
@pytest.mark.parametrize("options", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90a"])
def test_a_mask_that_is_known_to_hide_all_keys(
    options: dict[str, Any], arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fireiron.front.host.SIMULATED", arch)
    q, k, v = arrays()
    made, lse = fireiron.attention(q[:, :, :1], k, v, enable_gqa=True, lse=True, **options)
    assert not made.any()
    assert np.isneginf(lse).all()


def test_scores_that_are_one_number() -> None:
    q, k, v = arrays()
    made, lse = fireiron.attention(
        q[:, :, :1], k, v, enable_gqa=True, lse=True, score=lambda s, i: where(i > 0, s, 2.0)
    )
    np.testing.assert_allclose(made, np.repeat(v.mean(2, keepdims=True), q.shape[1] // v.shape[1], 1), atol=3e-3)
    np.testing.assert_allclose(lse, 2 + np.log(30), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_masks_of_booleans(dtype: str) -> None:
    """Queries behind the last one have no row of the mask."""
    q, k, v = arrays(dtype=dtype)
    seen = np.random.default_rng(3).random((20, 30)) < 0.5
    made = fireiron.attention(q, k, v, mask=lambda i, j, seen: seen[i, j] > 0, seen=seen)
    np.testing.assert_allclose(made, wanted(q, k, v, seen), atol=3e-3)


def test_the_same_functions_give_the_same_text() -> None:
    def text(width: int) -> str:
        return text_of(lambda i, j: (i - j < width) & (j // 16 <= i % 7), None, ())

    assert text(8) == text(8) != text(9)
    assert functions_of(text(8)) is functions_of(text(8))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda i, k: i < k, "has the parameter k, and may read b, h, i, j, bias"),
        (lambda i: i.real, "an expression has no .real"),
        (lambda i: 3, "returned 3"),
        (lambda i, j, bias: bias[i] > 0, "a dimension of an array has no subscript"),
        (lambda i, j: {}[i], "fails"),
    ],
)
def test_functions_that_cannot_be_used(function: Any, message: str) -> None:
    q, k, v = arrays()
    with pytest.raises(FireironError) as caught:
        fireiron.attention(q, k, v, mask=function, bias=np.ones((20, 30), np.float16))
    assert message in str(caught.value)


def test_shapes_that_do_not_agree() -> None:
    q, k, v = arrays()
    with pytest.raises(FireironError, match="wrong-shape"):
        fireiron.attention(q, k[:, :, :, :8], v)


def test_lengths_of_padded_keys() -> None:
    q, k, v = (np.concatenate([x, x[:, ::-1]]) for x in arrays())
    lengths = np.array([7, 30])
    made = fireiron.attention(q, k, v, lengths=lengths, mask=lambda b, j, lengths: j < lengths[b] + b)
    np.testing.assert_allclose(made, wanted(q, k, v, np.arange(30) < lengths[:, None, None, None]), atol=3e-3)


@pytest.mark.parametrize("queries", [1, 20])
def test_pages(queries: int) -> None:
    """Few queries against long caches share the keys among blocks."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, 4, queries, 16)).astype(np.float16)
    k, v = (rng.normal(size=(5, 2, 512, 16)).astype(np.float16) for _ in range(2))
    pages, lengths = np.array([[4, 1], [2, 3]]), np.array([600, 19], np.int32)
    made = fireiron.attention(q, k, v, pages=pages, lengths=lengths, enable_gqa=True)
    for b in range(2):
        keys, values = (x[pages[b]].swapaxes(0, 1).reshape(1, 2, 1024, 16)[:, :, : lengths[b]] for x in (k, v))
        np.testing.assert_allclose(made[b], wanted(q[b : b + 1], keys, values)[0], atol=3e-3)


@pytest.mark.parametrize(("queries", "keys", "shared"), [(16, 1024, True), (17, 1024, False), (1, 1023, False)])
def test_few_queries_share_long_caches(monkeypatch: pytest.MonkeyPatch, queries: int, keys: int, shared: bool) -> None:
    tried: list[tuple[str, ...]] = []
    monkeypatch.setattr(front, "_kernel", lambda presets, spec, host, names, plans, smaller: tried.append(names))
    q, k = (front.Array((1, 2, n, 64), (n * 128, n * 64, 64, 1), "f16") for n in (queries, keys))
    front.forward.__wrapped__(front.Attention(q, k, k, "", (), 0.125, False), q, False)
    assert tried == [("decode",) * shared + ("wgmma", "mma", "simt")]


def by_sequences(q: Any, k: Any, v: Any, offsets: Any, key_offsets: Any, causal: bool) -> Any:
    found = np.zeros((*q.shape[:-1], v.shape[-1]))
    for (a, b), (c, d) in zip(pairwise(offsets), pairwise(key_offsets), strict=True):
        seen = np.arange(d - c) <= np.arange(b - a)[:, None] + ((d - c) - (b - a)) if causal else True
        mine = (x[None, s].swapaxes(1, 2) for x, s in ((q, slice(a, b)), (k, slice(c, d)), (v, slice(c, d))))
        found[a:b] = wanted(*mine, seen)[0].swapaxes(0, 1)
    return found


@pytest.mark.parametrize("causal", [False, True])
def test_sequences_behind_each_other(causal: bool) -> None:
    """The second sequence has no query, and the rows behind the last one belong to none."""
    rng = np.random.default_rng(1)
    q = rng.normal(size=(90, 4, 16)).astype(np.float16)
    k, v = (rng.normal(size=(140, 2, 16)).astype(np.float16) for _ in range(2))
    offsets, key_offsets = np.array([0, 30, 30, 85], np.int32), np.array([0, 40, 60, 130], np.int32)
    made, lse = fireiron.attention(
        q, k, v, offsets=offsets, key_offsets=key_offsets, is_causal=causal, enable_gqa=True, lse=True
    )
    np.testing.assert_allclose(made, by_sequences(q, k, v, offsets, key_offsets, causal), atol=3e-3)
    assert lse.shape == (90, 4)
    assert np.isneginf(lse[85:]).all()
    assert np.isfinite(lse[:85]).all()


@pytest.mark.parametrize("causal", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_sequences_whose_keys_lie_in_pages(causal: bool) -> None:
    """The second sequence has no query, the third one key less than its pages hold, and a row belongs to none."""
    rng = np.random.default_rng(2)
    q = rng.normal(size=(46, 4, 16)).astype(np.float16)
    k, v = (rng.normal(size=(7, 2, 16, 16)).astype(np.float16) for _ in range(2))
    offsets, lengths = np.array([0, 20, 20, 45], np.int32), np.array([25, 7, 31], np.int64)
    pages = np.array([[4, 1], [6, 0], [5, 2]], np.int32)
    made, lse = fireiron.attention(
        q, k, v, offsets=offsets, pages=pages, lengths=lengths, is_causal=causal, enable_gqa=True, lse=True
    )
    keys, values = (
        np.concatenate([x[pages[n]].swapaxes(1, 2).reshape(32, 2, 16)[: lengths[n]] for n in range(3)]) for x in (k, v)
    )
    edges = np.cumsum([0, *lengths])
    np.testing.assert_allclose(made, by_sequences(q, keys, values, offsets, edges, causal), atol=3e-3)
    assert np.isneginf(lse[45:]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pages": [[0]], "lengths": [3], "offsets": [0, 20], "key_offsets": [0, 30]},
            "key_offsets together with pages",
        ),
        ({"pages": [[0]], "lengths": [3, 4], "offsets": [0, 20]}, r"lengths \[2\] of 1 batches"),
        ({"key_offsets": [0, 30]}, "key_offsets without offsets"),
        ({"pages": [[0]]}, "pages without lengths"),
        ({"lengths": [3, 4]}, r"lengths \[2\] of 1 batches"),
        ({"lengths": [3], "offsets": [0, 20]}, "offsets together with lengths"),
    ],
)
def test_lengths_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    q, k, v = arrays()
    q = q[0].swapaxes(0, 1) if "offsets" in options else q
    k, v = (x[0].swapaxes(0, 1) if "offsets" in options and "pages" not in options else x for x in (k, v))
    with pytest.raises(FireironError, match=f"attention-lengths.*{message}"):
        fireiron.attention(q, k, v, **{name: np.array(x, np.int32) for name, x in options.items()})


def test_dropout_and_sinks() -> None:
    """Equal seeds drop the same weights; what is dropped is a part of all, and the mean stays."""
    q, k, v = arrays(4)
    options = {"dropout_p": 0.5, "enable_gqa": True, "sinks": np.zeros(4, np.float32)}
    made = fireiron.attention(q, k, v, seed=(2**40 + 3, 5), **options)
    words = np.array([3, 2**8, 5], np.int32)
    np.testing.assert_array_equal(made, fireiron.attention(q, k, v, seed=words, **options))
    assert (made != fireiron.attention(q, k, v, seed=(2**40 + 3, 6), **options)).any()
    ones = np.ones_like(v)
    drawn = fireiron.attention(q * 0, k, ones, dropout_p=0.5, enable_gqa=True)  # weights of 1 / 30
    share = (drawn[..., 0] * 15).mean() / 30
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(drawn.shape[1] * 20 * 30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout_p": 1.0}, r"attention-dropout\].*dropout_p=1.0"),
        ({"dropout_p": 0.5, "seed": -1}, r"attention-dropout\].*seed=-1"),
        ({"dropout_p": 0.5, "seed": np.zeros(2, np.int32)}, r"attention-dropout\].*seed \[2\] of int32"),
        ({"sinks": np.zeros(3, np.float32)}, r"attention-sinks\].*sinks \[3\] of float32, and 2 heads"),
    ],
)
def test_dropout_and_sinks_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FireironError, match=message):
        fireiron.attention(*arrays(), **options)


def test_floats_of_eight_bits() -> None:
    """Heads have scales; results are bfloat16, and off by what the rounding of weights gives."""
    rng, kind = np.random.default_rng(0), ml_dtypes.float8_e4m3fn
    q, k, v = ((rng.normal(size=(1, h, n, 32)) * 2).astype(kind) for h, n in ((4, 20), (2, 40), (2, 40)))
    scales = tuple(rng.random(h).astype(np.float32) + 0.3 for h in (4, 2, 2))
    made = fireiron.attention(q, k, v, scales=scales, is_causal=True, enable_gqa=True)
    wide = (x.astype(float) * s[:, None, None] for x, s in zip((q, k, v), scales, strict=True))
    wide_q, wide_k, wide_v = (x.repeat(4 // x.shape[1], 1) for x in wide)
    scores = wide_q @ wide_k.swapaxes(2, 3) * 32**-0.5
    weights = np.where(np.arange(40) <= np.arange(20)[:, None], np.exp(scores), 0)
    weights /= weights.sum(-1, keepdims=True)
    want = weights @ wide_v
    assert made.dtype == ml_dtypes.bfloat16
    bound = (weights * 2.0**-4 + weights.max(-1, keepdims=True) * 2.0**-18) @ abs(wide_v) + abs(want) * 2.0**-8
    assert (abs(made.astype(float) - want) <= bound * 1.001).all()
    lines = np.zeros((1, 2, 32, 48), kind)  # of columns, which start at multiples of 16 bytes
    lines[..., :40] = v.swapaxes(2, 3)
    turned = lines[..., :40].swapaxes(2, 3)
    assert (fireiron.attention(q, k, turned, scales=scales, is_causal=True, enable_gqa=True) == made).all()


@pytest.mark.skipif(nvrtc12.find() is None, reason=f"NVRTC 12 is not installed: {nvrtc12.INSTALL}")
@pytest.mark.parametrize(("dtype", "named"), [("f16", "mma_m8n8k4"), ("f32", "fmaf")])
def test_calls_on_volta_take_quad_pairs(monkeypatch: pytest.MonkeyPatch, dtype: str, named: str) -> None:
    monkeypatch.setattr(verbs, "_gpu", lambda: 70)
    q = front.Array((1, 2, 40, 64), (5120, 2560, 64, 1), dtype)
    kernel = front.forward(front.Attention(q, q, q, "", (), 0.375, True), q, False)
    assert named in kernel.source


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90a"])
@pytest.mark.parametrize("low", [-1e9, -1e30, -np.inf])
def test_scores_far_below_zero_hide_keys(arch: str, low: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score of -1e9 and its rounded maximum differed by 64: weights of 2^64 were infinite in f16, and results NaN."""
    monkeypatch.setattr(host, "SIMULATED", arch)
    chance = np.random.default_rng(3)
    q, k, v = (chance.normal(size=(1, 1, n, 16)).astype(np.float16) for n in (20, 200, 200))
    found = fireiron.attention(q, k, v, score=lambda s, j: where(j >= 100, s, low))
    products = (q.astype(np.float64) @ k[:, :, 100:].astype(np.float64).swapaxes(-1, -2)) / 4
    weights = np.exp(products - products.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v[:, :, 100:].astype(np.float64)
    assert np.abs(found - wanted).max() < 2e-3
    alike = fireiron.attention(q, k, v, score=lambda s: s + low)  # all keys weigh the same, or none any
    assert np.abs(alike - (0 if low == -np.inf else v.mean(2, dtype=np.float64)[:, :, None])).max() < 2e-3


def test_pages_on_hopper_of_128_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a loop's trips is read from an array, which the simulator knows by the name of the fetch."""
    monkeypatch.setattr(host, "SIMULATED", "sm_90a")
    chance = np.random.default_rng(4)
    q, k, v = (chance.normal(size=s).astype(ml_dtypes.bfloat16) for s in ((1, 1, 1, 128), *((5, 1, 16, 128),) * 2))
    pages = np.array([[4, 1, 2, 3]], np.int32)
    found = fireiron.attention(q, k, v, pages=pages, lengths=np.array([60], np.int32))
    keys, values = (x.astype(np.float64)[pages[0], 0].reshape(64, 128)[:60] for x in (k, v))
    weights = np.exp(q[0, 0].astype(np.float64) @ keys.T / np.sqrt(128))
    assert np.abs(found[0, 0] - weights @ values / weights.sum()).max() < 1e-2


@pytest.mark.parametrize("width", [12, 16])
def test_values_of_lines_that_no_vector_fills(width: int) -> None:
    chance = np.random.default_rng(5)
    q, k, v = (chance.normal(size=(1, 1, n, w)).astype(np.float16) for n, w in ((20, 16), (width, 16), (width, width)))
    weights = np.exp(q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / 4)
    wanted = weights @ v.astype(np.float64) / weights.sum(-1, keepdims=True)
    assert np.abs(fireiron.attention(q, k, v) - wanted).max() < 2e-3


def test_lines_of_sums_are_padded_to_16_bytes() -> None:
    assert [front.padded(n) for n in (1, 4, 197, 576, 577)] == [4, 4, 200, 576, 580]
