"""Attention with the number of a page that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q, k = np.ones((1, 2, 1, 16), np.float16), np.ones((4, 2, 16, 16), np.float16)
lengths = np.array([20], np.int32)


def wrong() -> Any:
    return attention(q, k, k, pages=np.array([[1, 4]], np.int32), lengths=lengths)


def test_attention_pages_range(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-pages",
        "attention(q, k, k, pages=np.array([[1, 4]], np.int32), lengths=lengths)",
        """\
CallError[attention-pages]: pages[0, 1] is 4, and pages have the numbers 0 to 3
  --> test_attention_pages_range.py:17:12
17 |     return attention(q, k, k, pages=np.array([[1, 4]], np.int32), lengths=lengths)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a valid page number in every entry: 0 in entries behind a sequence's length""",
    )
