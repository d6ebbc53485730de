"""batch_stride= without batch=."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix


def wrong() -> Any:
    return Matrix(8, 8, batch_stride=64)


def test_batch_stride_alone(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "batch-stride",
        "Matrix(8, 8, batch_stride=64)",
        """\
SpecError[batch-stride]: batch_stride=64 steps through a batch, and there is none
  --> test_batch_stride_alone.py:12:12
12 |     return Matrix(8, 8, batch_stride=64)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give batch=""",
    )
