"""A program called with None for an array that is not optional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import rows


def wrong() -> Any:
    return rows.rms_norm_backward(tensor(8, 64), None, tensor(64))


def test_program_needs_array(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-arguments",
        "rms_norm_backward(tensor(8, 64), None, tensor(64))",
        """\
SpecError[program-arguments]: rms_norm_backward takes the description of an array for dy, not None
  --> test_program_needs_array.py:13:17
13 |     return rows.rms_norm_backward(tensor(8, 64), None, tensor(64))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: describe it: Matrix(rows, cols, "f16"), Vector(n, name="bias"), tensor(2, 3, 4)""",
    )
