"""check("sm_80") of a schedule with a dependent launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Move, RowMajor, Thread, f32


def wrong() -> Any:
    return (
        Move(Matrix(256, 128, f32, RowMajor, name="x"), Matrix(256, 128, f32, RowMajor, name="y"))
        .tile(32, 128).to(Block).dependent().tile(1, 4).to(Thread).done().compile("sm_80")
    )  # fmt: skip


def test_dependent_arch_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "dependent()",
        """\
CheckError[arch]: launches that begin while the one before ends need sm_90, not sm_80
  --> test_dependent_arch_check.py:14:34
14 |         .tile(32, 128).to(Block).dependent().tile(1, 4).to(Thread).done().compile("sm_80")
   |                                  ^^^^^^^^^^^
at:  Move 256x128 @ Kernel > tile 32x128 to Block
fix: drop dependent()""",
    )
