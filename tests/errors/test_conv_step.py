"""A convolution by bulk copies with a stride of 9; tensor maps take at most 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, Block, Warpgroup, tensor, tma
from fireiron.schedules import conv


def wrong() -> Any:
    x, f = tensor(1, 9, 9, 64, dtype="f16"), tensor(64, 3, 3, 64, dtype="f16", name="f")
    spec = conv.conv2d(x, f, stride=9, pad=9).tile(n=1, p=8, q=8, k=64).to(Block).epilog(memory=FR)
    chunk = spec.split(r=1, s=1, c=64).pipeline(2).specialize().load("x", SH, tma()).load("f", SH, tma())
    return chunk.tile(k=64).to(Warpgroup).each(product=lambda y: y.split(16).unroll().done("wgmma"))


def test_conv_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-box",
        'load("x", SH, tma())',
        """\
DecompositionError[bulk-box]: tma.load.4d.128B copies every n-th element along a dimension for n up to 8, not 9
  --> test_conv_step.py:15:65
15 |     chunk = spec.split(r=1, s=1, c=64).pipeline(2).specialize().load("x", SH, tma()).load("f", SH, tma())
   |                                                                 ^^^^^^^^^^^^^^^^^^^^
at:  Program 1x3x3x64x3x3x64 @ Kernel > tile 1x8x8x64 to Block > split r 1, s 1, c 64 > load x to SH > tile 8x64 > tile 8x64 to Thread
fix: load by cp_async()""",  # noqa: E501
    )
