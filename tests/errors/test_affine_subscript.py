"""A subscript that is a product of two dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Matrix


@fi.program(x="m n")
def function(x: Any) -> Any:
    return fi.sum(x[:, fi.index("m") * fi.index("n")], "n")


def wrong() -> Any:
    return function(Matrix(64, 64))


def test_affine_subscript(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "affine-subscript",
        'x[:, fi.index("m") * fi.index("n")]',
        """\
SpecError[affine-subscript]: the subscript m * n is not affine in dims
  --> test_affine_subscript.py:14:19
14 |     return fi.sum(x[:, fi.index("m") * fi.index("n")], "n")
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use sums of index("i") times a number, with // and % by numbers; `:` keeps a dimension""",
    )
