"""An op that returns None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    def printed(x: Any) -> Any:
        str(x)

    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(printed, memory=RF)


def test_epilog_op(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(printed, memory=RF)",
        """\
SpecError[bad-op]: epilog op printed returned None
  --> test_epilog_op.py:15:54
15 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(printed, memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: return an expression of the accumulator""",
    )
