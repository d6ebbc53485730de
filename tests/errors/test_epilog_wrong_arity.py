"""An op that calls relu with two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul, relu


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: relu(x, 1), memory=RF)


def test_epilog_wrong_arity(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-op",
        "epilog(lambda x: relu(x, 1), memory=RF)",
        """\
SpecError[bad-op]: epilog op <lambda> fails: relu() takes 1 positional argument but 2 were given
  --> test_epilog_wrong_arity.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x: relu(x, 1), memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: correct the call inside the op""",
    )
