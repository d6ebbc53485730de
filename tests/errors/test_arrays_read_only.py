"""A call with a read-only array as output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def wrong(product: Callable[..., Any]) -> Any:
    out = np.zeros((64, 64), np.float32)
    out.flags.writeable = False
    return product()(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32), out=out)


def test_arrays_read_only(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "read-only",
        "product()(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32), out=out)",
        """\
CallError[read-only]: C is written, and its array is read-only
  --> test_arrays_read_only.py:14:12
14 |     return product()(np.zeros((64, 16), np.float32), np.zeros((16, 64), np.float32), out=out)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass a writable array for C""",
    )
