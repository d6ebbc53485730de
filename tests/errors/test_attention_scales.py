"""Attention with fewer scales than heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q, one = np.ones((1, 2, 16, 16), np.float16), np.ones(1, np.float32)


def wrong() -> Any:
    return attention(q, q, q, scales=(one, one, one))


def test_attention_scales(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-scales",
        "attention(q, q, q, scales=(one, one, one))",
        """\
CallError[attention-scales]: scales [1] of float32, [1] of float32, [1] of float32, and 2 heads of queries and 2 of keys
  --> test_attention_scales.py:16:12
16 |     return attention(q, q, q, scales=(one, one, one))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give three arrays of float32: a number for each head of queries, of keys and of values""",
    )
