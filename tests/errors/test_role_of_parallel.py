"""parallel(Warpgroup) of a split with specialize()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, Warpgroup, matmul


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16")
        .tile(128, 128)
        .to(Block)
        .epilog(memory=FR)
        .split(128)
        .parallel(Warpgroup)
        .specialize()
    )


def test_role_of_parallel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-pipeline",
        "specialize()",
        """\
DecompositionError[parallel-pipeline]: specialize() refines a loop, and Warpgroups take the chunks of this split all at once
  --> test_role_of_parallel.py:19:10
19 |         .specialize()
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 128 to Warpgroup
fix: split again below, and refine that loop""",  # noqa: E501
    )
