"""A function of Python in place of an operand of an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, add, matmul


def wrong() -> Any:
    return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(add(wrong), memory=RF)


def test_epilog_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-operand",
        "epilog(add(wrong), memory=RF)",
        """\
SpecError[bad-operand]: <function wrong at 0x...> cannot take part in a pointwise expression
  --> test_epilog_dtype.py:12:60
12 |     return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(add(wrong), memory=RF)
   |                                                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use numbers, tensors, expressions, and names of scalars""",
    )
