"""A link after done()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrong(product: Callable[..., Any]) -> Any:
    return product().tile(2, 2)


def test_chain_closed(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "chain-closed",
        "tile(2, 2)",
        """\
DecompositionError[chain-closed]: tile comes after done(): MatMul 1x1x1 is executed already
  --> test_chain_closed.py:10:22
10 |     return product().tile(2, 2)
   |                      ^^^^^^^^^^
at:  MatMul 64x64x16 @ Kernel > tile 32x32 to Block > epilog RF > split 8 > load A to SH > load B to SH > tile 16x16 to Warp > tile 4x2 to Thread > split 1 > load A to RF > load B to RF > tile 1x1 > done
fix: move it before done()""",  # noqa: E501
    )
