"""AKG's schedule for a program that is no convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import akg, conv


def wrong() -> Any:
    return akg.conv(conv.max_pool2d(tensor(1, 8, 8, 16, dtype="f16"), 2))


def test_akg_program(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-product",
        'conv(conv.max_pool2d(tensor(1, 8, 8, 16, dtype="f16"), 2))',
        """\
FireironError[conv-product]: akg.conv schedules conv2d without groups, not max_pool2d
  --> test_akg_program.py:13:16
13 |     return akg.conv(conv.max_pool2d(tensor(1, 8, 8, 16, dtype="f16"), 2))
   |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give conv.conv2d(...) of f16 arrays""",
    )
