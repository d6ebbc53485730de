"""A tensor with an extent of 2.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


def wrong() -> Any:
    return fi.tensor(2.5, 4)


def test_tensor_extent_fraction(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-extent",
        "tensor(2.5, 4)",
        """\
SpecError[bad-extent]: an extent is 2.5
  --> test_tensor_extent_fraction.py:12:15
12 |     return fi.tensor(2.5, 4)
   |               ^^^^^^^^^^^^^^
fix: give whole numbers of 1 and more, or symbols""",
    )
