"""A bulk copy of an array in whose order fused dims are no neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, SH, Block, Thread, tensor


@fi.program(x="a b n")
def doubled(x: Any) -> Any:
    return x * 2


def wrong() -> Any:
    x = tensor(6, 64, 8, dtype="f16", strides=(64, 1, 384))  # calls give n before b, which is contiguous
    spec = fi.fuse(doubled(x), m="a b").tile(m=64).to(Block)
    spec = spec.epilog(memory=RF).split(n=8).pipeline(2).specialize().load("x", SH, fi.tma())
    return spec.tile(m=8, n=1).to(Thread).done().cuda("sm_90a")


def test_bulk_fused(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-fused",
        'load("x", SH, fi.tma())',
        """\
DecompositionError[bulk-fused]: tma.load.2d.128B takes fused dims as one axis of x[6, 64, 8].f16.GL, and calls give an array with another dim between them
  --> test_bulk_fused.py:20:71
20 |     spec = spec.epilog(memory=RF).split(n=8).pipeline(2).specialize().load("x", SH, fi.tma())
   |                                                                       ^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 384x8 @ Kernel > tile 64 to Block > split n 8 > load x to SH > tile 64x8 > tile 64x8 to Thread
fix: load and store this tensor by vector() or cp_async()""",  # noqa: E501
    )
