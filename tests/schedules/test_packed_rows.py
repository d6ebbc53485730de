"""Programs on elements of fewer than 8 bits: copies move whole bytes, expressions take elements out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import Matrix, Vector
from fireiron.schedules import pointwise, reductions, rows


@fi.program(x="m n", scale="m")
def dequantised(x: Any, scale: Any) -> Any:
    return x * scale


@fi.program(x="m n")
def counted(x: Any) -> Any:
    return fi.sum(x, "n")


@fi.program(x="m n")
def extremes(x: Any) -> Any:
    return fi.max(x, "n"), fi.argmin(x, "n")


def elements(x: Any, dtype: str) -> Any:
    """Take elements out of their bytes, the first in the lowest bits."""
    if dtype == "b1":
        return np.unpackbits(x.view(np.uint8), axis=-1, bitorder="little").astype(np.int64)
    both = np.stack([x & 15, x >> 4], -1).reshape(len(x), -1).astype(np.int64)
    return (both ^ 8) - 8 if dtype == "i4" else both


@pytest.mark.parametrize("dtype", ["i4", "u4", "b1"])
def test_single_elements(dtype: str) -> None:
    made = pointwise.pointwise(
        dequantised(Matrix(24, 256, dtype, name="x"), Vector(24, "f16", name="scale"), out="f32")
    ).simulate()
    assert "right" in str(made)
    found = made.arrays
    assert (found["y"] == elements(found["x"], dtype) * found["scale"].astype(np.float32)[:, None]).all()


@pytest.mark.parametrize("dtype", ["i4", "u4", "b1"])
def test_folds(dtype: str) -> None:
    few = rows.row(counted(Matrix(9, 320, dtype, name="x"), out="i32")).simulate()
    assert (few.arrays["y"] == elements(few.arrays["x"], dtype).sum(1)).all()
    many = reductions.reduction(counted(Matrix(3, 8192, dtype, name="x"), out="i32")).simulate()
    assert (many.arrays["y"] == elements(many.arrays["x"], dtype).sum(1)).all()
    largest = rows.row(extremes(Matrix(5, 640, dtype, name="x"), out=("i32", "i32"))).simulate()
    wanted = elements(largest.arrays["x"], dtype)
    found = [v for k, v in largest.arrays.items() if k != "x"]
    assert (found[0] == wanted.max(1)).all()
    assert (found[1] == wanted.argmin(1)).all()


def test_the_kernel(golden: Callable[[str, str], None]) -> None:
    made = pointwise.pointwise(dequantised(Matrix(64, 256, "i4", name="x"), Vector(64, "f16", name="scale"), out="f16"))
    golden(made.cuda("sm_90"), "schedules/packed_pointwise.cu")
    found = made.compile("sm_90", cache=False).resources
    assert found.spill_stores == found.spill_loads == found.stack == 0
