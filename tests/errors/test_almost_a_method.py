"""A misspelled method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulat()


def test_almost_a_method(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "no-such-link",
        "simulat()",
        """\
RefinementError[no-such-link]: done has no simulat: nothing here is called simulat
  --> test_almost_a_method.py:10:22
10 |     return product().simulat()
   |                      ^^^^^^^^^
at:  MatMul 64x64x16 @ Kernel > tile 32x32 to Block > epilog RF > split 8 > load A to SH > load B to SH > tile 16x16 to Warp > tile 4x2 to Thread > split 1 > load A to RF > load B to RF > tile 1x1 > done
fix: write simulate; no link follows done()""",  # noqa: E501
    )
