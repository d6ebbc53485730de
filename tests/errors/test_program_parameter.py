"""program() with dims for an unknown parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return fi.program(y="m n")(softmax.function)


def test_program_parameter(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "program-arguments",
        'program(y="m n")',
        """\
SpecError[program-arguments]: program(y=...) names no parameter of softmax
  --> test_program_parameter.py:17:15
17 |     return fi.program(y="m n")(softmax.function)
   |               ^^^^^^^^^^^^^^^^
fix: parameters: x""",
    )
