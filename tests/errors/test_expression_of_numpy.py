"""A NumPy function without a counterpart, in an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: np.sin(x), memory=RF)


def test_expression_of_numpy(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(lambda x: np.sin(x), memory=RF)",
        """\
SpecError[bad-op]: np.sin has no counterpart on expressions
  --> test_expression_of_numpy.py:14:54
14 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: np.sin(x), memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use fireiron's functions, or write it: custom(name, source, numpy)""",
    )
