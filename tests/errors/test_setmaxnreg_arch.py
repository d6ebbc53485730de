"""Register budgets of roles on sm_100; they need sm_100a."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import FR, Block, matmul


def wrong() -> Any:
    return (
        matmul(512, 512, 512, "f16", arch="sm_100")
        .tile(128, 128)
        .to(Block)
        .epilog(memory=FR)
        .split(64)
        .specialize(registers=(24, 240))
    )


def test_setmaxnreg_arch(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "specialize(registers=(24, 240))",
        """\
DecompositionError[arch]: register budgets of roles need sm_100a, not sm_100
  --> test_setmaxnreg_arch.py:18:10
18 |         .specialize(registers=(24, 240))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64
fix: drop registers=, or compile for that target: its suffix a is what adds them""",
    )
