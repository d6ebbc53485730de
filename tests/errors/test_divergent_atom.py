"""Two tiles for the four quad-pairs of a warp, all of which must execute the product together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, A, B, Block, QuadPair, Warp, matmul


def wrong() -> Any:
    return (
        matmul(64, 64, 64, "f16")
        .tile(32, 32)
        .to(Block)
        .epilog(memory=FR)
        .split(8)
        .tile(16, 8)
        .to(Warp)
        .load(A, FR)
        .load(B, FR)
        .tile(8, 8)
        .to(QuadPair)
        .split(4)
        .unroll()
        .done()
    )


def test_divergent_atom(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "divergent-atom",
        "done()",
        """\
DecompositionError[divergent-atom]: mma.m8n8k4.row.row.f32.f16 is executed by all 32 threads of a Warp at once, but only 16 of them have a tile here (quadpair < 2)
  --> test_divergent_atom.py:26:10
26 |         .done()
   |          ^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog > split 8 > tile 16x8 to Warp > load A to FR > load B to FR > tile 8x8 to QuadPair > split 4
fix: map as many tiles to QuadPair as a Warp has units, 4 tiles or a multiple""",  # noqa: E501
    )
