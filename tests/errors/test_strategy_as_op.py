"""A strategy instead of an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul, tma


def wrong() -> Any:
    return matmul(64, 64, 64).then(tma())


def test_strategy_as_op(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        "then(tma())",
        """\
SpecError[argument-kind]: the strategy of tma() takes a Move, not acc
  --> test_strategy_as_op.py:12:31
12 |     return matmul(64, 64, 64).then(tma())
   |                               ^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel
fix: give it to load() or to epilog(store=)""",
    )
