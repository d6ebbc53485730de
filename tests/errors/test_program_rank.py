"""A program of matrices called with a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Vector


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return softmax(Vector(64, name="v"))


def test_program_rank(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-rank",
        'softmax(Vector(64, name="v"))',
        """\
SpecError[program-rank]: x is v[64].f32.GL, and the program gives it the dims m n
  --> test_program_rank.py:18:12
18 |     return softmax(Vector(64, name="v"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give an array of 2 dimensions""",
    )
