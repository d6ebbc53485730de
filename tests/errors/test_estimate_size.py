"""An estimate with a negative size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul, symbol
from fireiron.schedules import simt


def wrong() -> Any:
    return simt.sgemm(matmul(symbol("M", multiple_of=8), 64, 64)).estimate("sm_80", M=-3)


def test_estimate_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "size-range",
        'estimate("sm_80", M=-3)',
        """\
CallError[size-range]: M is -3, and its values are multiples of 8 from 1 to 1073741824
  --> test_estimate_size.py:13:67
13 |     return simt.sgemm(matmul(symbol("M", multiple_of=8), 64, 64)).estimate("sm_80", M=-3)
   |                                                                   ^^^^^^^^^^^^^^^^^^^^^^^
fix: give M one of these""",
    )
