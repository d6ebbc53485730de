"""A call with an unknown keyword."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import simt


def wrong() -> Any:
    return simt.sgemm(matmul(64, 64, 64), tile=32)


def test_call_keyword(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "call-arguments",
        "sgemm(matmul(64, 64, 64), tile=32)",
        """\
SpecError[call-arguments]: sgemm: got an unexpected keyword argument 'tile'
  --> test_call_keyword.py:13:17
13 |     return simt.sgemm(matmul(64, 64, 64), tile=32)
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: call sgemm(spec, m=128, n=128, k=8, warp=None, thread=None, stages=2, ahead=1, pad=4, group=8, ways=1, split_k=1, ops=(), copies=None, resident=0, stream=0)""",  # noqa: E501
    )
