"""argmax over two dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


@fi.program(x="l m n")
def function(x: Any) -> Any:
    return fi.argmax(x, "m n")


def wrong() -> Any:
    return function(fi.tensor(4, 64, 64))


def test_argmax_of_two_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-over",
        'argmax(x, "m n")',
        """\
SpecError[fold-over]: argmax finds an index along one dim, not m and n
  --> test_argmax_of_two_dims.py:13:15
13 |     return fi.argmax(x, "m n")
   |               ^^^^^^^^^^^^^^^^
fix: fold over one dim""",
    )
