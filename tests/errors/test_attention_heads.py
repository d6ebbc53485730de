"""Attention with fewer heads of keys than of queries, without enable_gqa=True."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q, k = np.ones((1, 8, 16, 16), np.float16), np.ones((1, 2, 16, 16), np.float16)


def wrong() -> Any:
    return attention(q, k, k)


def test_attention_heads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-heads",
        "attention(q, k, k)",
        """\
CallError[attention-heads]: 8 heads of queries and 2 of keys
  --> test_attention_heads.py:16:12
16 |     return attention(q, k, k)
   |            ^^^^^^^^^^^^^^^^^^
fix: give as many, or enable_gqa=True where keys' heads divide queries'""",
    )
