"""Two arrays with different extents for one dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix, Vector


@fi.program(x="m n", gain="n")
def function(x: Any, gain: Any) -> Any:
    return x * gain


def wrong() -> Any:
    return function(Matrix(64, 256), Vector(100, name="gain"))


def test_dim_extents(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "dim-extents",
        'function(Matrix(64, 256), Vector(100, name="gain"))',
        """\
SpecError[dim-extents]: dim n has the extents 256 and 100
  --> test_dim_extents.py:18:12
18 |     return function(Matrix(64, 256), Vector(100, name="gain"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both arrays the same extent, or name the dims differently""",
    )
