"""An unknown layout of a product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64, layout="XY")


def test_unknown_layout(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-layout",
        'matmul(64, 64, 64, layout="XY")',
        """\
SpecError[bad-layout]: unknown layout 'XY' of a product
  --> test_unknown_layout.py:12:12
12 |     return matmul(64, 64, 64, layout="XY")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use NN, TN, NT, TT, or words for A,B: row,row; row,col; col,row; col,col""",
    )
