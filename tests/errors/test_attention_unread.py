"""Attention with an array that neither mask nor score function reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

x, slope = np.ones((1, 2, 16, 16), np.float16), np.ones(2, np.float32)


def wrong() -> Any:
    return attention(x, x, x, score=lambda s, i, j: s - (i - j), slope=slope)


def test_attention_unread(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-function",
        "attention(x, x, x, score=lambda s, i, j: s - (i - j), slope=slope)",
        """\
CallError[attention-function]: no mask= and no score= reads slope
  --> test_attention_unread.py:16:12
16 |     return attention(x, x, x, score=lambda s, i, j: s - (i - j), slope=slope)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: drop slope=..., or read it by subscripts: slope[b, j]""",
    )
