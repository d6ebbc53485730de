"""A tensor with an extent of 0, given as a number of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fireiron as fi


def wrong() -> Any:
    return fi.tensor(np.int64(0), 4)


def test_tensor_extent_numpy(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-extent",
        "tensor(np.int64(0), 4)",
        """\
SpecError[bad-extent]: an extent is 0
  --> test_tensor_extent_numpy.py:14:15
14 |     return fi.tensor(np.int64(0), 4)
   |               ^^^^^^^^^^^^^^^^^^^^^^
fix: give whole numbers of 1 and more, or symbols""",
    )
