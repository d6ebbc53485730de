"""inplace() with the name of an input that the program does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix
from fireiron.schedules import rows


def wrong() -> Any:
    return rows.softmax(Matrix(64, 512), out=fi.inplace("y"))


def test_inplace_input(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "inplace-input",
        'softmax(Matrix(64, 512), out=fi.inplace("y"))',
        """\
SpecError[inplace-input]: softmax has no input y
  --> test_inplace_input.py:14:17
14 |     return rows.softmax(Matrix(64, 512), out=fi.inplace("y"))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name one input for each output: x""",
    )
