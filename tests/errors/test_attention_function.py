"""A mask with a parameter of an unknown name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.attention import attention


def wrong() -> Any:
    q, k, v = (tensor(1, 2, 64, 64, dtype="f16") for _ in range(3))
    return attention(q, k, v, mask=lambda i, j, window: i - j < window)


def test_attention_function(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-function",
        "attention(q, k, v, mask=lambda i, j, window: i - j < window)",
        """\
FireironError[attention-function]: mask= has the parameter window, and may read b, h, i, j
  --> test_attention_function.py:14:12
14 |     return attention(q, k, v, mask=lambda i, j, window: i - j < window)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass window=array too, or rename the parameter""",
    )
