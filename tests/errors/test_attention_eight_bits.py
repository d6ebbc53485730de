"""Attention by wgmma with 8-bit values whose keys do not have stride 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.attention import attention, wgmma

heads = tensor(1, 2, 64, 64, dtype="e4m3")


def wrong() -> Any:
    return wgmma(attention(heads, heads, heads, out="bf16"))


def test_attention_eight_bits(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-dtypes",
        'wgmma(attention(heads, heads, heads, out="bf16"))',
        """\
FireironError[attention-dtypes]: wgmma takes 8-bit values with the keys of a column together, which v has not
  --> test_attention_eight_bits.py:15:12
15 |     return wgmma(attention(heads, heads, heads, out="bf16"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: attention.mma takes them, from sm_89 on; or give values with stride 1 along keys""",
    )
