"""A dim whose name is no identifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


def wrong() -> Any:
    return fi.program(x="m n-1")(softmax.function)(Matrix(64, 64))


def test_dim_name(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "dim-name",
        'fi.program(x="m n-1")(softmax.function)(Matrix(64, 64))',
        """\
SpecError[dim-name]: 'n-1' is no name of a dim
  --> test_dim_name.py:18:12
18 |     return fi.program(x="m n-1")(softmax.function)(Matrix(64, 64))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use letters, digits and underscores""",
    )
