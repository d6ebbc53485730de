"""A product with two operands of one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, MatMul, Matrix, Thread


def wrong() -> Any:
    return (
        MatMul(Matrix(64, 32, name="X"), Matrix(32, 48, name="X"), Matrix(64, 48))
        .tile(16, 16)
        .to(Block)
        .tile(1, 1)
        .to(Thread)
        .split(1)
        .load(A, RF)
        .load(B, RF)
        .done()
    )


def test_same_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "same-name",
        'MatMul(Matrix(64, 32, name="X"), Matrix(32, 48, name="X"), Matrix(64, 48))',
        """\
SpecError[same-name]: two operands are named X
  --> test_same_name.py:13:9
13 |         MatMul(Matrix(64, 32, name="X"), Matrix(32, 48, name="X"), Matrix(64, 48))
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name each differently: Matrix(..., name='X')""",
    )
