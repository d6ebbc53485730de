"""two_levels=True where states are corrected, and for a product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, MatMul, Matrix, Warp, in_order, vector


@fi.program(x="m n")
def computed(x: Any) -> Any:
    return fi.logsumexp(x, "n")


def corrected() -> Any:
    chain = computed(Matrix(8, 4096)).tile(m=1).to(Block)
    chain = chain.split("n", ways=4).parallel(Block, in_order(two_levels=True))
    return chain.split(n=512).online().split("n", ways=2).parallel(Warp).load("x", RF, vector()).epilog().done().cuda()


def product() -> Any:
    spec = MatMul(Matrix(64, 512, "f16", name="A"), Matrix(512, 64, "f16", name="B"), Matrix(64, 64, name="C"))
    chain = spec.tile(64, 64).to(Block).epilog(memory=RF).split(ways=4, multiple_of=16)
    return chain.parallel(Block, in_order(two_levels=True))


def test_parallel_levels(refused: Callable[..., Any]) -> None:
    refused(
        corrected,
        "parallel-levels",
        "parallel(Block, in_order(two_levels=True))",
        """\
DecompositionError[parallel-levels]: blocks that share n combine states in one level: their number is not known, \
or states are corrected
  --> test_parallel_levels.py:19:38
19 |     chain = chain.split("n", ways=4).parallel(Block, in_order(two_levels=True))
   |                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 8x4096 @ Kernel > tile 1 to Block
fix: drop two_levels=True""",
    )


def test_parallel_levels_of_a_product(refused: Callable[..., Any]) -> None:
    refused(
        product,
        "parallel-levels",
        "parallel(Block, in_order(two_levels=True))",
        """\
DecompositionError[parallel-levels]: the last block of a tile adds the sums of a product in one level
  --> test_parallel_levels.py:26:18
26 |     return chain.parallel(Block, in_order(two_levels=True))
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x512 @ Kernel > tile 64x64 to Block > epilog RF > split 4 ways
fix: drop two_levels=True""",
    )
