"""Ops behind an exchange that a bulk copy reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, conform, matmul, relu, through_shared, tma


def wrong() -> Any:
    chain = matmul(64, 64, 64).tile(32, 32).to(Block)
    return chain.epilog(relu, store=through_shared(conform(), tma(), dtype="f32"), behind=True)


def test_epilog_behind_atom(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-behind",
        'epilog(relu, store=through_shared(conform(), tma(), dtype="f32"), behind=True)',
        """\
DecompositionError[epilog-behind]: behind=True computes ops in registers, which no part of the store reads
  --> test_epilog_behind_atom.py:13:18
13 |     return chain.epilog(relu, store=through_shared(conform(), tma(), dtype="f32"), behind=True)
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block
fix: through_shared(..., vector()), or drop behind=""",
    )
