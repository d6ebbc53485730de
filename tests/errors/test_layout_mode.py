"""A mode that a layout does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Layout


def wrong() -> Any:
    return Layout((4, 8), (8, 1))[2]


def test_layout_mode(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "layout-mode",
        "Layout((4, 8), (8, 1))[2]",
        """\
LayoutError[layout-mode]: (4,8):(8,1) has no mode 2
  --> test_layout_mode.py:12:12
12 |     return Layout((4, 8), (8, 1))[2]
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a number from 0 to 1""",
    )
