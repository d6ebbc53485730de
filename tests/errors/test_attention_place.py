"""The gradient of a bias at subscripts that the score function does not use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules.attention_arrays import of_array

heads, rows, bias = tensor(1, 2, 64, 64, dtype="f16"), tensor(1, 2, 64), tensor(64, 64)


def added(s: Any, i: Any, j: Any, bias: Any) -> Any:
    return s + bias[i, j]


def wrong() -> Any:
    return of_array(heads, heads, heads, heads, rows, rows, array="bias", at=(0, "j"), score=added, bias=bias)


def test_attention_place(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "attention-function",
        'of_array(heads, heads, heads, heads, rows, rows, array="bias", at=(0, "j"), score=added, bias=bias)',
        """\
FireironError[attention-function]: score= does not read bias[0, j]
  --> test_attention_place.py:19:12
19 |     return of_array(heads, heads, heads, heads, rows, rows, array="bias", at=(0, "j"), score=added, bias=bias)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name an array that it reads, and subscripts as the function writes them""",
    )
