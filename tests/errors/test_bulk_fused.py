"""A bulk copy of an array some of whose dims are fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, SH, Block, Thread, tensor


@fi.program(x="a b n")
def doubled(x: Any) -> Any:
    return x * 2


def wrong() -> Any:
    spec = fi.fuse(doubled(tensor(6, 8, 64, dtype="f16")), m="a b").tile(m=16).to(Block)
    spec = spec.epilog(memory=RF).split(n=64).pipeline(2).specialize().load("x", SH, fi.tma())
    return spec.tile(m=1, n=8).to(Thread).done().cuda("sm_90a")


def test_bulk_fused(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-fused",
        'load("x", SH, fi.tma())',
        """\
DecompositionError[bulk-fused]: tma.load.2d.128B needs the dimensions that x has at the call, and fuse() made one of several
  --> test_bulk_fused.py:19:72
19 |     spec = spec.epilog(memory=RF).split(n=64).pipeline(2).specialize().load("x", SH, fi.tma())
   |                                                                        ^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 48x64 @ Kernel > tile 16 to Block > split n 64 > load x to SH > tile 16x64 > tile 16x64 to Thread
fix: load and store tensors with a fused dim by vector() or cp_async()""",  # noqa: E501
    )
