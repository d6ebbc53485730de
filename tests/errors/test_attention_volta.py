"""Attention by quad-pairs with bf16 queries; quad-pairs multiply f16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.attention import attention, volta

heads = tensor(1, 2, 64, 64, dtype="bf16")


def wrong() -> Any:
    return volta(attention(heads, heads, heads))


def test_attention_volta(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-dtypes",
        "volta(attention(heads, heads, heads))",
        """\
FireironError[attention-dtypes]: quad-pairs multiply f16, and q is bf16
  --> test_attention_volta.py:15:12
15 |     return volta(attention(heads, heads, heads))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: attention.simt takes all floats; attention.mma takes bf16 from sm_80 on""",
    )
