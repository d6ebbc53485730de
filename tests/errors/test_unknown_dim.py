"""extent() of a dim that no array has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return x * fi.extent("k")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_unknown_dim(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "unknown-dim",
        'extent("k")',
        """\
SpecError[unknown-dim]: no dim is called k
  --> test_unknown_dim.py:14:19
14 |     return x * fi.extent("k")
   |                   ^^^^^^^^^^^
fix: dims: m, n""",
    )
