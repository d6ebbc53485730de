"""store= for an output that the program does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, Matrix, conform
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return softmax(Matrix(64, 64)).tile(m=4).to(Block).epilog(memory=FR, store={"z": conform()})


def test_epilog_store(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "epilog-store",
        'epilog(memory=FR, store={"z": conform()})',
        """\
DecompositionError[epilog-store]: store= names 'z', which is no output
  --> test_epilog_store.py:13:56
13 |     return softmax(Matrix(64, 64)).tile(m=4).to(Block).epilog(memory=FR, store={"z": conform()})
   |                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 4 to Block
fix: outputs: y""",
    )
