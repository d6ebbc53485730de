"""cumsum over two dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


@fi.program(x="l m n")
def function(x: Any) -> Any:
    return fi.cumsum(x, "m n")


def wrong() -> Any:
    return function(fi.tensor(4, 64, 64))


def test_running_over_two_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-over",
        'cumsum(x, "m n")',
        """\
SpecError[fold-over]: running results over m and n have no single order
  --> test_running_over_two_dims.py:13:15
13 |     return fi.cumsum(x, "m n")
   |               ^^^^^^^^^^^^^^^^
fix: fold over one dim""",
    )
