"""An unknown activation of a convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fireiron import conv2d


def wrong() -> Any:
    return conv2d(np.ones((1, 8, 5, 5), np.float32), np.ones((8, 8, 3, 3), np.float32), activation="softmax")


def test_bad_activation(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bad-activation",
        'conv2d(np.ones((1, 8, 5, 5), np.float32), np.ones((8, 8, 3, 3), np.float32), activation="softmax")',
        """\
CallError[bad-activation]: no activation is called 'softmax'
  --> test_bad_activation.py:14:12
14 |     return conv2d(np.ones((1, 8, 5, 5), np.float32), np.ones((8, 8, 3, 3), np.float32), activation="softmax")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use one of relu, gelu, gelu_tanh, silu, sigmoid, tanh""",
    )
