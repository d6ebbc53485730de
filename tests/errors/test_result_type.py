"""wmma with a C of another type than the accumulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import volta


def wrong() -> Any:
    return volta.listing3(matmul(64, 64, 64, "f16"))


def test_result_type(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "result-type",
        'listing3(matmul(64, 64, 64, "f16"))',
        """\
FireironError[result-type]: C is f16 and the accumulator f32: wmma stores fragments as they are
  --> test_result_type.py:13:18
13 |     return volta.listing3(matmul(64, 64, 64, "f16"))
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: write matmul(..., out="f32"), or use listing5, which converts""",
    )
