"""Attention of more columns of values than a latent cache has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.attention import attention

q, cache = tensor(1, 2, 16, 96, dtype="f16"), tensor(1, 2, 64, 96, dtype="f16")


def wrong() -> Any:
    return attention(q, cache, width=128)


def test_attention_values(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-values",
        "attention(q, cache, width=128)",
        """\
FireironError[attention-values]: attention of keys of 96 columns and 128 columns of keys as values
  --> test_attention_values.py:15:12
15 |     return attention(q, cache, width=128)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give v alone, or width=, how many of the columns of k are the values, and no v""",
    )
