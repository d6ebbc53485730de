"""A program without windows, given to the schedule of convolutions on CUDA cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import tensor
from fireiron.schedules import conv, rows


def wrong() -> Any:
    return conv.simt(rows.softmax(tensor(64, 64)))


def test_conv_program(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-program",
        "simt(rows.softmax(tensor(64, 64)))",
        """\
FireironError[conv-program]: conv.simt schedules folds that keep images n, their sides and channels, and softmax keeps m
  --> test_conv_program.py:13:17
13 |     return conv.simt(rows.softmax(tensor(64, 64)))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a program of schedules.conv""",
    )
