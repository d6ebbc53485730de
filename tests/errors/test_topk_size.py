"""topk of 9 values; registers hold at most 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.topk(x, "n", 9)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_topk_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "topk-size",
        'topk(x, "n", 9)',
        """\
SpecError[topk-size]: topk keeps 9 values in registers
  --> test_topk_size.py:14:15
14 |     return fi.topk(x, "n", 9)
   |               ^^^^^^^^^^^^^^^
fix: take 2 to 8; argmax and max find one""",
    )
