"""A tensor whose strides are one number instead of a tuple."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor


def wrong() -> Any:
    return tensor(8, 64, strides=64)


def test_tensor_strides_kind(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "argument-kind",
        "tensor(8, 64, strides=64)",
        """\
SpecError[argument-kind]: strides= takes a tuple (a number or an index expression each), not 64
  --> test_tensor_strides_kind.py:12:12
12 |     return tensor(8, 64, strides=64)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a tuple (a number or an index expression each)""",
    )
