"""stmatrix on boxes of pixels whose 16 rows of a matrix are no box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, Block, Warpgroup, stmatrix, tensor, through_shared, tma
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    images, filters = tensor(2, 16, 12, 64, dtype="f16"), tensor(64, 1, 1, 64, dtype="f16", name="f")
    chain = conv2d(images, filters).tile(n=1, p=16, q=12, k=64).to(Block)
    chain = chain.epilog(memory=FR, store=through_shared(stmatrix(), tma(), {"p": 16, "q": 12, "k": 64}, at=Warpgroup))
    chain = chain.split(r=1, s=1, c=64).pipeline(2).specialize().load("x", SH, tma()).load("f", SH, tma())
    chain = chain.tile(n=1, p=16, q=12).to(Warpgroup)
    return chain.each(product=lambda y: y.split(16).tile(64, 64).unroll().done("wgmma")).cuda("sm_90a")


def test_stmatrix_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fragment-agreement",
        'epilog(memory=FR, store=through_shared(stmatrix(), tma(), {"p": 16, "q": 12, "k": 64}, at=Warpgroup))',
        """\
DecompositionError[fragment-agreement]: stmatrix.x4 and wgmma.m64n64k16.f32.f16 (done) do not agree about y_rf: stmatrix.x4 lets thread 0 touch element (0, 2, 0, 0) of y_rf, which wgmma.m64n64k16.f32.f16 (done) gives to another thread
  --> test_stmatrix_rows.py:15:19
15 |     chain = chain.epilog(memory=FR, store=through_shared(stmatrix(), tma(), {"p": 16, "q": 12, "k": 64}, at=Warpgroup))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  --> test_stmatrix_rows.py:18:75
18 |     return chain.each(product=lambda y: y.split(16).tile(64, 64).unroll().done("wgmma")).cuda("sm_90a")
   |                                                                           ^^^^^^^^^^^^^
at:  Program 2x16x12x64x1x1x64 @ Kernel > tile 1x16x12x64 to Block > store y > own Warpgroup > tile 16x12x64 > load src to SH > tile 1x4x4x64 to Warp > tile 4x4x16
fix: load by conform(), which always agrees; by the .trans form; or through movmatrix()""",  # noqa: E501
    )
