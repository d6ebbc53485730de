"""An estimate with a size that the kernel does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul, symbol
from fireiron.schedules import simt


def wrong() -> Any:
    return simt.sgemm(matmul(symbol("M"), 64, 64)).estimate("sm_80", Q=64)


def test_estimate_unknown_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-size",
        'estimate("sm_80", Q=64)',
        """\
CallError[unknown-size]: sgemm_128x128x8_f32 has no size Q
  --> test_estimate_unknown_size.py:13:52
13 |     return simt.sgemm(matmul(symbol("M"), 64, 64)).estimate("sm_80", Q=64)
   |                                                    ^^^^^^^^^^^^^^^^^^^^^^^
fix: its sizes: M""",
    )
