"""A chain for a product step whose factor is the result of a fold by threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi
from fireiron import Block, Matrix, Thread, tensor


@fi.program(x="m n k", u="n e")
def computed(x: Any, u: Any) -> Any:
    return fi.einsum("mn,ne->me", fi.max(x, "k"), u, name="o")


def wrong() -> Any:
    made = computed(tensor(32, 8, 16), Matrix(8, 16)).tile(m=16).to(Block)
    return made.each(o=lambda o: o.split(n=1).tile(1, 1).to(Thread).done())


def test_each_factor(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "each-factor",
        "each(o=lambda o: o.split(n=1).tile(1, 1).to(Thread).done())",
        """\
DecompositionError[each-factor]: step o takes largest[m, n] by an atom, and no step at this place leaves it in registers
  --> test_each_factor.py:19:17
19 |     return made.each(o=lambda o: o.split(n=1).tile(1, 1).to(Thread).done())
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  Program 32x8x16x16 @ Kernel > tile 16 to Block
fix: give the step that folds it a chain in each(...) too, or remove this step's chain""",
    )
