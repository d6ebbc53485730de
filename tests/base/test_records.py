"""Records with some fields changed: as `attrs.evolve` does, whatever the class."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import attrs
import pytest

from fireiron.base.records import evolve


@attrs.frozen(slots=False)
class Plain:
    x: int
    y: tuple[int, ...] = ()
    note: str = attrs.field(default="", eq=False)


@attrs.frozen
class Slotted:
    x: int
    y: tuple[int, ...] = ()


@attrs.frozen(slots=False)
class Keeping:
    x: int
    y: tuple[int, ...] = ()

    @cached_property
    def double(self) -> int:
        return 2 * self.x


@attrs.frozen(slots=False)
class Converting:
    x: int = attrs.field(converter=int)
    y: tuple[int, ...] = ()


@attrs.frozen(slots=False)
class Checking:
    x: int
    y: tuple[int, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


class Derived(Plain):
    """A class below a record's."""


@pytest.mark.parametrize("kind", [Plain, Slotted, Keeping, Converting, Checking, Derived])
def test_it_is_what_attrs_makes(kind: Any) -> None:
    before = kind(1, (2,))
    getattr(before, "double", None)
    after = evolve(before, x=3)
    assert after == attrs.evolve(before, x=3) == kind(3, (2,))
    assert type(after) is kind
    assert before == kind(1, (2,))
    assert getattr(after, "double", 6) == 6
    with pytest.raises(TypeError):
        evolve(before, z=1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        after.x = 4


def test_what_a_class_does_more_is_done() -> None:
    assert evolve(Converting(1), x="3").x == 3
    with pytest.raises(ValueError, match="negative"):
        evolve(Checking(1), x=-1)
    assert evolve(Plain(1, note="here"), x=2).note == "here"
