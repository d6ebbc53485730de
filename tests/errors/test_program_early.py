"""early= for an array that products read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, tensor
from fireiron.schedules import conv


def wrong() -> Any:
    x, f = tensor(2, 8, 8, 64, dtype="f16"), tensor(64, 3, 3, 64, dtype="f16", name="f")
    chain = conv.conv2d(x, f, tensor(64, name="bias")).tile(n=1, p=6, q=6, k=64).to(Block)
    return chain.epilog(early=("bias", "f"))


def test_program_early(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-early",
        'epilog(early=("bias", "f"))',
        """\
DecompositionError[epilog-early]: f is no input that only steps behind the folds of conv2d read
  --> test_program_early.py:15:18
15 |     return chain.epilog(early=("bias", "f"))
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 2x6x6x64x3x3x64 @ Kernel > tile 1x6x6x64 to Block
fix: early=('bias',)""",
    )
