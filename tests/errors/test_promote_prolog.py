"""promote() below a prolog that does more than multiply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, Block, matmul, relu


def wrong() -> Any:
    chain = matmul(64, 64, 64).prolog(A, relu).tile(32, 32).to(Block).epilog(memory=RF)
    return chain.split(16).promote()


def test_promote_prolog(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "promote-prolog",
        "promote()",
        """\
DecompositionError[promote-prolog]: the prolog of A does more than multiply, and promote() applies only factors to sums
  --> test_promote_prolog.py:13:28
13 |     return chain.split(16).promote()
   |                            ^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > prolog A > tile 32x32 to Block > epilog RF > split 16
fix: give it scale(...) or dequantise(dtype, scales) alone, or leave promote() out and load through registers""",
    )
