"""A call whose output overlaps an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    x = np.zeros((64, 64), np.float32)
    return product()(x[:16].reshape(64, 16), np.zeros((16, 64), np.float32), out=x)


def test_arrays_overlap(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "overlap",
        "product()(x[:16].reshape(64, 16), np.zeros((16, 64), np.float32), out=x)",
        """\
CallError[overlap]: C, which is written, overlaps A: [0x..., 0x...) and [0x..., 0x...)
  --> test_arrays_overlap.py:13:12
13 |     return product()(x[:16].reshape(64, 16), np.zeros((16, 64), np.float32), out=x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass an out that shares no memory with A""",
    )
