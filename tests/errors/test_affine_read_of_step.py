"""A step's result that another step reads at other dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Thread


@fi.program(x="m n")
def gram(x: Any) -> Any:
    twice = (x * 2.0).named("twice")
    return fi.einsum("ik,jk->ij", twice, twice)


def wrong() -> Any:
    return gram(Matrix(64, 32)).tile(i=16, j=16).to(Block).tile(i=1, j=1).to(Thread).split(k=1).done()


def test_affine_read_of_step(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "affine-read",
        "done()",
        """\
DecompositionError[affine-read]: step product reads twice[i, k], and step twice computes twice[m, n]
  --> test_affine_read_of_step.py:19:97
19 |     return gram(Matrix(64, 32)).tile(i=16, j=16).to(Block).tile(i=1, j=1).to(Thread).split(k=1).done()
   |                                                                                                 ^^^^^^
at:  Program 64x32x64x64x32 @ Kernel > tile 16x16 to Block > tile 1x1 to Thread > split k 1
fix: let step product read it at these dims, or compute twice by a kernel of its own""",
    )
