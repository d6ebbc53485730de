"""inplace() where threads read elements that other threads have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import RF, Block, Matrix, vector


@fi.program(x="m n")
def mirrored(x: Any) -> Any:
    return x - x[:, fi.extent("n") - 1 - fi.index("n")]


def wrong() -> Any:
    chain = mirrored(Matrix(8, 256), out=fi.inplace("x")).tile(m=1).to(Block)
    return chain.load("x", RF, vector()).epilog(memory=RF).done()


def test_inplace_order(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "inplace-order",
        "epilog(memory=RF)",
        """\
DecompositionError[inplace-order]: x is written in place, and thread 0 reads what thread 63 writes, no barrier between
  --> test_inplace_order.py:19:42
19 |     return chain.load("x", RF, vector()).epilog(memory=RF).done()
   |                                          ^^^^^^^^^^^^^^^^^
fix: load x once to RF, by vector(), in the units that store the output, or leave inplace() out""",
    )
