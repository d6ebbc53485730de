"""A layer whose weights have another number of rows than the layer before has columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, layers


def wrong() -> Any:
    x, y = Matrix(64, 32, name="X"), Matrix(64, 32, name="Y")
    return layers(y, x, Matrix(32, 64, name="W1"), Matrix(32, 32, name="W2"))


def test_layers_width(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shape-mismatch",
        'layers(y, x, Matrix(32, 64, name="W1"), Matrix(32, 32, name="W2"))',
        """\
SpecError[shape-mismatch]: width of W1 and rows of W2 differ: 64 and 32
  --> test_layers_width.py:13:12
13 |     return layers(y, x, Matrix(32, 64, name="W1"), Matrix(32, 32, name="W2"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give both the same extent""",
    )
