"""An einsum whose result has a dim twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.einsum("mk,nk->mm", x, x)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_einsum_result_twice(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "einsum-subscripts",
        'einsum("mk,nk->mm", x, x)',
        """\
SpecError[einsum-subscripts]: the result of 'mk,nk->mm' names m, twice
  --> test_einsum_result_twice.py:14:15
14 |     return fi.einsum("mk,nk->mm", x, x)
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name dims of the operands, each once""",
    )
