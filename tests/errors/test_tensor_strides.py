"""A tensor of three dims with two strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def wrong() -> Any:
    return fi.tensor(3, 4, 5, strides=(5, 1))


def test_tensor_strides(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-extent",
        "tensor(3, 4, 5, strides=(5, 1))",
        """\
SpecError[bad-extent]: 2 strides for 3 dimensions
  --> test_tensor_strides.py:12:15
12 |     return fi.tensor(3, 4, 5, strides=(5, 1))
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give one stride for each dimension""",
    )
