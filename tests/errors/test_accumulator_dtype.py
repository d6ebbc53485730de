"""An accumulator of a type that the products do not accumulate in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(memory=RF, dtype="f32")


def test_accumulator_dtype(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "accumulator-dtype",
        'epilog(memory=RF, dtype="f32")',
        """\
DecompositionError[accumulator-dtype]: products of i8 do not accumulate in f32
  --> test_accumulator_dtype.py:12:60
12 |     return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog(memory=RF, dtype="f32")
   |                                                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: use an accumulator of the same kind""",
    )
