"""Every finite 16-bit float through the operations on pairs: the bits of single ones, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiling import compiled

from fireiron import A, matmul, maximum, minimum, relu
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.schedules import ampere, hopper

DEPTH = 64
EITHER: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu": (relu, lambda x: np.maximum(x, 0)),
    "clamp": (lambda x: minimum(maximum(x, -1.5), 0.25), lambda x: np.clip(x, -1.5, 0.25)),
    "neg": (lambda x: -x, lambda x: -x),
    "abs": (lambda x: abs(x), np.abs),
}
HALVES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "add": (lambda x: x + 0.75, lambda x: x + np.float16(0.75)),
    "sub": (lambda x: x - 3.0, lambda x: x - np.float16(3)),
    "mul": (lambda x: x * 0.37, lambda x: x * np.float16(0.37)),
    "several": (lambda x: abs(x * 0.37 - 1.0), lambda x: np.abs(x * np.float16(0.37) - np.float16(1))),
}


@pytest.mark.parametrize("preset", [hopper, ampere])
@pytest.mark.parametrize(
    ("dtype", "name"), [*(("f16", name) for name in (*EITHER, *HALVES)), *(("bf16", name) for name in EITHER)]
)
def test_all_finite_numbers(preset: Any, dtype: str, name: str) -> None:
    op, numpy = {**EITHER, **HALVES}[name]
    kind = find_dtype(dtype).numpy
    every = np.arange(2**16, dtype=np.uint16).view(kind).astype(np.float32)
    every = np.where(np.isfinite(every), every, 0).astype(kind).reshape(-1, DEPTH)
    one = np.eye(DEPTH, dtype=np.float32).astype(kind)
    spec = matmul(*every.shape[:1], DEPTH, DEPTH, dtype, layout="TN", out="f32").prolog(A, op)
    kernel = compiled(preset.gemm(spec))
    assert "_pair(" in kernel.source
    found = np.asarray(kernel(every, one), np.float32)
    with np.errstate(over="ignore"):
        wanted = np.asarray(numpy(every)).astype(np.float32)
    finite = np.isfinite(wanted)  # an infinite sum's other terms are 0 times infinity
    rows = finite.all(axis=1)
    assert rows.mean() > 0.9
    assert np.array_equal(found[rows], wanted[rows])
