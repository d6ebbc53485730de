"""A bulk copy of a box that a dim ends, though the tensor goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, Block, Value, Warpgroup, einsum, index, program, tensor, tma


@program(x="m l", f="n k")
def behind(x: Value, f: Value, first: int) -> Value:
    return einsum("m k, n k -> m n", x[:, first + index("k")], f)


def wrong() -> Any:
    x, f = tensor(64, 96, dtype="f16"), tensor(64, 40, dtype="f16", name="f")
    chain = behind(x, f, first=8, arch="sm_90a").tile(m=64, n=64).to(Block).epilog(memory=FR)
    chain = chain.split(k=32).pipeline(2).specialize().load("x", SH, tma(64)).load("f", SH, tma(64))
    chain = chain.tile(m=64).to(Warpgroup)
    return chain.each(product=lambda y: y.split(16).unroll().done("wgmma")).cuda("sm_90a")


def test_bulk_ends_inside(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-box",
        'load("x", SH, tma(64))',
        """\
DecompositionError[bulk-box]: tma.load.2d.64B copies 32 elements along k2 out of x[64, 96].f16.GL, and k may end among \
them: a box ends only where the tensor ends
  --> test_bulk_ends_inside.py:19:56
19 |     chain = chain.split(k=32).pipeline(2).specialize().load("x", SH, tma(64)).load("f", SH, tma(64))
   |                                                        ^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64x40 @ Kernel > tile 64x64 to Block > split k 32 > load x to SH > tile 64x32 > tile 64x32 to Thread
fix: split the dim by a number that divides it, or load by cp_async()""",
    )
