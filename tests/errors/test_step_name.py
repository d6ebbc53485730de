"""A step whose name is no identifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x, "n").named("row sum")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_step_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "dim-name",
        'named("row sum")',
        """\
SpecError[dim-name]: 'row sum' is no name of a step
  --> test_step_name.py:14:27
14 |     return fi.sum(x, "n").named("row sum")
   |                           ^^^^^^^^^^^^^^^^
fix: use letters, digits and underscores""",
    )
