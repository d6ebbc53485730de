"""A product of f32, given to a preset for tensor cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import ampere


def wrong() -> Any:
    return ampere.gemm(matmul(256, 256, 256))


def test_element_types(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "done(family)",
        """\
DecompositionError[no-atom]: no atom executes MatMul(16, 8, 8)(FR, FR, FR)(Warp): nearest: mma.m16n8k8.f32.f16 (it takes A in f16, not f32, it takes B in f16, not f32); mma.m16n8k8.f32.bf16 (it takes A in bf16, not f32, it takes B in bf16, not f32); mma.m16n8k8.f32.tf32 (it takes A in tf32, not f32, it takes B in tf32, not f32)
   --> _tensor_cores.py:185:80
185 |     return (chain if sizes.step == atom[2] else chain.split(atom[2]).unroll()).done(family)
    |                                                                                ^^^^^^^^^^^^
called from test_element_types.py:13:19
 13 |     return ampere.gemm(matmul(256, 256, 256))
    |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 256x256x256 @ Kernel > tile 128x256 to Block > epilog > split 16 > load A to SH > load B to SH > tile 64x64 to Warp > split 8 > load A to FR > load B to FR > tile 16x8
fix: state the product in f16, bf16 or tf32, or convert by load(..., dtype=...)""",  # noqa: E501
    )
