"""extent() outside of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def wrong() -> Any:
    return fi.extent("m")


def test_outside_program(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "outside-program",
        'extent("m")',
        """\
SpecError[outside-program]: dims have names only inside a program
  --> test_outside_program.py:12:15
12 |     return fi.extent("m")
   |               ^^^^^^^^^^^
fix: call this in a function under @fireiron.program(...)""",
    )
