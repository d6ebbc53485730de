"""A program's option of another type than its annotation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv


def wrong() -> Any:
    return conv.conv2d(tensor(1, 8, 8, 16), tensor(16, 3, 3, 16, name="f"), stride="2")


def test_program_option_kind(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        'conv2d(tensor(1, 8, 8, 16), tensor(16, 3, 3, 16, name="f"), stride="2")',
        """\
SpecError[argument-kind]: stride= of conv2d takes a number or a tuple (a number each), not '2'
  --> test_program_option_kind.py:13:17
13 |     return conv.conv2d(tensor(1, 8, 8, 16), tensor(16, 3, 3, 16, name="f"), stride="2")
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a whole number, or a tuple (a number each)""",
    )
