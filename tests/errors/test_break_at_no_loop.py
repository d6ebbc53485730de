"""A simulation that should stop in a loop that the kernel does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import At


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(at=At("fma", trips={"q": 1}))


def test_break_at_no_loop(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "no-such-loop",
        'simulate(at=At("fma", trips={"q": 1}))',
        """\
UsageError[no-such-loop]: make_32x32x8_f32 has no loop over q
  --> test_break_at_no_loop.py:12:22
12 |     return product().simulate(at=At("fma", trips={"q": 1}))
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name some of its loops: i, k, k2, m2, m, n, m4""",
    )
