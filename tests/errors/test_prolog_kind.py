"""A prolog below the epilog that changes the type of the products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import A, Block, matmul, saturate


def wrong() -> Any:
    return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog().prolog(A, saturate("f16"))


def test_prolog_kind(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "accumulator-dtype",
        'prolog(A, saturate("f16"))',
        """\
DecompositionError[accumulator-dtype]: products of f16 do not accumulate in i32, which the epilog above chose for i8
  --> test_prolog_kind.py:12:69
12 |     return matmul(64, 64, 64, "i8").tile(32, 32).to(Block).epilog().prolog(A, saturate("f16"))
   |                                                                     ^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 64x64x64 @ Kernel > tile 32x32 to Block > epilog RF
fix: write prolog above epilog""",
    )
