"""Attention with another number of sinks than heads of queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q = np.ones((1, 2, 16, 16), np.float16)


def wrong() -> Any:
    return attention(q, q, q, sinks=np.zeros(3, np.float32))


def test_attention_sinks(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-sinks",
        "attention(q, q, q, sinks=np.zeros(3, np.float32))",
        """\
CallError[attention-sinks]: sinks [3] of float32, and 2 heads of queries
  --> test_attention_sinks.py:16:12
16 |     return attention(q, q, q, sinks=np.zeros(3, np.float32))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a score of each head of queries, in float32""",
    )
