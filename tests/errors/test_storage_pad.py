"""pad() beside storage_layout()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Layout, matmul


def wrong() -> Any:
    return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).storage_layout(Layout((32, 8), (8, 1))).pad(4)


def test_storage_pad(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "storage-pad",
        "pad(4)",
        """\
DecompositionError[storage-pad]: pad(4) of A beside the layout (32,8):(8,1), which has strides of its own
  --> test_storage_pad.py:12:115
12 |     return matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH).storage_layout(Layout((32, 8), (8, 1))).pad(4)
   |                                                                                                                   ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > split 8 > load A to SH
fix: write the pad into the layout""",  # noqa: E501
    )
