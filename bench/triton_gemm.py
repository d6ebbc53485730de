"""Triton as a peer: a tiled product with bias and relu, tuned by Triton's autotuner over the usual configurations."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import attrs

from .arrays import Arrays
from .cases import Case
from .subjects import Launch, Prepared, Rough, needs_gpu, not_installed, unsupported

DTYPES = ("f16", "bf16", "i8")
# rows, columns, depth, stages, warps
CONFIGURATIONS = (
    (128, 256, 64, 3, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 4), (128, 128, 64, 3, 8), (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4), (64, 64, 64, 5, 4), (64, 32, 128, 5, 4), (16, 64, 128, 5, 4), (16, 128, 128, 4, 4),
)  # fmt: skip


@attrs.frozen
class Triton:
    """Time a Triton kernel."""

    name: str = "triton"
    ours: bool = False

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Let Triton tune, and bind the arrays."""
        needs_gpu(self.name, arrays)
        if case.types[0].name not in DTYPES or case.batch is not None or not {"bias", "relu"}.issuperset(case.steps):
            raise unsupported(self.name, case)
        kernel, triton = _kernel()

        def grid(chosen: dict[str, Any]) -> tuple[int]:
            return (triton.cdiv(case.m, chosen["BM"]) * triton.cdiv(case.n, chosen["BN"]),)

        def launch(found: Arrays) -> Launch:
            a, b, c = found.a, found.b, found.out
            strides = (*a.stride(), *b.stride(), *c.stride())
            row = c if found.bias is None else found.bias
            steps = {"BIAS": found.bias is not None, "RELU": "relu" in case.steps}
            return lambda: kernel[grid](a, b, c, row, case.m, case.n, case.k, *strides, **steps)

        return Prepared(launch, f"Triton {triton.__version__}, {len(CONFIGURATIONS)} configurations")


@cache
def _kernel() -> tuple[Any, Any]:
    """Build the kernel once.

    Raises:
        CompileError: `not-installed`.
    """
    try:
        triton: Any = import_module("triton")
    except ImportError as error:
        raise not_installed("triton", error) from None
    kernel = import_module(f"{__package__}.triton_kernel").kernel
    made = [
        triton.Config({"BM": m, "BN": n, "BK": k}, num_stages=stages, num_warps=warps)
        for m, n, k, stages, warps in CONFIGURATIONS
    ]
    return triton.autotune(configs=made, key=["M", "N", "K", "BIAS", "RELU"])(kernel), triton
