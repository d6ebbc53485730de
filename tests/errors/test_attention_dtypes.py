"""Queries and keys of two element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q, k = np.ones((1, 2, 16, 16), np.float16), np.ones((1, 2, 16, 16), np.float32)


def wrong() -> Any:
    return attention(q, k, k)


def test_attention_dtypes(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-dtypes",
        "attention(q, k, k)",
        """\
CallError[attention-dtypes]: attention of q of float16, k of float32, v of float32
  --> test_attention_dtypes.py:16:12
16 |     return attention(q, k, k)
   |            ^^^^^^^^^^^^^^^^^^
fix: convert them to one element type""",
    )
