"""check() of buffers that exceed the shared memory of the architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, SH, A, B, Block, Thread, Warp, matmul


def wrong() -> Any:
    return (
        matmul(512, 512, 512)
        .tile(128, 128)
        .to(Block)
        .epilog(memory=RF)
        .split(128)
        .load(A, SH)
        .load(B, SH)
        .tile(32, 32)
        .to(Warp)
        .tile(8, 4)
        .to(Thread)
        .split(1)
        .unroll()
        .load(A, RF)
        .load(B, RF)
        .tile(1, 1)
        .unroll()
        .done()
        .check("sm_75")
    )


def test_shared_memory_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "load(B, SH)",
        """\
CheckError[shared-memory]: a block takes 128 KiB of shared memory, sm_75 gives 64 KiB: a_sh 64 KiB, b_sh 64 KiB
  --> test_shared_memory_check.py:19:10
19 |         .load(B, SH)
   |          ^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 128 > load A to SH > load B to SH
fix: use smaller tiles or a smaller split, or reuse_buffer() where a buffer is dead""",
    )
