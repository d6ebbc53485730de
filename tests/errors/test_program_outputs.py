"""out= with two types for one output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return softmax(Matrix(64, 64), out=("f16", "f32"))


def test_program_outputs(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-outputs",
        'softmax(Matrix(64, 64), out=("f16", "f32"))',
        """\
SpecError[program-outputs]: out= gives 2 types for 1 output
  --> test_program_outputs.py:18:12
18 |     return softmax(Matrix(64, 64), out=("f16", "f32"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give one type, or one for each output""",
    )
