"""Ops behind an exchange whose buffer rounds the sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul, relu, through_shared


def wrong() -> Any:
    chain = matmul(64, 64, 64, "f16", out="f16").tile(32, 32).to(Block)
    return chain.epilog(relu, store=through_shared(), behind=True)


def test_epilog_behind_rounded(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-behind",
        "epilog(relu, store=through_shared(), behind=True)",
        """\
DecompositionError[epilog-behind]: the store's buffer holds f16, to which sums in f32 would be rounded before the ops
  --> test_epilog_behind_rounded.py:13:18
13 |     return chain.epilog(relu, store=through_shared(), behind=True)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: through_shared(..., dtype="f32")""",
    )
