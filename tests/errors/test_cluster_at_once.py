"""by_cluster(at_once=True) for a product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import RF, Block, by_cluster, matmul


def wrong() -> Any:
    chain = matmul(256, 256, 256).tile(64, 64).to(Block).epilog(memory=RF)
    return chain.split(ways=2).parallel(Block, reduce=by_cluster(at_once=True))


def test_cluster_at_once(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-cluster",
        "parallel(Block, reduce=by_cluster(at_once=True))",
        """\
DecompositionError[parallel-cluster]: at_once=True is for the folds of programs, and this is a product
  --> test_cluster_at_once.py:13:32
13 |     return chain.split(ways=2).parallel(Block, reduce=by_cluster(at_once=True))
   |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x256 @ Kernel > tile 64x64 to Block > epilog RF > split 2 ways
fix: drop at_once=True""",
    )
