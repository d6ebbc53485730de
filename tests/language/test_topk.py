"""The k largest values of rows: a fold whose state is a small array that is kept in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, Matrix
from fireiron.schedules import rows


def found(k: int, width: int, x: Any) -> tuple[Any, Any]:
    schedule = rows.row(rows.top(Matrix(len(x), width), k, out=("f32", "i32")))
    values, columns = np.zeros((len(x), k), np.float32), np.zeros((len(x), k), np.int32)
    schedule.simulate(x, out=(values, columns))
    return values, columns


@pytest.mark.parametrize(("k", "width"), [(2, 1200), (3, 100), (8, 40)])
def test_as_a_stable_sort_finds_them(k: int, width: int) -> None:
    """Whole numbers, of which many are equal: the first of them come first, over lanes and warps."""
    x = np.random.default_rng(0).integers(0, 5, (3, width)).astype(np.float32)
    values, columns = found(k, width, x)
    wanted = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


def test_a_number_that_is_none_is_never_found() -> None:
    x = np.array([[1, np.nan, 3, -np.inf, np.nan, 2, 0, 0.5]], np.float32)
    values, columns = found(3, 8, x)
    assert (values.tolist(), columns.tolist()) == ([[3, 2, 1]], [[2, 5, 0]])


def test_compiles_for_many_columns() -> None:
    schedule = rows.row(rows.top(Matrix(4096, 4096, "bf16"), 4, out=("bf16", "i32")))
    assert not schedule.compile("sm_90a").resources.spills


@pytest.mark.parametrize("k", [1, 9])
def test_other_numbers_are_refused(k: int) -> None:
    with pytest.raises(FireironError) as caught:
        rows.top(Matrix(4, 64), k)
    assert caught.value.code == "topk-size"
