"""An einsum with different extents for one letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m k", w="k n")
def function(x: Any, w: Any) -> Any:
    return fi.einsum("mk,nk->mn", x, w)


def wrong() -> Any:
    return function(Matrix(64, 32), Matrix(32, 16))


def test_dim_extents_subscripts(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "dim-extents",
        'einsum("mk,nk->mn", x, w)',
        """\
SpecError[dim-extents]: dim n has the extents 16 and 32
  --> test_dim_extents_subscripts.py:14:15
14 |     return fi.einsum("mk,nk->mn", x, w)
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both arrays the same extent, or name the dims differently""",
    )
