"""An einsum without a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.einsum("mn,mn", x, x)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_einsum_subscripts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "einsum-subscripts",
        'einsum("mn,mn", x, x)',
        """\
SpecError[einsum-subscripts]: 'mn,mn' does not say the dims of 2 operands and a result
  --> test_einsum_subscripts.py:14:15
14 |     return fi.einsum("mn,mn", x, x)
   |               ^^^^^^^^^^^^^^^^^^^^^
fix: write "mk,kn->mn": a group of letters for each operand, then those of the result""",
    )
