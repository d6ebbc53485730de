"""Attention with dropout_p=1.0, which would drop all weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import attention

q = np.ones((1, 2, 16, 16), np.float16)


def wrong() -> Any:
    return attention(q, q, q, dropout_p=1.0)


def test_attention_dropout(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-dropout",
        "attention(q, q, q, dropout_p=1.0)",
        """\
CallError[attention-dropout]: dropout_p=1.0 is no fraction of weights to drop
  --> test_attention_dropout.py:16:12
16 |     return attention(q, q, q, dropout_p=1.0)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a number of at least 0 and below 1""",
    )
