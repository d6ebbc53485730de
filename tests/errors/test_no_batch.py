"""A tile of a batch that the spec does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32, batch=1)


def test_no_batch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-such-dimension",
        "tile(32, 32, batch=1)",
        """\
DecompositionError[no-such-dimension]: MatMul 64x64x64 has no dimension batch to tile
  --> test_no_batch.py:12:31
12 |     return matmul(64, 64, 64).tile(32, 32, batch=1)
   |                               ^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel
fix: dimensions: M, N, K""",
    )
