"""An op that takes two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x, y: x + y, memory=RF)


def test_function_arguments(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "function-arguments",
        "epilog(lambda x, y: x + y, memory=RF)",
        """\
SpecError[function-arguments]: op <lambda> cannot be called with 1 value: wrong.<locals>.<lambda>() missing 1 required positional argument: 'y'
  --> test_function_arguments.py:12:54
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).epilog(lambda x, y: x + y, memory=RF)
   |                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: give a function of 1 argument""",  # noqa: E501,
    )
