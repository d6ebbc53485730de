"""A read of the next point's result, which lies in another register for the last lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, Warp, vector


@fi.program(x="m n")
def differences(x: Any) -> Any:
    s = (x * x).named("s")
    return s - s[:, fi.index("n") + 1]


def wrong() -> Any:
    chain = differences(Matrix(8, 64)).tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector(4))
    return chain.epilog(memory=RF).done()


def test_read_of_no_lane(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "affine-read",
        "done()",
        """\
DecompositionError[affine-read]: step y reads s[m, n + 1], and s[m, n] is computed by the threads of its own points: no one lane of the warp holds it in the same register for each lane
  --> test_read_of_no_lane.py:20:36
20 |     return chain.epilog(memory=RF).done()
   |                                    ^^^^^^
at:  Program 8x64 @ Kernel > tile 4 to Block > tile 1 to Warp > load x to RF
fix: let lanes of a warp hold the points of s that change places, or compute it by another kernel""",  # noqa: E501
    )
