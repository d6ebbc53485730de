"""An accumulator of more registers than a thread has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, A, B, Block, Thread, matmul


def wrong() -> Any:
    chain = matmul(512, 512, 8).tile(512, 512).to(Block).epilog(memory=RF).tile(512, 512).to(Thread)
    return chain.split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()


def test_register_elements(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "register-elements",
        "done()",
        """\
DecompositionError[register-elements]: fma.f32 (done) takes 262144 elements of acc in each thread, which has 255 registers
  --> test_register_elements.py:13:71
13 |     return chain.split(1).load(A, RF).load(B, RF).tile(1, 1).unroll().done()
   |                                                                       ^^^^^^
at:  MatMul 512x512x8 @ Kernel > tile 512x512 to Block > epilog > tile 512x512 to Thread > split 1 > load A to RF > load B to RF > tile 1x1 > done
fix: use smaller tiles or shorter chunks, or more threads""",  # noqa: E501
    )
