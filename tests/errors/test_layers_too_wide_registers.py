"""Layers whose activations and accumulators do not fit into registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, A, Block, Matrix, layers


def wrong() -> Any:
    x, y, w = (Matrix(512, 512, "f16", name=name) for name in ("X", "Y", "W"))
    return layers(y, x, w).tile(128).to(Block).load(A, FR)


def test_layers_too_wide_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "layers-too-wide",
        "load(A, FR)",
        """\
DecompositionError[layers-too-wide]: 128 rows of 512 columns take 384 KiB for activations in FR: a block has 256 KiB
  --> test_layers_too_wide_registers.py:13:48
13 |     return layers(y, x, w).tile(128).to(Block).load(A, FR)
   |                                                ^^^^^^^^^^^
at:  Layers 512x512 @ Kernel > tile 128 to Block
fix: tile fewer rows, or compute the layers in kernels of their own""",
    )
