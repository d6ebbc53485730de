"""in_order(shared=True) for warpgroups, and where blocks cannot all run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import RF, Block, Thread, Warpgroup, in_order, matmul, symbol
from fireiron.simulate import simulate


def shared(spec: Any, persistent: bool = False) -> Any:
    tiled = spec.tile(64, 64).to(Block)
    chain = (tiled.persistent() if persistent else tiled).epilog(memory=RF).split(256)
    chain = chain.parallel(Block, in_order(shared=True))
    return chain.tile(8, 4).to(Thread).tile(1, 1).unroll().split(1).unroll().done().lowered("sm_90")


def of_warps() -> Any:
    chain = matmul(64, 64, 512).tile(64, 64).to(Block).epilog(memory=RF).split(256)
    return chain.parallel(Warpgroup, in_order(shared=True))


def simulated() -> Any:
    rows = 64 * 40
    arrays = {"A": np.zeros((rows, 512), "f4"), "B": np.zeros((512, 64), "f4"), "C": np.zeros((rows, 64), "f4")}
    return simulate(shared(matmul(rows, 64, 512)), arrays)


def test_parallel_shares_of_warps(refused: Callable[..., Any]) -> None:
    refused(
        of_warps,
        "parallel-shares",
        "parallel(Warpgroup, in_order(shared=True))",
        """\
DecompositionError[parallel-shares]: Warpgroups of a block add a share of the tile each, with or without shared=True
  --> test_parallel_shares.py:23:18
23 |     return chain.parallel(Warpgroup, in_order(shared=True))
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x512 @ Kernel > tile 64x64 to Block > epilog RF > split 256
fix: drop shared=True, or split over Block""",
    )


def test_parallel_shares_of_persistent_blocks(refused: Callable[..., Any]) -> None:
    refused(
        lambda: shared(matmul(64, 64, 512), persistent=True),
        "parallel-shares",
        "parallel(Block, in_order(shared=True))",
        """\
DecompositionError[parallel-shares]: blocks that each add a share of a tile wait for each other, and persistent \
blocks take one tile after another
  --> test_parallel_shares.py:17:19
17 |     chain = chain.parallel(Block, in_order(shared=True))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x512 @ Kernel > tile 64x64 to Block
fix: drop persistent(), or drop shared=True""",
    )


def test_parallel_shares_of_an_unknown_number(refused: Callable[..., Any]) -> None:
    refused(
        lambda: shared(matmul(64, 64, symbol("K"))),
        "parallel-shares",
        "parallel(Block, in_order(shared=True))",
        """\
DecompositionError[parallel-shares]: blocks that each add a share of a tile wait for each other, and their number, \
(K + 255) / 256, is not known
  --> test_parallel_shares.py:17:19
17 |     chain = chain.parallel(Block, in_order(shared=True))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64xK @ Kernel > tile 64x64 to Block
fix: write split(ways=n, multiple_of=...), or drop shared=True""",
    )


def test_cooperative_grid(refused: Callable[..., Any]) -> None:
    refused(
        simulated,
        "cooperative-grid",
        "",
        """\
SimulationError[cooperative-grid]: 80 blocks of 128 threads wait for each other, and run together: the simulator runs \
8192 threads together at most
fix: simulate smaller sizes, with fewer tiles or ways""",
    )
