"""An epilog above the tile to Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).epilog(memory=RF)


def test_epilog_at_kernel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "load-level",
        "epilog(memory=RF)",
        """\
DecompositionError[load-level]: no block owns an accumulator at level Kernel
  --> test_epilog_at_kernel.py:12:31
12 |     return matmul(64, 64, 64).epilog(memory=RF)
   |                               ^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel
fix: tile to Block above epilog""",
    )
