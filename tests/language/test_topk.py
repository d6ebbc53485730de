"""The k largest values of rows: a fold whose state is a small array that is kept in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fireiron as fi
from fireiron import FireironError, Matrix
from fireiron.kernel.lower import ranked_points
from fireiron.language import steps
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


@pytest.mark.parametrize("width", [8, 1200])
def test_what_is_no_number_comes_first(width: int) -> None:
    """As in torch, where NaN is larger than all numbers."""
    x = np.full((2, width), -np.inf, np.float32)
    x[0, :8] = [1, np.nan, 3, -np.inf, np.nan, 2, 0, 0.5]
    values, columns = found(3, width, x)
    np.testing.assert_array_equal(values, [[np.nan, np.nan, 3], [-np.inf] * 3])
    np.testing.assert_array_equal(np.sort(columns), [[1, 2, 4], [0, 1, 2]])


@pytest.mark.parametrize("width", [8, 1200])
def test_where_extremes_lie_as_numpy_has_it(width: int) -> None:
    @fi.program(x="m n")
    def extremes(x: Any) -> Any:
        return fi.argmax(x, "n"), fi.argmin(x, "n")

    x = np.random.default_rng(0).integers(-9, 9, (4, width)).astype(np.float32)
    x[1, 5], x[2, [3, 6]], x[3] = np.nan, np.nan, np.nan
    most, least = np.zeros(4, np.int32), np.zeros(4, np.int32)
    rows.row(extremes(Matrix(4, width), out=("i32", "i32"))).simulate(x, out=(most, least))
    np.testing.assert_array_equal(most, x.argmax(1))
    np.testing.assert_array_equal(least, x.argmin(1))


def _rising(m: int, n: int) -> Any:
    return np.tile(np.arange(n), (m, 1))


def _below_zero(m: int, n: int) -> Any:
    return -5 - abs(np.random.default_rng(1).standard_normal((m, n)))


def _equal(m: int, n: int) -> Any:
    return np.random.default_rng(2).integers(-3, -1, (m, n))


@pytest.mark.parametrize("values", [_rising, _below_zero, _equal])
@pytest.mark.parametrize(
    ("k", "width", "dtype", "plan"),
    [
        (8, 2052, "f32", {}),
        (2, 1100, "f32", {"warps": 1, "blocks": 1}),
        (2, 33000, "f32", {}),
        (4, 1304, "bf16", {"warps": 1, "blocks": 1}),
        (2, 1100, "f16", {"warps": 1, "blocks": 1}),
    ],
)
def test_points_below_a_bound_change_nothing(values: Any, k: int, width: int, dtype: str, plan: dict[str, Any]) -> None:
    """Over several chunks, of which the last lacks points: the zeros in their place are above all values of a row.

    A cluster of two blocks has 33,000 columns. Of 16-bit values many are equal, and pairs are compared at once.
    """
    kinds: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    given = values(2, width).astype(kinds[dtype])
    x = given.astype(np.float32)
    schedule = rows.row(rows.top(Matrix(2, width, dtype), k, out=("f32", "i32")), **plan)
    assert "bound[0]" in schedule.cuda("sm_90a")
    found, columns = np.zeros((2, k), np.float32), np.zeros((2, k), np.int32)
    schedule.simulate(given, out=(found, columns))
    wanted = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, wanted)
    np.testing.assert_array_equal(found, np.take_along_axis(x, wanted, 1))


def test_a_bound_that_is_too_high_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the bound the largest value instead of that of rank k, all but the largest would be passed by."""
    ranking = steps.Ranking
    monkeypatch.setattr(steps, "Ranking", lambda value, _, changes: ranking(value, 1, changes))  # pyright: ignore
    x = np.random.default_rng(3).standard_normal((2, 1100)).astype(np.float32)
    values, _ = found(4, 1100, x)
    assert (values != -np.sort(-x)[:, :4]).any()


@pytest.mark.parametrize("lost", [0, 7])
def test_a_point_that_the_queue_loses_is_seen(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    queued = ranked_points._queued  # pyright: ignore

    def without(step: Any, opened: Any, state: Any, i: int, *rest: Any) -> Any:
        body = queued(step, opened, state, i, *rest)
        return body[:-1] if i == lost else body  # the last statement counts the point

    monkeypatch.setattr(ranked_points, "_queued", without)
    values, _ = found(8, 1100, np.random.default_rng(4).standard_normal((2, 1100)).astype(np.float32))
    whole = np.random.default_rng(4).standard_normal((2, 1100)).astype(np.float32)
    assert (values != -np.sort(-whole)[:, :8]).any()


def test_a_point_is_folded_by_code_that_the_kernel_has_once() -> None:
    """However many vectors a lane loads: a queue of eight points and a rolled loop, for the instruction cache."""
    spec = rows.top(Matrix(4096, 32000, "bf16"), 8, out=("bf16", "i32"))
    texts: list[str] = []
    for chunk in (512, 2048):
        chain = (
            spec.tile(m=1).to(fi.Block).split(n=chunk).online().split("n", ways=1, multiple_of=256).parallel(fi.Warp)
        )
        texts.append(chain.load("x", fi.RF, fi.vector(16)).epilog(memory=fi.RF).done().cuda("sm_90a"))
    for text in texts:
        assert text.count("place[0] < top_15[0]") == 2 + 1  # two scalars that move, and the question whether any does
    assert len(texts[1]) < 1.1 * len(texts[0])


def test_warps_pass_by_points_that_change_nothing(golden: Callable[..., None]) -> None:
    """Votes of a chunk, a group and a queue say whether any lane takes a point; one warp has a row of many rows."""
    schedule = rows.row(rows.top(Matrix(4096, 32000, "bf16"), 2, out=("bf16", "i32")))
    assert ".split n 1024 .load x to SH .split n 1 ways to Warp" in str(schedule)
    golden(schedule.cuda("sm_90a"), "kernel/top_by_bounds.cu")


@pytest.mark.parametrize(("m", "n", "warps"), [(64, 32000, 16), (2, 3000, 2), (400, 32000, 2), (1000, 32000, 1)])
def test_more_warps_have_a_row_where_rows_are_few(m: int, n: int, warps: int) -> None:
    schedule = rows.row(rows.top(Matrix(m, n, "bf16"), 8, out=("bf16", "i32")))
    assert f".split n {warps} ways to Warp" in str(schedule)


def test_clusters_have_rows_where_sms_are_more() -> None:
    schedule = rows.row(rows.top(Matrix(3, 1000000, "bf16"), 8, out=("bf16", "i32")))
    assert ".split n 8 ways to Block .split n 16384 .load x to SH .split n 16 ways to Warp" in str(schedule)


def test_comparisons_are_joined_without_branches() -> None:
    """`||` and choices of choices made 475 instructions a point for k = 8, `|` and `&` make 90."""
    text = rows.row(rows.top(Matrix(64, 4096, "bf16"), 2)).cuda("sm_90")
    inserted = [line for line in text.splitlines() if line.strip().startswith("next[0] =")]
    assert inserted
    assert all(" | " in line and line.count("?") == 1 and "0.0f" not in line for line in inserted), inserted


def test_compiles_for_many_columns() -> None:
    schedule = rows.row(rows.top(Matrix(4096, 4096, "bf16"), 4, out=("bf16", "i32")))
    assert not schedule.compile("sm_90a").resources.spills


@pytest.mark.parametrize("k", [1, 9])
def test_other_numbers_are_refused(k: int) -> None:
    with pytest.raises(FireironError) as caught:
        rows.top(Matrix(4, 64), k)
    assert caught.value.code == "topk-size"
