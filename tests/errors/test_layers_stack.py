"""A stack of layers that are not square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, layers


def wrong() -> Any:
    x, y = Matrix(64, 32, name="X"), Matrix(64, 64, name="Y")
    return layers(y, x, Matrix(32, 64, name="W", batch=3))


def test_layers_stack(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        'layers(y, x, Matrix(32, 64, name="W", batch=3))',
        """\
SpecError[shape-mismatch]: rows and columns of the stack W differ: 32 and 64
  --> test_layers_stack.py:13:12
13 |     return layers(y, x, Matrix(32, 64, name="W", batch=3))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both the same extent""",
    )
