"""A group of quad-pairs, whose threads are not consecutive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Group, QuadPair


def wrong() -> Any:
    return Group(QuadPair, 2)


def test_group_of_threads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "level-group",
        "Group(QuadPair, 2)",
        """\
SpecError[level-group]: 2 units of QuadPair make no group
  --> test_group_of_threads.py:12:12
12 |     return Group(QuadPair, 2)
   |            ^^^^^^^^^^^^^^^^^^
fix: group 1 or more of a level whose threads follow each other: Warp, Warpgroup, or such a group""",
    )
