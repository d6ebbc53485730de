"""Attention with pages but without lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q, k = np.ones((1, 2, 1, 16), np.float16), np.ones((4, 2, 16, 16), np.float16)


def wrong() -> Any:
    return attention(q, k, k, pages=np.array([[1, 3]], np.int32))


def test_attention_lengths(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-lengths",
        "attention(q, k, k, pages=np.array([[1, 3]], np.int32))",
        """\
CallError[attention-lengths]: attention takes no pages without lengths
  --> test_attention_lengths.py:16:12
16 |     return attention(q, k, k, pages=np.array([[1, 3]], np.int32))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give offsets of N + 1 numbers, and as many key_offsets; or one length for each batch, and with pages one row of pages for each batch. With offsets, sequences take the place of batches""",  # noqa: E501
    )
