"""An op that returns two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul, relu


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: (relu(x), x), memory=RF)


def test_epilog_tuple(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(lambda x: (relu(x), x), memory=RF)",
        """\
SpecError[bad-op]: epilog op <lambda> returned (<Value max(acc, 0) of f32>, <Value acc of f32>)
  --> test_epilog_tuple.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: (relu(x), x), memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: return an expression of the accumulator; store others beside it by save(tensor, of=op)""",
    )
