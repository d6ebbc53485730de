"""An einsum whose letters are not the dims of its computed operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.einsum("ik,jk->ij", x * 2.0, x)


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_einsum_expression(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "einsum-subscripts",
        'einsum("ik,jk->ij", x * 2.0, x)',
        """\
SpecError[einsum-subscripts]: 'ik' of 'ik,jk->ij' names other dims than its expression has, m, n
  --> test_einsum_expression.py:14:15
14 |     return fi.einsum("ik,jk->ij", x * 2.0, x)
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name just these dims""",
    )
