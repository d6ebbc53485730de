"""tma() of a matrix whose rows are one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, ColMajor, MatMul, Matrix, Tensor, Warpgroup, f16, tma


def wrong() -> Any:
    row = Tensor("A", (512, 512), f16, (0, 1))
    b, c = Matrix(512, 512, "f16", ColMajor, name="B"), Matrix(512, 512, "f16", name="C")
    return (
        MatMul(row, b, c)
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR)
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_repeated_lines(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-stride",
        "load(A, SH, tma())",
        """\
DecompositionError[bulk-stride]: lines of A[512, 512].f16.GL are one line that is repeated, and tma.load.2d.128B takes lines at a distance above 0
  --> test_tma_repeated_lines.py:23:10
23 |         .load(A, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > tile 128x64 > tile 128x64 to Thread
fix: load by cp_async(), or copy the tensor first""",  # noqa: E501
    )
