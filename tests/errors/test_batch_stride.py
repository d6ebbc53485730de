"""A batch whose matrices would overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix


def wrong() -> Any:
    return Matrix(8, 8, batch=2, batch_stride=32)


def test_batch_stride(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "batch-stride",
        "Matrix(8, 8, batch=2, batch_stride=32)",
        """\
SpecError[batch-stride]: batch_stride=32 is shorter than the 64 elements of a matrix
  --> test_batch_stride.py:12:12
12 |     return Matrix(8, 8, batch=2, batch_stride=32)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give batch_stride=64 or more""",
    )
