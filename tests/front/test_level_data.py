"""Data whose exponentials are 0 or 1: for which keys it is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

import fireiron as fi
from fireiron.schedules import attention
from fireiron.verify.level_data import level_arrays


def drawn(program: Any) -> dict[str, Any]:
    """Draw the arrays of a program of constant sizes."""
    shapes = {t.name: tuple(int(n) for n in t.shape) for t in program.inputs}
    return level_arrays(program, shapes, np.random.default_rng(0))


def test_keys_that_are_lines_of_their_own_are_drawn() -> None:
    q, k, v = (fi.tensor(1, 2, 16, 8, dtype="f16", name=name) for name in "qkv")
    assert set(drawn(attention.attention(q, k, v).computed)) == {"q", "k", "v"}


def test_lines_of_pages_are_not_drawn() -> None:
    """Key j lies in line j % 4 of a page: several keys share the line, so no line can be one key's."""
    q = fi.tensor(2, 2, 1, 1, 8, dtype="f16", name="q")
    k, v = (fi.tensor(9, 2, 4, 8, dtype="f16", name=name) for name in "kv")
    pages = fi.tensor(2, 4, dtype="i32", name="pages")
    assert drawn(attention.paged.on(q="b h g i d")(q, k, v, pages).computed) == {}
