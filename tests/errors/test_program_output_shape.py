"""out= with another shape than the output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def doubled(x: Any) -> Any:
    return x + x


def wrong() -> Any:
    return doubled(Matrix(64, 32), out=Matrix(32, 64))


def test_program_output_shape(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-outputs",
        "doubled(Matrix(64, 32), out=Matrix(32, 64))",
        """\
SpecError[program-outputs]: out= gives [32, 64].f32.GL, and y is 64 x 32
  --> test_program_output_shape.py:18:12
18 |     return doubled(Matrix(64, 32), out=Matrix(32, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: describe the output with its extents""",
    )
