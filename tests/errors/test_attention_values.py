"""Latent attention with more columns of values than the cache has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.attention import latent

q, cache = tensor(1, 2, 16, 96, dtype="f16"), tensor(1, 2, 64, 96, dtype="f16")


def wrong() -> Any:
    return latent(q, cache, width=128)


def test_attention_values(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-values",
        "latent(q, cache, width=128)",
        """\
FireironError[attention-values]: keys of 96 columns, 128 of which are the values
  --> test_attention_values.py:15:12
15 |     return latent(q, cache, width=128)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give width= from 1 to 95, or attention(q, k, k)""",
    )
