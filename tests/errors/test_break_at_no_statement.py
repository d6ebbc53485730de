"""A simulation that should stop at a statement that the kernel does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrong(product: Callable[..., Any]) -> Any:
    return product().simulate(break_at="ldmatrix")


def test_break_at_no_statement(refused: Callable[..., Any], product: Callable[..., Any]) -> None:
    refused(
        lambda: wrong(product),
        "no-such-moment",
        'simulate(break_at="ldmatrix")',
        """\
UsageError[no-such-moment]: no statement of make_32x32x8_f32 is named 'ldmatrix'
  --> test_break_at_no_statement.py:10:22
10 |     return product().simulate(break_at="ldmatrix")
   |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name one of: Init(0)(RF)(Block), load A to a_sh, load B to b_sh, load a_sh to a_rf, load b_sh to b_rf, MatMul(4, 2, 8)(SH, SH, RF)(Thread), store C""",  # noqa: E501
    )
