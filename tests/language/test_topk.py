"""The k largest values of rows: a fold whose state is a small array that is kept in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest

import fireiron as fi
from fireiron import FireironError, Matrix
from fireiron.algebra.dtypes import f32, i32
from fireiron.algebra.expr import as_expr, as_int
from fireiron.algebra.scalar import Arg, substituted
from fireiron.front import verbs
from fireiron.kernel.lower import ranked_points
from fireiron.kernel.lower.folds import ranked
from fireiron.language import folds
from fireiron.schedules import rows
from fireiron.simulate import votes


def _forget() -> None:
    verbs._lowered.cache_clear()  # pyright: ignore
    verbs._assembled.cache_clear()  # pyright: ignore


@pytest.fixture(autouse=True)
def _lowered_anew() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Keep no kernel that a test broke."""
    yield
    _forget()


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


@pytest.mark.product
@pytest.mark.parametrize("values", [_rising, _below_zero, _equal])
@pytest.mark.parametrize(
    ("k", "width", "dtype", "plan"),
    [
        (8, 2052, "f32", {}),
        (2, 1100, "f32", {"warps": 1, "blocks": 1}),
        pytest.param(2, 33000, "f32", {}, marks=pytest.mark.exhaustive),
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


def _stable(x: Any, k: int) -> Any:
    """Sort columns by their values, NaN first, and list the first k; equal values keep their order."""
    y = x.astype(np.float64)
    return np.lexsort((-np.nan_to_num(y, nan=0.0), ~np.isnan(y)), axis=1)[:, :k]


def _not_numbers(m: int, n: int) -> Any:
    """More NaN than the list keeps, then a row of nothing else."""
    x = np.random.default_rng(5).standard_normal((m, n))
    x[0, :: n // 20], x[1] = np.nan, np.nan
    return x


def _infinite(m: int, n: int) -> Any:
    """Fewer numbers than the list keeps; the others are the lowest value, that of missing points."""
    x = np.full((m, n), -np.inf)
    x[0, [n // 3, n - 1]] = 1.0, np.inf
    return x


def _zeros(m: int, n: int) -> Any:
    """Zeros of both signs, which are equal."""
    return np.where(np.random.default_rng(6).integers(0, 2, (m, n)), 0.0, -0.0)


def _same(m: int, n: int) -> Any:
    return np.full((m, n), -2.5)


def _falling(m: int, n: int) -> Any:
    return -_rising(m, n)


@pytest.mark.product
@pytest.mark.parametrize("values", [_rising, _falling, _not_numbers, _infinite, _zeros, _same])
@pytest.mark.parametrize(("k", "width"), [(8, 260), (3, 1500), pytest.param(8, 4100, marks=pytest.mark.exhaustive)])
def test_rows_that_are_hard_for_a_list(values: Any, k: int, width: int) -> None:
    """Every point enters the list, or none is above the bound, or no bound is a number."""
    x = values(2, width).astype(np.float32)
    found_, columns = found(k, width, x)
    wanted = _stable(x, k)
    np.testing.assert_array_equal(columns, wanted)
    np.testing.assert_array_equal(found_, np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize(("width", "plan"), [(5, {}), (40, {"warps": 1}), (300, {"warps": 4})])
def test_rows_with_fewer_points_than_lanes_or_values(width: int, plan: dict[str, Any]) -> None:
    x = np.random.default_rng(7).integers(-3, 3, (3, width)).astype(np.float32)
    schedule = rows.row(rows.top(Matrix(3, width), 8, out=("f32", "i32")), **plan)
    values, columns = np.zeros((3, 8), np.float32), np.zeros((3, 8), np.int32)
    schedule.simulate(x, out=(values, columns))
    wanted, many = np.argsort(-x, axis=1, kind="stable")[:, :8], min(8, width)
    np.testing.assert_array_equal(columns[:, :many], wanted)
    assert (values[:, many:] == -np.inf).all()
    assert (columns[:, many:] == 2**31 - 1).all()


def test_whole_numbers_are_ranked() -> None:
    @fi.program(x="m n")
    def largest(x: Any) -> Any:
        return fi.topk(x, "n", 4)

    x = np.random.default_rng(8).integers(-(2**31), 2**31, (2, 1200)).astype(np.int32)
    x[0, :] = -(2**31)  # the lowest value, that of missing points
    schedule = rows.row(largest(Matrix(2, 1200, "i32"), out=("i32", "i32")))
    values, columns = np.zeros((2, 4), np.int32), np.zeros((2, 4), np.int32)
    schedule.simulate(x, out=(values, columns))
    wanted = np.argsort(-x.astype(np.int64), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(columns, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


def _wrong(k: int = 8, width: int = 4100, warps: int = 1, blocks: int = 1) -> bool:
    """Say whether any of the values of two random rows is wrong, in a kernel that is lowered anew."""
    _forget()
    x = np.random.default_rng(4).standard_normal((2, width)).astype(np.float32)
    schedule = rows.row(rows.top(Matrix(2, width), k, out=("f32", "i32")), warps=warps, blocks=blocks)
    values, columns = np.zeros((2, k), np.float32), np.zeros((2, k), np.int32)
    schedule.simulate(x, out=(values, columns))
    wanted = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return bool((columns != wanted).any() or (values != np.take_along_axis(x, wanted, 1)).any())


def _of_the_first_lane(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make a part of a list read the first rank where it reads the last."""
    part, shuffled = getattr(ranked.Ranked, name), ranked.Ranked._shuffled  # pyright: ignore
    inside: list[str] = []

    def within(self: Any, *given: Any) -> Any:
        inside.append(name)
        try:
            return part(self, *given)
        finally:
            inside.pop()

    def read(self: Any, pairs: Any, lane: Any) -> Any:
        return shuffled(self, pairs, as_expr(0) if inside and as_int(lane) == self.ranking.count - 1 else lane)

    monkeypatch.setattr(ranked.Ranked, name, within)
    monkeypatch.setattr(ranked.Ranked, "_shuffled", read)


@pytest.mark.parametrize("name", ["raised", "_bounded"])
def test_a_bound_that_is_too_high_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Were the bound the largest value instead of that of rank k, all but the largest would be passed by."""
    assert not _wrong()
    _of_the_first_lane(monkeypatch, name)
    assert _wrong()


def test_a_comparison_in_the_wrong_direction_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = folds.Ranking

    def turned(count: int, before: Any) -> Any:
        points = (Arg(2, f32), Arg(3, i32), Arg(0, f32), Arg(1, i32))
        return ranking(count, substituted(before, points))

    monkeypatch.setattr(folds, "Ranking", turned)
    assert _wrong()


def _trips(x: Any) -> int:
    """Count the points that a warp inserts into its list."""
    counted: list[int] = []
    once = votes._counted  # pyright: ignore

    def count(statement: Any, flags: Any) -> Any:
        if statement.var.name.startswith("first"):
            counted.append(int(flags.any()))
        return once(statement, flags)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(votes, "_counted", count)
        _forget()
        schedule = rows.row(rows.top(Matrix(len(x), x.shape[1]), 8, out=("f32", "i32")), warps=1, blocks=1)
        schedule.simulate(x, out=(np.zeros((len(x), 8), np.float32), np.zeros((len(x), 8), np.int32)))
    return sum(counted)


def test_a_list_takes_few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that never rises is seen: the results would be right, by ten times as many insertions."""
    x = np.random.default_rng(9).standard_normal((1, 8192)).astype(np.float32)
    few = _trips(x)
    assert few < 60  # 8 (1 + log(8192 / 1024)) and a few
    assert _trips(np.full((1, 8192), -2.5, np.float32)) < 60  # equal values behind the list's do not enter it
    monkeypatch.setattr(ranked.Ranked, "_bounded", lambda self: ())  # pyright: ignore
    monkeypatch.setattr(ranked.Ranked, "raised", lambda self, best: ())  # pyright: ignore
    assert _trips(x[:, :2048]) > 10 * few


def test_a_group_that_is_not_visited_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    visited = ranked_points._visited  # pyright: ignore

    def without(groups: int, *rest: Any) -> Any:
        *body, loop = visited(groups, *rest)
        return (*body, attrs.evolve(loop, extent=as_expr(1)))

    monkeypatch.setattr(ranked_points, "_visited", without)
    assert _wrong()


def test_points_beyond_the_end_of_a_row_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros lie there, which are larger than all values of a row."""
    monkeypatch.setattr(ranked_points, "exists", lambda *_: None)  # pyright: ignore
    x = _below_zero(2, 1100).astype(np.float32)
    values, _ = found(4, 1100, x)
    assert (values != -np.sort(-x)[:, :4]).any()


@pytest.mark.parametrize(("warps", "blocks"), [(4, 1), (2, 4)])
def test_a_list_that_is_not_merged_is_seen(monkeypatch: pytest.MonkeyPatch, warps: int, blocks: int) -> None:
    """The lists of a block's warps, and of a cluster's blocks, pass through shared memory."""
    assert not _wrong(warps=warps, blocks=blocks)
    monkeypatch.setattr(ranked.Ranked, "merged", lambda self, other: ())  # pyright: ignore
    assert _wrong(warps=warps, blocks=blocks)


def test_a_point_is_inserted_by_code_that_does_not_grow_with_the_chunk() -> None:
    """However many vectors a lane loads: a queue of eight points and a rolled loop, for the instruction cache."""
    spec = rows.top(Matrix(4096, 32000, "bf16"), 8, out=("bf16", "i32"))
    texts: list[str] = []
    for chunk in (512, 2048):
        chain = (
            spec.tile(m=1).to(fi.Block).split(n=chunk).online().split("n", ways=1, multiple_of=256).parallel(fi.Warp)
        )
        texts.append(chain.load("x", fi.RF, fi.vector(16)).epilog(memory=fi.RF).done().cuda("sm_90a"))
    for text in texts:
        assert text.count("came_at[0] < kept_at[0]") == 1
    assert len(texts[1]) < 1.1 * len(texts[0])


def test_warps_pass_by_points_that_change_nothing(golden: Callable[..., None]) -> None:
    """Votes of a chunk, a group and a place of the queue; one warp has a row of many rows."""
    schedule = rows.row(rows.top(Matrix(4096, 32000, "bf16"), 2, out=("bf16", "i32")))
    assert ".split n 2048 .load x to SH .split n 1 ways to Warp" in str(schedule)
    golden(schedule.cuda("sm_90a"), "kernel/top_by_bounds.cu")


@pytest.mark.parametrize(("m", "n", "warps"), [(64, 32000, 16), (2, 3000, 2), (400, 32000, 2), (1000, 32000, 1)])
def test_more_warps_have_a_row_where_rows_are_few(m: int, n: int, warps: int) -> None:
    schedule = rows.row(rows.top(Matrix(m, n, "bf16"), 8, out=("bf16", "i32")))
    assert f".split n {warps} ways to Warp" in str(schedule)


def test_clusters_have_rows_where_sms_are_more(golden: Callable[..., None]) -> None:
    schedule = rows.row(rows.top(Matrix(3, 1000000, "bf16"), 8, out=("bf16", "i32")))
    assert ".split n 8 ways to Block .split n 16384 .load x to SH .split n 16 ways to Warp" in str(schedule)
    golden(schedule.cuda("sm_90a"), "kernel/top_of_a_cluster.cu")


def test_comparisons_are_joined_without_branches() -> None:
    """`||` and choices of choices made 475 instructions a point for k = 8, `|` and `&` make 27."""
    text = rows.row(rows.top(Matrix(64, 4096, "bf16"), 2)).cuda("sm_90")
    inserted = [line.strip() for line in text.splitlines() if line.strip().startswith(("next[0] =", "behind[0] ="))]
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
