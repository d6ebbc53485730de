"""A program called with a NumPy array instead of a description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fireiron as fi


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return softmax(np.ones(3))


def test_program_array(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-arguments",
        "softmax(np.ones(3))",
        """\
SpecError[program-arguments]: softmax takes the description of an array for x, not array([1., 1., 1.])
  --> test_program_array.py:19:12
19 |     return softmax(np.ones(3))
   |            ^^^^^^^^^^^^^^^^^^^
fix: describe it: Matrix(rows, cols, "f16"), Vector(n, name="bias"), tensor(2, 3, 4)""",
    )
