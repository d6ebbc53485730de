"""promote() with chunks that do not start where a scale starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Matrix, Thread, matmul, scale


def wrong() -> Any:
    chain = matmul(32, 32, 96).prolog(A, scale(Matrix(32, 3, name="scales"))).tile(32, 32).to(Block)
    chain = chain.epilog(memory=RF).split(48).split(32).promote().load(A, SH).load(B, SH)
    chain = chain.tile(4, 2).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def test_promote_scales_split(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "promote-scales",
        "promote()",
        """\
DecompositionError[promote-scales]: scales may change inside chunks of 32 that start at k * 48 + k2 * 32
  --> test_promote_scales_split.py:13:57
13 |     chain = chain.epilog(memory=RF).split(48).split(32).promote().load(A, SH).load(B, SH)
   |                                                         ^^^^^^^^^
at:  MatMul 32x32x96 @ Kernel > prolog A > tile 32x32 to Block > epilog > split 48
fix: let the splits above take multiples of 32""",
    )
