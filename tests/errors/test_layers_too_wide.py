"""Layers whose activations do not fit into shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import SH, A, Block, Matrix, layers


def wrong() -> Any:
    x, y, w = (Matrix(2048, 2048, "f16", name=name) for name in ("X", "Y", "W"))
    return layers(y, x, w).tile(128).to(Block).load(A, SH)


def test_layers_too_wide(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "layers-too-wide",
        "load(A, SH)",
        """\
DecompositionError[layers-too-wide]: 128 rows of 2048 columns take 512 KiB for activations in SH: a block has 227 KiB
  --> test_layers_too_wide.py:13:48
13 |     return layers(y, x, w).tile(128).to(Block).load(A, SH)
   |                                                ^^^^^^^^^^^
at:  Layers 2048x2048 @ Kernel > tile 128 to Block
fix: tile fewer rows, or compute the layers in kernels of their own""",
    )
