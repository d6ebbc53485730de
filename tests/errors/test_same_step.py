"""A program with two steps of one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    top = fi.max(x, "n").named("p")
    return fi.exp(x - top).named("p") * 2


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_same_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "same-step",
        'named("p")',
        """\
SpecError[same-step]: two steps are named p
  --> test_same_step.py:15:28
15 |     return fi.exp(x - top).named("p") * 2
   |                            ^^^^^^^^^^
fix: give each a name of its own: chains find steps by name""",
    )
