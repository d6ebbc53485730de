"""keep= with a tile that the kernel does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(keep="a_shared")


def test_keep_no_such_tile(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "no-such-tile",
        'simulate(keep="a_shared")',
        """\
UsageError[no-such-tile]: make_32x32x8_f32 has no tile a_shared in shared memory or registers
  --> test_keep_no_such_tile.py:10:22
10 |     return product().simulate(keep="a_shared")
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^
fix: keep some of acc, a_sh, b_sh, a_rf, b_rf""",
    )
