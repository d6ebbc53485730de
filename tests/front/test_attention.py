"""Attention of arrays of NumPy, simulated: orders in memory, masks, score functions, heads that share keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron
from fireiron import FireironError, equal
from fireiron.front.score_text import functions_of, text_of


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
        (lambda i, k: i < k, "names k, and it may read b, h, i, j, bias"),
        (lambda i: i.real, "an expression has no .real"),
        (lambda i: 3, "gives 3"),
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
