"""A record of a tensor with two extents and one stride."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Tensor, f32


def wrong() -> Any:
    return Tensor("x", (4, 4), f32, (1,))


def test_tensor_rank(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "tensor-rank",
        'Tensor("x", (4, 4), f32, (1,))',
        """\
SpecError[tensor-rank]: x has 2 extents and 1 strides
  --> test_tensor_rank.py:12:12
12 |     return Tensor("x", (4, 4), f32, (1,))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give 1 to 6 extents, and a stride for each""",
    )
