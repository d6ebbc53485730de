"""A bulk copy of windows whose pixels are no run of pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, Block, Warpgroup, fuse, tensor, tma
from fireiron.schedules import conv


def wrong() -> Any:
    x, f = tensor(5, 39, 39, 64, dtype="f16"), tensor(64, 3, 3, 64, dtype="f16", name="f")
    spec = fuse(conv.conv2d(x, f, stride=9), m="n p q").tile(m=64, k=64).to(Block).epilog(memory=FR)
    chunk = spec.split(r=1, s=1, c=64).pipeline(2).specialize().load("x", SH, tma()).load("f", SH, tma())
    return chunk.tile(k=64).to(Warpgroup).each(product=lambda y: y.split(16).unroll().done("wgmma"))


def test_bulk_windows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-windows",
        'load("x", SH, tma())',
        """\
DecompositionError[bulk-windows]: the elements of x[5, 39, 39, 64].f16.GL at a tile's points are no run of pixels that tma.load.4d.128B copies: m % 5 * 9 + s does not count pixels row by row, or by a step above 8
  --> test_bulk_windows.py:15:65
15 |     chunk = spec.split(r=1, s=1, c=64).pipeline(2).specialize().load("x", SH, tma()).load("f", SH, tma())
   |                                                                 ^^^^^^^^^^^^^^^^^^^^
at:  Program 125x64x3x3x64 @ Kernel > tile 64x64 to Block > split r 1, s 1, c 64 > load x to SH > tile 1x64 > tile 1x64 to Thread
fix: load by cp_async()""",  # noqa: E501
    )
