"""Reduction, the spec of a fold: any op over any dims, as a program that chains and presets take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import FireironError, Matrix, Reduction, Vector, tensor
from fireiron.schedules import reductions, rows


@pytest.mark.parametrize(("op", "of"), [("add", np.sum), ("max", np.max), ("min", np.min), ("mul", np.prod)])
def test_rows(op: Any, of: Any) -> None:
    found = rows.row(Reduction(op, Matrix(6, 64, "f32"), Vector(6, name="y"))).simulate().arrays
    np.testing.assert_allclose(found["y"], of(found["x"].astype(np.float64), axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["i32", "u8", "f32"])
def test_and_or(dtype: str) -> None:
    x = (np.random.default_rng(0).random((8, 96)) < 0.97).astype({"i32": "i4", "u8": "u1", "f32": "f4"}[dtype])
    x[0], x[1], x[2] = 3, 0, 1
    for op, of in (("and", np.all), ("or", np.any)):
        y = np.zeros(8, np.int32)
        rows.row(Reduction(op, Matrix(8, 96, dtype), Vector(8, "i32", name="y"))).simulate(x, out=y)
        np.testing.assert_array_equal(y, of(x, axis=1))
    whole = Reduction("and", Matrix(1, 32786, dtype), Vector(1, "i32", name="y"))
    assert "right" in str(reductions.reduction(whole).simulate())


@pytest.mark.parametrize(("over", "kept"), [((0, 1), (32,)), (1, (4, 32)), ((0, -1), (8,))])
def test_any_dims(over: Any, kept: Any) -> None:
    y = Vector(kept[0], name="y") if len(kept) == 1 else Matrix(*kept, name="y")
    found = reductions.reduction(Reduction("add", tensor(4, 8, 32, dtype="f32", name="a"), y, over)).simulate().arrays
    wanted = found["a"].astype(np.float64).sum(over if isinstance(over, tuple) else (over,))
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-5)


def test_an_op_of_ones_own() -> None:
    spec = Reduction(lambda x, over: fi.max(fi.maximum(x, -x), over), Matrix(6, 64), Vector(6, name="y"))
    found = rows.row(spec).simulate().arrays
    assert (found["y"] == np.abs(found["x"]).max(1)).all()


@pytest.mark.parametrize("over", [2, -3, (0, 5)])
def test_dims_that_are_not_there(over: Any) -> None:
    with pytest.raises(FireironError) as caught:
        Reduction("add", Matrix(4, 8), Vector(4, name="y"), over)
    assert caught.value.code == "fold-over"


def test_results_of_other_extents() -> None:
    with pytest.raises(FireironError) as caught:
        Reduction("add", Matrix(4, 8), Vector(5, name="y"))
    assert caught.value.code == "program-outputs"
