"""Conditions by arrays: loops end where an element of a tile says, and chunks that it leaves whole have no masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import attention

BATCH, KEYS, CHUNK = 5, 150, 32
LENGTHS = (150, 70, 0, -3, 2**31 - 1)
PLANS = {
    "mma": {"warps": 1, "keys": CHUNK},
    "decode": {"ways": 2, "warps": 2, "keys": CHUNK},
    "wgmma": {"groups": 1, "keys": CHUNK},
}


def arrays(queries: int = 16) -> Any:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(BATCH, 1, n, 64)).astype(np.float16) for n in (queries, KEYS, KEYS)]


def weighed(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64)) / 8
    parts = np.where(seen, np.exp(scores), 0)
    total = parts.sum(-1, keepdims=True)
    return np.einsum("bhij,bhje->bhie", parts / np.where(total == 0, 1, total), v.astype(np.float64))


def padded(preset: str, dtype: str = "i32", **options: Any) -> Any:
    q, k, v = (fi.tensor(BATCH, 1, n, 64, dtype="f16") for n in (16, KEYS, KEYS))
    lengths = fi.tensor(BATCH, dtype=dtype, name="lengths")
    options.setdefault("mask", lambda b, j, lengths: j < lengths[b])
    return getattr(attention, preset)(attention.attention(q, k, v, lengths=lengths, **options), **PLANS[preset])


@pytest.mark.parametrize("preset", PLANS)
def test_lengths_of_padded_keys(preset: str) -> None:
    """Chunks behind a length are not read: they hold NaN. Warps of a block take as many trips as the first one."""
    q, k, v = arrays()
    seen = np.arange(KEYS) < np.array(LENGTHS)[:, None, None, None]
    expected = weighed(q, k, v, seen)
    for b, length in enumerate(LENGTHS):
        together = 4 * CHUNK if preset == "decode" else CHUNK
        unread = -(-max(length, 0) // together) * together
        k[b, :, unread:] = v[b, :, unread:] = np.nan
    made = padded(preset).simulate(q, k, v, np.array(LENGTHS, np.int32)).arrays["y"]
    np.testing.assert_allclose(made, expected, rtol=0, atol=2e-3)


def test_integers_of_8_bits() -> None:
    q, k, v = arrays()
    lengths = np.array([150, 70, 0, 1, 255], np.uint8)
    made = padded("mma", "u8").simulate(q, k, v, lengths).arrays["y"]
    np.testing.assert_allclose(made, weighed(q, k, v, np.arange(KEYS) < lengths[:, None, None, None]), atol=2e-3)


def test_first_keys_too() -> None:
    q, k, v = arrays()
    firsts = np.array([0, 40, 149, 150, -7], np.int32)
    schedule = padded("decode", mask=lambda b, j, lengths: (j >= lengths[b]) & (j < lengths[b] + 60))
    j, first = np.arange(KEYS), firsts[:, None, None, None]
    expected = weighed(q, k, v, (j >= first) & (j < first + 60))
    made = schedule.simulate(q, k, v, firsts).arrays["y"]
    np.testing.assert_allclose(made, expected, atol=2e-3)


def test_whole_chunks_have_no_masks() -> None:
    text = padded("mma").cuda("sm_80")
    assert "const int lengths_at = max(-1073741824, min(lengths[block], 1073741823));" in text
    assert "const int whole = min(" in text


def test_extremes_of_a_tile() -> None:
    """An element for each eight queries: a tile's loop begins at the smallest, and ends at the largest."""
    queries, keys = 64, KEYS
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, 1, n, 64)).astype(np.float16) for n in (queries, keys, keys))
    firsts, lasts = (np.arange(8, dtype=np.int32) * 12 + n for n in (0, 40))
    given = (fi.tensor(1, 1, n, 64, dtype="f16") for n in (queries, keys, keys))
    program = attention.attention(
        *given, firsts=fi.tensor(8, dtype="i32", name="firsts"), lasts=fi.tensor(8, dtype="i32", name="lasts"),
        mask=lambda i, j, firsts, lasts: (j >= firsts[i // 8]) & (j < lasts[i // 8]),
    )  # fmt: skip
    schedule = attention.mma(program, warps=2, keys=16)
    i, j = np.arange(queries)[:, None] // 8, np.arange(keys)
    expected = weighed(q, k, v, (j >= firsts[i]) & (j < lasts[i]))
    k[:, :, 144:] = v[:, :, 144:] = np.nan
    made = schedule.simulate(q, k, v, firsts, lasts).arrays["y"]
    np.testing.assert_allclose(made, expected, atol=2e-3)
