"""A load after done()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A


def wrong(product: Callable[..., Any]) -> Any:
    return product().load(A, SH)


def test_load_after_done(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "chain-closed",
        "load(A, SH)",
        """\
DecompositionError[chain-closed]: load comes after done(): MatMul 1x1x1 is executed already
  --> test_load_after_done.py:12:22
12 |     return product().load(A, SH)
   |                      ^^^^^^^^^^^
at:  MatMul 64x64x16 @ Kernel > tile 32x32 to Block > epilog RF > split 8 > load A to SH > load B to SH > tile 16x16 to Warp > tile 4x2 to Thread > split 1 > load A to RF > load B to RF > tile 1x1 > done
fix: move it before done()""",  # noqa: E501
    )
