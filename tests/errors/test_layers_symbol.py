"""A layer whose width is a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, layers, symbol


def wrong() -> Any:
    n = symbol("N")
    return layers(Matrix(64, n, name="Y"), Matrix(64, n, name="X"), Matrix(n, n, name="W"))


def test_layers_symbol(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "symbolic-width",
        'layers(Matrix(64, n, name="Y"), Matrix(64, n, name="X"), Matrix(n, n, name="W"))',
        """\
SpecError[symbolic-width]: a layer's width N is not known
  --> test_layers_symbol.py:13:12
13 |     return layers(Matrix(64, n, name="Y"), Matrix(64, n, name="X"), Matrix(n, n, name="W"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give layers numbers; rows may be symbols""",
    )
