"""An output that keeps no dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x, "m n")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_program_outputs_no_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-outputs",
        "function(Matrix(64, 64))",
        """\
SpecError[program-outputs]: output y of function has no dims: every dim is folded
  --> test_program_outputs_no_dims.py:18:12
18 |     return function(Matrix(64, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
fix: give the arrays one more dim, of extent 1, that the output keeps""",
    )
