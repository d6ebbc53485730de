"""drawn() for clusters, whose blocks would draw different tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Cluster, Thread, drawn, matmul


def wrong() -> Any:
    chain = matmul(512, 512, 512, "f16", layout="TN", arch="sm_90a")
    chain = chain.tile(256, 128).to(Cluster).persistent(share=drawn())
    return chain.tile(128, 128).to(Block).tile(8, 16).to(Thread).tile(1, 1).done()


def test_drawn_units(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "drawn-units",
        "persistent(share=drawn())",
        """\
DecompositionError[drawn-units]: share=drawn(): the blocks of a cluster share a tile, and each would draw one
  --> test_drawn_units.py:13:46
13 |     chain = chain.tile(256, 128).to(Cluster).persistent(share=drawn())
   |                                              ^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel
fix: drop the cluster, or drop share=drawn()""",
    )
