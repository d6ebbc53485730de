"""A step that reads the array to which another step adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, Vector


@fi.program(ids="e", x="e n", sums="v n")
def function(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[ids, :].add(x), sums * 2


def wrong() -> Any:
    return function(Vector(64, "i32", name="ids"), Matrix(64, 8), Matrix(10, 8, name="sums"))


def test_added_read(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "added-read",
        'function(Vector(64, "i32", name="ids"), Matrix(64, 8), Matrix(10, 8, name="sums"))',
        """\
SpecError[added-read]: step y1 reads total, to which step total adds: it is complete when the kernel ends
  --> test_added_read.py:18:12
18 |     return function(Vector(64, "i32", name="ids"), Matrix(64, 8), Matrix(10, 8, name="sums"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: read it in a program of its own""",
    )
