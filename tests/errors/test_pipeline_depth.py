"""pipeline() with more slots than shared memory holds: refused at the load, or at the refinement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, B, Block, cp_async, matmul


def wrong() -> Any:
    chain = matmul(4096, 4096, 4096, "f16", layout="TN", arch="sm_86").tile(128, 256).to(Block).split(32).pipeline(5)
    return chain.load(A, SH, cp_async()).load(B, SH, cp_async())


def test_pipeline_depth(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "load(B, SH, cp_async())",
        """\
DecompositionError[shared-memory]: 5 slots of A 8 KiB and B 16 KiB need 120 KiB of shared memory, and a block of sm_86 has 99 KiB
  --> test_pipeline_depth.py:13:42
13 |     return chain.load(A, SH, cp_async()).load(B, SH, cp_async())
   |                                          ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 4096x4096x4096 @ Kernel > tile 128x256 to Block > split 32 > load A to SH > load B to SH
fix: use pipeline(4), smaller tiles or shorter chunks""",  # noqa: E501
    )
