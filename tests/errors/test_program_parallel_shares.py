"""in_order(shared=True) for several folds, and for a fold without one value for all blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, in_order, vector


@fi.program(x="m n")
def two(x: Any) -> Any:
    return fi.sum(x, "n") + fi.max(x, "n")


@fi.program(x="m n")
def running(x: Any) -> Any:
    return fi.cumsum(x, "n")


def shared(program: Any) -> Any:
    chain = program(Matrix(8, 4096)).tile(m=1).to(Block)
    chain = chain.split("n", ways=4).parallel(Block, in_order(shared=True)).split("n", ways=2).parallel(Warp)
    return chain.load("x", RF, vector()).epilog().done().cuda()


def of_warps() -> Any:
    return two(Matrix(8, 4096)).tile(m=1).to(Block).split("n", ways=4).parallel(Warp, in_order(shared=True))


def test_shares_of_two_folds(refused: Callable[..., Any]) -> None:
    refused(
        lambda: shared(two),
        "parallel-shares",
        "parallel(Block, in_order(shared=True))",
        """\
DecompositionError[parallel-shares]: each block of a tile combines a share of one fold over n, and sum, largest are \
several folds
  --> test_program_parallel_shares.py:24:38
24 |     chain = chain.split("n", ways=4).parallel(Block, in_order(shared=True)).split("n", ways=2).parallel(Warp)
   |                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 8x4096 @ Kernel > tile 1 to Block
fix: drop shared=True""",
    )


def test_shares_of_a_running_result(refused: Callable[..., Any]) -> None:
    refused(
        lambda: shared(running),
        "parallel-shares",
        "parallel(Block, in_order(shared=True))",
        """\
DecompositionError[parallel-shares]: no fold over n ends in one value for all blocks, of which each could have a share
  --> test_program_parallel_shares.py:24:38
24 |     chain = chain.split("n", ways=4).parallel(Block, in_order(shared=True)).split("n", ways=2).parallel(Warp)
   |                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 8x4096 @ Kernel > tile 1 to Block
fix: drop shared=True""",
    )


def test_shares_of_warps(refused: Callable[..., Any]) -> None:
    refused(
        of_warps,
        "parallel-reduce",
        "parallel(Warp, in_order(shared=True))",
        """\
DecompositionError[parallel-reduce]: Warps of a block combine folds whole, not in shares
  --> test_program_parallel_shares.py:29:72
29 |     return two(Matrix(8, 4096)).tile(m=1).to(Block).split("n", ways=4).parallel(Warp, in_order(shared=True))
   |                                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 8x4096 @ Kernel > tile 1 to Block > split n 4 ways
fix: drop reduce=""",
    )
