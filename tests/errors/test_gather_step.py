"""A gather by indices that a step computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n", table="n k")
def function(x: Any, table: Any) -> Any:
    return table[fi.argmax(x, "n"), :]


def wrong() -> Any:
    return function(Matrix(64, 64), Matrix(64, 8, name="table"))


def test_gather_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "gather-step",
        'table[fi.argmax(x, "n"), :]',
        """\
SpecError[gather-step]: the subscript argmax[m] is computed by step argmax
  --> test_gather_step.py:14:12
14 |     return table[fi.argmax(x, "n"), :]
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: compute the indices in a separate kernel, and pass them as an array""",
    )
