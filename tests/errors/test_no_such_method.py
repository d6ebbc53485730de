"""An unknown method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).frobnicate()


def test_no_such_method(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-such-link",
        "frobnicate()",
        """\
RefinementError[no-such-link]: tile 32x32 has no frobnicate: nothing here is called frobnicate
  --> test_no_such_method.py:12:44
12 |     return matmul(64, 64, 64).tile(32, 32).frobnicate()
   |                                            ^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32
fix: next may come: dependent, done, epilog, layout, load, permute, persistent, prolog, split, staggered, tile, to, unroll""",  # noqa: E501
    )
