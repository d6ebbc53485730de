"""An epilog whose ops are to run behind an exchange, and whose store has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul, relu


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(relu, behind=True)


def test_epilog_behind_exchange(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-behind",
        "epilog(relu, behind=True)",
        """\
DecompositionError[epilog-behind]: behind=True computes ops behind the exchange in shared memory, and the store has none
  --> test_epilog_behind_exchange.py:13:18
13 |     return chain.epilog(relu, behind=True)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: store=through_shared(dtype="f32"), or drop behind=""",
    )
