"""np.add.reduce of an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: np.add.reduce(x), memory=RF)


def test_expression_folded(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(lambda x: np.add.reduce(x), memory=RF)",
        """\
SpecError[bad-op]: np.add.reduce folds many elements, and an expression has one
  --> test_expression_folded.py:14:54
14 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: np.add.reduce(x), memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: fold in a program: fireiron.sum(x, over='n'), or by row_sum(tensor) in an epilog""",
    )
