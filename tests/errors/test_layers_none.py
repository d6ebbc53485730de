"""layers() without a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Matrix, layers


def wrong() -> Any:
    return layers(Matrix(64, 32, name="Y"), Matrix(64, 32, name="X"))


def test_layers_none(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-layers",
        'layers(Matrix(64, 32, name="Y"), Matrix(64, 32, name="X"))',
        """\
SpecError[no-layers]: no layer leads from x to out
  --> test_layers_none.py:12:12
12 |     return layers(Matrix(64, 32, name="Y"), Matrix(64, 32, name="X"))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give weights: layers(y, x, w)""",
    )
