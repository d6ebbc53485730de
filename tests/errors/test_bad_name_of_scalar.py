"""A scalar with the name of a keyword of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul


def wrong() -> Any:
    return matmul(64, 64, 64, alpha="stream")


def test_bad_name_of_scalar(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-name",
        'matmul(64, 64, 64, alpha="stream")',
        """\
SpecError[bad-name]: a scalar cannot be called 'stream': calls have a keyword of that name
  --> test_bad_name_of_scalar.py:12:12
12 |     return matmul(64, 64, 64, alpha="stream")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: rename it, for example stream_""",
    )
