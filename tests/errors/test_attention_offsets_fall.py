"""Attention with a sequence that ends before it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q = np.ones((64, 2, 16), np.float16)


def wrong() -> Any:
    return attention(q, q, q, offsets=np.array([0, 40, 30, 64], np.int32))


def test_attention_offsets_fall(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-offsets",
        "attention(q, q, q, offsets=np.array([0, 40, 30, 64], np.int32))",
        """\
CallError[attention-offsets]: offsets[2] is 30: sequence 1 begins at row 40
  --> test_attention_offsets_fall.py:16:12
16 |     return attention(q, q, q, offsets=np.array([0, 40, 30, 64], np.int32))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give where each sequence begins, and the end of the last: np.cumsum([0, *lengths], dtype=np.int32)""",
    )
