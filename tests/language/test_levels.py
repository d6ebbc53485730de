"""Which levels lie inside which, and groups of units."""

from __future__ import annotations

import pytest

from fireiron import Block, Group, Kernel, QuadPair, Thread, Warp, Warpgroup
from fireiron.language.levels import LEVELS


def test_every_level_lies_inside_those_above_it() -> None:
    for i, outer in enumerate(LEVELS):
        for j, inner in enumerate(LEVELS):
            assert inner.is_inside(outer) == (i < j), (inner, outer)


@pytest.mark.parametrize("inner", [Thread, QuadPair, Warp, Warpgroup, Group(Warp, 2), Group(Warpgroup, 2)], ids=str)
def test_what_lies_inside_a_group(inner: object) -> None:
    group = Group(Warp, 16)
    assert inner.is_inside(group)  # type: ignore[attr-defined]
    assert not group.is_inside(inner)  # type: ignore[arg-type]


def test_groups_that_do_not_divide_each_other() -> None:
    assert not Group(Warp, 3).is_inside(Warpgroup)
    assert not Group(Warp, 2).is_inside(Group(Warp, 3))
    assert not Group(Warp, 3).is_inside(Group(Warp, 3))
    assert Group(Warp, 3).is_inside(Block)
    assert Group(Warp, 3).is_inside(Kernel)


def test_groups_by_name_and_size() -> None:
    assert Group(Warp, 4) is Warpgroup
    assert Group(Warp, 1) is Warp
    assert (str(Group(Warp, 3)), Group(Warp, 3).size) == ("Group(Warp, 3)", 96)
    assert Group(Warp, 3) == Group(Warp, 3)
    assert Group(Warpgroup, 2).size == 256
