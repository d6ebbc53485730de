"""Additions of a type that no instruction adds in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, Vector
from fireiron.schedules import pointwise


@fi.program(ids="e", x="e n", sums="v n")
def function(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[ids, :].add(x)


def wrong() -> Any:
    return pointwise.pointwise(
        function(Vector(64, "i32", name="ids"), Matrix(64, 8, "i8"), Matrix(10, 8, "i8", name="sums"))
    )


def test_added_type(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "added-type",
        "done()",
        """\
DecompositionError[added-type]: no instruction of sm_90 adds i8 to memory atomically
   --> pointwise.py:116:36
116 |     return chain.epilog(memory=RF).done()
    |                                    ^^^^^^
called from test_added_type.py:19:22
 19 |     return pointwise.pointwise(
    |                      ^^^^^^^^^^
at:  Program 64x8 @ Kernel > tile 8x64 to Block > tile 8x1 to Lanes2 > load x to RF
fix: let sums be an array of one of f32, f64, i32, i64, f16, bf16""",
    )
