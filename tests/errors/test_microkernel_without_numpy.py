"""The simulation of a microkernel without a NumPy function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul, microkernel


def wrong() -> Any:
    dot = microkernel("for (int k = 0; k < K; ++k) C[0] += A[k * A_col] * B[k * B_row];", name="dot")
    return matmul(16, 16, 16).tile(16, 16).to(Block).tile(1, 1).to(Thread).done(dot).simulate()


def test_microkernel_without_numpy(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "microkernel-numpy",
        "done(dot)",
        """\
SimulationError[microkernel-numpy]: dot in `MatMul(1, 1, 16)(GL, GL, GL)(Thread) by dot`: the microkernel dot has CUDA C++ and no NumPy function, which the simulator needs
  --> test_microkernel_without_numpy.py:13:76
13 |     return matmul(16, 16, 16).tile(16, 16).to(Block).tile(1, 1).to(Thread).done(dot).simulate()
   |                                                                            ^^^^^^^^^
at:  MatMul 16x16x16 @ Kernel > tile 16x16 to Block > tile 1x1 to Thread > done
fix: give it a meaning: microkernel(source, numpy=lambda A, B, C: ...)""",  # noqa: E501
    )
