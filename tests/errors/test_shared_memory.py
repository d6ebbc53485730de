"""Buffers that exceed the shared memory of the architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, B, Block, matmul


def wrong() -> Any:
    return matmul(512, 512, 512, arch="sm_75").tile(128, 128).to(Block).split(128).load(A, SH).load(B, SH)


def test_shared_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "load(B, SH)",
        """\
DecompositionError[shared-memory]: the buffers of A 64 KiB and B 64 KiB need 128 KiB of shared memory, and a block of sm_75 has 64 KiB
  --> test_shared_memory.py:12:96
12 |     return matmul(512, 512, 512, arch="sm_75").tile(128, 128).to(Block).split(128).load(A, SH).load(B, SH)
   |                                                                                                ^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > split 128 > load A to SH > load B to SH
fix: use smaller tiles, shorter chunks or fewer stages""",  # noqa: E501
    )
