"""A softmax, given to the schedule of attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import attention, rows


def wrong() -> Any:
    return attention.mma(rows.softmax(tensor(64, 64, dtype="f16")))


def test_attention_program(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-program",
        'mma(rows.softmax(tensor(64, 64, dtype="f16")))',
        """\
FireironError[attention-program]: softmax is no attention over i, j, d and e with numbers for d and e
  --> test_attention_program.py:13:22
13 |     return attention.mma(rows.softmax(tensor(64, 64, dtype="f16")))
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give attention(q, k, v) of arrays of four dimensions""",
    )
