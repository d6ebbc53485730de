"""The k largest of few columns: a lane sorts several columns at once, by keys that are integers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, Block, Group, Matrix, Thread, Warp, vector
from fireiron.front import verbs
from fireiron.jit.disassemble import disassemble
from fireiron.language import keys
from fireiron.schedules import reductions, rows

KINDS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32}


def _forget() -> None:
    verbs._lowered.cache_clear()  # pyright: ignore
    verbs._assembled.cache_clear()  # pyright: ignore


@pytest.fixture(autouse=True)
def _lowered_anew() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Keep no kernel that a test broke."""
    _forget()
    yield
    _forget()


def hard(m: int, n: int) -> Any:
    """Lines with equal values, zeros of both signs, infinities, and NaN of both signs."""
    x = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(np.float32)
    x[0] = np.where(np.arange(n) % 2, 0.0, -0.0)
    x[1, ::3], x[2] = np.nan, -np.inf
    x[2, n // 2], x[3, n - 1] = np.inf, -np.inf
    x[4, ::4] = -np.array(np.nan, np.float32)
    return x


def wanted(x: Any, k: int) -> Any:
    """Sort stably, NaN first."""
    y = x.astype(np.float64)
    return np.lexsort((-np.nan_to_num(y, nan=0.0), ~np.isnan(y)), axis=1)[:, :k]


def found(x: Any, dtype: str, k: int) -> tuple[Any, Any]:
    schedule = rows.row(rows.top(Matrix(*x.shape, dtype), k, out=(dtype, "i32")))
    values, columns = np.zeros((len(x), k), KINDS[dtype]), np.zeros((len(x), k), np.int32)
    schedule.simulate(x.astype(KINDS[dtype]), out=(values, columns))
    return values, columns


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(("k", "width"), [(8, 160), (8, 90), (3, 61), (2, 8), (5, 712), (4, 1024)])
def test_as_a_stable_sort_finds_them(k: int, width: int, dtype: str) -> None:
    """Lanes that have as many columns as each other or fewer, whole groups of columns or a part of one."""
    x = hard(6, width)
    values, columns = found(x, dtype, k)
    order = wanted(x, k)
    np.testing.assert_array_equal(columns, order)
    np.testing.assert_array_equal(values.astype(np.float32), np.take_along_axis(x, order, 1))


def test_whole_numbers() -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (4, 40)).astype(np.int32)
    x[0], x[1] = -(2**31), 2**31 - 1
    program = fi.program(x="m n")(lambda x: fi.topk(x, "n", 4))
    values, columns = np.zeros((4, 4), np.int32), np.zeros((4, 4), np.int32)
    rows.row(program(Matrix(4, 40, "i32"), out=("i32", "i32"))).simulate(x, out=(values, columns))
    order = np.argsort(-x.astype(np.int64), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(columns, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_with_fewer_columns_than_results(dtype: str) -> None:
    values, columns = found(hard(5, 5), dtype, 8)
    assert (values[:, 5:] == -np.inf).all()
    assert (columns[:, 5:] == 2**31 - 1).all()
    np.testing.assert_array_equal(columns[:, :5], wanted(hard(5, 5), 5))


@pytest.mark.product
@pytest.mark.parametrize("width", [40, 2000])
@pytest.mark.parametrize("k", [2, 3])
def test_each_result_is_stored_by_one_thread(k: int, width: int) -> None:
    """The threads that hold the values hold the indices too."""
    x = np.nan_to_num(hard(6, width), nan=2.0)  # where lanes have states of many points, NaN come in any order
    spec = fi.program(x="m n")(lambda x: fi.topk(x, "n", k))(Matrix(6, width), out=("f32", "i32"))
    for schedule in (reductions.reduction(spec), fi.best(spec)):
        values, columns = np.zeros((6, k), np.float32), np.zeros((6, k), np.int32)
        schedule.simulate(x, out=(values, columns))
        np.testing.assert_array_equal(columns, wanted(x, k))
    assert fi.best(spec) == rows.row(spec)
    turned = fi.program(x="m n")(lambda x: fi.topk(x, "m", k))(Matrix(width, 6), out=("f32", "i32"))
    fi.best(turned)  # of columns, by another preset


@pytest.mark.parametrize("chain", [
    lambda spec: spec.tile(m=2).to(Block).tile(m=1).to(Group(Thread, 16)).split(n=64),
    lambda spec: spec.tile(m=1).to(Block).split(n=64).split("n", ways=2).parallel(Warp),
])  # fmt: skip
def test_columns_that_the_last_chunk_lacks(chain: Any) -> None:
    """They are zeros in registers, above all values."""
    x = -5 - np.random.default_rng(3).integers(0, 50, (6, 100)).astype(np.float32)
    spec = fi.program(x="m n")(lambda x: fi.topk(x, "n", 4))(Matrix(6, 100), out=("f32", "i32"))
    schedule = chain(spec).load("x", RF, vector(16)).epilog(memory=RF).done()
    values, columns = np.zeros((6, 4), np.float32), np.zeros((6, 4), np.int32)
    schedule.simulate(x, out=(values, columns))
    np.testing.assert_array_equal(columns, wanted(x, 4))


@pytest.mark.parametrize(("rows_", "width", "lanes"), [
    (262144, 128, 2), (140535, 712, 8), (65536, 1024, 8), (4096, 256, 8), (512, 1000, 32), (500000, 8, 1)
])  # fmt: skip
def test_as_few_lanes_as_fill_the_sms(rows_: int, width: int, lanes: int) -> None:
    spec = rows.top(Matrix(rows_, width, "bf16"), 2, out=("bf16", "i32"), arch="sm_90a")
    level = {1: "to Thread", 32: "to Warp"}.get(lanes, f"to Lanes{lanes} ")
    assert level in str(rows.row(spec))


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_values_that_are_computed(dtype: str) -> None:
    """They are f32, whose keys have no room for the column."""
    program = fi.program(x="m n")(lambda x: fi.topk(fi.softmax(x, "n"), "n", 2))
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(KINDS[dtype])
    values, columns = np.zeros((8, 2), np.float32), np.zeros((8, 2), np.int32)
    rows.row(program(Matrix(8, 64, dtype), out=("f32", "i32"))).simulate(x, out=(values, columns))
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_array_equal(columns, wanted(x.astype(np.float32), 2))
    np.testing.assert_allclose(values, np.take_along_axis(exact, columns.astype(np.int64), 1), rtol=1e-5)


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_120"])
def test_all_architectures_have_keys(arch: str, dtype: str) -> None:
    schedule = rows.row(rows.top(Matrix(64, 160, dtype), 8, out=(dtype, "i32"), arch=arch))
    assert not schedule.compile(arch).resources.spills


def test_what_a_point_costs() -> None:
    """Inserted one by one, with comparisons of floats and indices, points took 290 instructions.

    Two lanes have a row.
    """
    schedule = rows.row(rows.top(Matrix(40960, 160, "bf16"), 8, out=("bf16", "i32"), arch="sm_90a"))
    assert "Lanes2" in str(schedule)
    text = disassemble(schedule.compile("sm_90a").cubin)
    assert len(re.findall(r"^\s*/\*[0-9a-f]+\*/ .*;", text, re.MULTILINE)) * 2 / 160 < 20


@pytest.mark.parametrize(("dtype", "k"), [("bf16", 8), ("f32", 4)])
def test_each_exchange_counts(dtype: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one exchange of the network, a result is wrong.

    The largest values of a line are all of one lane, and rise from one group of its columns to the next, more or less.
    """
    vector, columns = {"bf16": 8, "f32": 4}[dtype], np.arange(640)
    x = np.random.default_rng(2).integers(0, 100, (64, 640)).astype(np.float32)
    x += np.where(
        columns // vector % 32 == np.arange(64)[:, None] % 16, 100 + columns * np.arange(64)[:, None] / 512, 0
    )
    x = np.floor(x)
    network, order = list(keys._network(k)), wanted(x, k)  # pyright: ignore[reportPrivateUsage]

    def right() -> bool:
        program = fi.program(x="m n")(lambda x: fi.topk(x, "n", k))  # traced anew
        values, columns = np.zeros((64, k), np.float32), np.zeros((64, k), np.int32)
        schedule = rows.row(program(Matrix(64, 640, dtype), out=("f32", "i32")))
        schedule.simulate(x.astype(KINDS[dtype]), out=(values, columns))
        return np.array_equal(columns, order)

    assert right()
    for stage, i in [(s, i) for s, pairs in enumerate(network) for i in range(len(pairs))][:: 1 if k == 4 else 4]:
        fewer = [pairs[:i] + pairs[i + 1 :] if s == stage else pairs for s, pairs in enumerate(network)]
        monkeypatch.setattr(keys, "_network", lambda _, fewer=fewer: fewer)
        assert not right(), (stage, i)
