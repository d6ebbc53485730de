"""A product with both a batch and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 48, 32, batch=2, groups=3)


def test_batch_groups(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "batch-groups",
        "matmul(64, 48, 32, batch=2, groups=3)",
        """\
SpecError[batch-groups]: batch=2 gives each product rows of A of its own, and groups=3 divides one A among products
  --> test_batch_groups.py:12:12
12 |     return matmul(64, 48, 32, batch=2, groups=3)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give one of the two""",
    )
