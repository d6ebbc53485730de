"""A panel that names a dim which the stored tile does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, SH, Block, Warpgroup, stmatrix, tensor, through_shared, tma
from fireiron.schedules.conv import conv2d


def wrong() -> Any:
    images, filters = tensor(2, 8, 32, 64, dtype="f16"), tensor(64, 1, 1, 64, dtype="f16", name="f")
    chain = conv2d(images, filters).tile(n=1, p=4, q=32, k=64).to(Block)
    chain = chain.epilog(memory=FR, store=through_shared(stmatrix(), tma(), {"p": 2, "w": 32, "k": 64}, at=Warpgroup))
    chain = chain.split(r=1, s=1, c=64).pipeline(2).specialize().load("x", SH, tma()).load("f", SH, tma())
    chain = chain.tile(n=1, p=2, q=32).to(Warpgroup)
    return chain.each(product=lambda y: y.split(16).unroll().done("wgmma")).cuda("sm_90a")


def test_panel_no_such_dimension(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-such-dimension",
        'epilog(memory=FR, store=through_shared(stmatrix(), tma(), {"p": 2, "w": 32, "k": 64}, at=Warpgroup))',
        """\
DecompositionError[no-such-dimension]: Move ?x?x?x? has no dimension w to tile
  --> test_panel_no_such_dimension.py:15:19
15 |     chain = chain.epilog(memory=FR, store=through_shared(stmatrix(), tma(), {"p": 2, "w": 32, "k": 64}, at=Warpgroup))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 2x8x32x64x1x1x64 @ Kernel > tile 1x4x32x64 to Block > store > own Warpgroup
fix: dimensions: n, p, q, k""",  # noqa: E501
    )
