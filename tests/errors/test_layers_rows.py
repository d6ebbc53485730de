"""A layer whose op reads a value for each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, add, layers


def wrong() -> Any:
    x, y, w, r = Matrix(64, 32, name="X"), Matrix(64, 32, name="Y"), Matrix(32, 32, name="W"), Matrix(64, 32, name="R")
    return layers(y, x, (w, add(r)))


def test_layers_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "layer-rows",
        "layers(y, x, (w, add(r)))",
        """\
SpecError[layer-rows]: R[64, 32].f32.GL has a value for each row, and a layer's op reads only tensors of one row
  --> test_layers_rows.py:13:12
13 |     return layers(y, x, (w, add(r)))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give ops tensors of one row: Matrix(1, N), with batch= for a stack""",
    )
