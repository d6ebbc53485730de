"""Ops behind an exchange, with a result beside C between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, matmul, relu, save, through_shared

EXCHANGE = through_shared(dtype="f32")
before = Matrix(64, 64, name="before")


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(save(before), relu, store=EXCHANGE, behind=True)


def test_epilog_behind_save(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-behind",
        "epilog(save(before), relu, store=EXCHANGE, behind=True)",
        """\
DecompositionError[epilog-behind]: behind=True does not go with save() and folds of rows
  --> test_epilog_behind_save.py:16:18
16 |     return chain.epilog(save(before), relu, store=EXCHANGE, behind=True)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: drop one of them""",
    )
