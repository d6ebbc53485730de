"""A bulk store from registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, A, B, Block, Warpgroup, matmul, tma


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", layout="TN")
        .tile(128, 128)
        .to(Block)
        .persistent()
        .epilog(memory=FR, store=tma())
        .split(64)
        .pipeline(3)
        .specialize(registers=(24, 240))
        .load(A, SH, tma())
        .load(B, SH, tma())
        .tile(64, 128)
        .to(Warpgroup)
        .split(16)
        .unroll()
        .done()
    )


def test_tma_from_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "epilog(memory=FR, store=tma())",
        """\
DecompositionError[no-atom]: tma.store.2d.128B does not execute Move(128, 32)(FR, GL)(Thread): it moves between a tensor in GL and a buffer in SH
  --> test_tma_from_registers.py:17:10
17 |         .epilog(memory=FR, store=tma())
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > tile 128x32 > tile 128x32 to Thread
fix: load by tma(), store by through_shared(..., tma())""",  # noqa: E501
    )
