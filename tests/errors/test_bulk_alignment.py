"""A bulk store of boxes that do not start at multiples of 128 bytes of shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, conform, matmul, through_shared, tma


def wrong() -> Any:
    chain = matmul(1, 264, 1).tile(1, 264).to(Block)
    chain = chain.epilog(store=through_shared(conform(), tma(0)))
    return chain.tile(1, 4).to(Thread).split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()


def test_bulk_alignment(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-alignment",
        "epilog(store=through_shared(conform(), tma(0)))",
        """\
DecompositionError[bulk-alignment]: a box of acc_sh starts at element n3 * 132, and tma.store.2d.0B starts at multiples of 128 bytes of shared memory
  --> test_bulk_alignment.py:13:19
13 |     chain = chain.epilog(store=through_shared(conform(), tma(0)))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 1x264x1 @ Kernel > tile 1x264 to Block > epilog > store > load src to SH > tile 1x132 > tile 1x132 to Thread
fix: let boxes hold multiples of 128 bytes, or at most 256 elements along each dimension""",  # noqa: E501
    )
