"""done(atom) of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Matrix, Thread
from fireiron.schedules.rows import softmax


def wrong() -> Any:
    return softmax(Matrix(64, 64)).tile(m=32).to(Block).tile(m=1).to(Thread).done("fma")


def test_wrong_spec_atom(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "wrong-spec",
        'done("fma")',
        """\
DecompositionError[wrong-spec]: Program 1x64 takes no atom: threads compute its points
  --> test_wrong_spec_atom.py:13:78
13 |     return softmax(Matrix(64, 64)).tile(m=32).to(Block).tile(m=1).to(Thread).done("fma")
   |                                                                              ^^^^^^^^^^^
at:  Program 64x64 @ Kernel > tile 32 to Block > tile 1 to Thread
fix: done()""",
    )
