"""A dependent launch on sm_80; it needs sm_90."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(512, 512, 512, "f16", arch="sm_80").tile(128, 128).to(Block).dependent()


def test_dependent_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "dependent()",
        """\
DecompositionError[arch]: launches that begin while the one before ends need sm_90, not sm_80
  --> test_dependent_arch.py:12:80
12 |     return matmul(512, 512, 512, "f16", arch="sm_80").tile(128, 128).to(Block).dependent()
   |                                                                                ^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block
fix: drop dependent()""",
    )
