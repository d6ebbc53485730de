"""A program that reads a tensor which is no parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Vector, program, tensor
from fireiron import max as largest


def wrong() -> Any:
    bias = Vector(64, name="bias")
    return program(x="m n")(lambda x: largest(x + bias, "n"))(tensor(8, 64))


def test_program_other_tensor(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-operand",
        'largest(x + bias, "n")',
        """\
SpecError[bad-operand]: bias[64].f32.GL is no array of the program's function
  --> test_program_other_tensor.py:14:39
14 |     return program(x="m n")(lambda x: largest(x + bias, "n"))(tensor(8, 64))
   |                                       ^^^^^^^^^^^^^^^^^^^^^^
fix: make it a parameter of the function, and name its dims in program(...)""",
    )
