"""A kernel without inputs, called without out=."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Init, Matrix, Thread


def wrong() -> Any:
    return Init(Matrix(64, 32, name="Y"), 2.0).tile(16, 16).to(Block).tile(1, 4).to(Thread).unroll().done()()


def test_init_without_out(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-count",
        'Init(Matrix(64, 32, name="Y"), 2.0).tile(16, 16).to(Block).tile(1, 4).to(Thread).unroll().done()()',
        """\
CallError[wrong-count]: wrong_16x16_f32 takes no arrays, and nothing says where its result should lie
  --> test_init_without_out.py:12:12
12 |     return Init(Matrix(64, 32, name="Y"), 2.0).tile(16, 16).to(Block).tile(1, 4).to(Thread).unroll().done()()
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: pass the array to write as out=""",
    )
