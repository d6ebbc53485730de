"""online() in the chain of a MatMul."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).online()


def test_wrong_spec_refinement(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-spec",
        "online()",
        """\
DecompositionError[wrong-spec]: MatMul 32x32x8 has no online, which only programs have
  --> test_wrong_spec_refinement.py:12:63
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).online()
   |                                                               ^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8
fix: next may come: done, epilog, load, parallel, pipeline, prolog, promote, specialize, split, tile, unroll""",
    )
