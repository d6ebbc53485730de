"""A function of the module math, in an op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: math.exp(x), memory=RF)


def test_expression_of_math(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(lambda x: math.exp(x), memory=RF)",
        """\
SpecError[bad-op]: float(x), as Python's math functions call it, has no meaning for expressions such as acc
  --> test_expression_of_math.py:13:54
13 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: math.exp(x), memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use fireiron's: exp, log, sqrt, tanh, erf, ...""",
    )
