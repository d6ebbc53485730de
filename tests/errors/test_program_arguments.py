"""A program called without its array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return softmax()


def test_program_arguments(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-arguments",
        "softmax()",
        """\
SpecError[program-arguments]: softmax: missing a required argument: 'x'
  --> test_program_arguments.py:17:12
17 |     return softmax()
   |            ^^^^^^^^^
fix: call softmax(x)""",
    )
