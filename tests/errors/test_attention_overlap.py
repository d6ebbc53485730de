"""Attention whose result overlaps the queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import tensor
from fireiron.schedules import attention

q = np.ones((1, 2, 16, 16), np.float16)


def wrong() -> Any:
    schedule = attention.mma(attention.attention(*(tensor(1, 2, 16, 16, dtype="f16") for _ in range(3))))
    return schedule.simulate(q, q, q, out=q)


def test_attention_overlap(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "overlap",
        "simulate(q, q, q, out=q)",
        """\
CallError[overlap]: y, which is written, overlaps q: [0x..., 0x...) and [0x..., 0x...)
  --> test_attention_overlap.py:18:21
18 |     return schedule.simulate(q, q, q, out=q)
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass an out that shares no memory with q""",
    )
