"""A product of tf32, given to a preset for f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import matmul
from fireiron.schedules import ampere


def wrong() -> Any:
    return ampere.gemm_tf32x3(matmul(128, 128, 128, "tf32"))


def test_preset_type(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "preset-type",
        'gemm_tf32x3(matmul(128, 128, 128, "tf32"))',
        """\
FireironError[preset-type]: ampere.gemm_tf32x3 multiplies f32 by products of its parts, not tf32 and tf32
  --> test_preset_type.py:13:19
13 |     return ampere.gemm_tf32x3(matmul(128, 128, 128, "tf32"))
   |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use ampere.gemm, or hopper.gemm, for types that tensor cores multiply themselves""",
    )
