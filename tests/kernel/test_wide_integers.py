"""Integers of 64 bits (i64): every operation against NumPy's int64, bit by bit, and their CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from wide_integers import cases

import fireiron as fi
from fireiron import Matrix, Move, Vector
from fireiron.base.errors import SimulationError
from fireiron.schedules import pointwise
from fireiron.verify.verification import Data, verify

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    """Every bit is that of NumPy, and the reference accepts it."""
    case = CASES[name]
    found = fi.best(case.spec(), arch="sm_90").simulate(*case.arrays)
    np.testing.assert_array_equal(found.out, case.expected)
    assert found.out.dtype == case.expected.dtype
    assert found.comparison.passed, str(found)


@pytest.mark.parametrize("name", CASES)
def test_compiles(name: str) -> None:
    assert not fi.best(CASES[name].spec(), arch="sm_90").compile("sm_90a").resources.spills


@pytest.mark.parametrize("name", ["comparisons", "constants", "to i32", "from f64", "lines from behind"])
def test_cuda(name: str, golden: Callable[[str, str], None]) -> None:
    texts = {
        "comparisons": "kernel/wide_comparisons.cu", "constants": "kernel/wide_constants.cu",
        "to i32": "kernel/wide_to_i32.cu", "from f64": "kernel/wide_from_f64.cu",
        "lines from behind": "kernel/wide_lines.cu",
    }  # fmt: skip
    golden(fi.best(CASES[name].spec(), arch="sm_90").cuda("sm_90"), texts[name])


@pytest.mark.parametrize("kind", ["bf16", "e4m3", "e5m2", "tf32"])
def test_conversions_round_once(kind: str) -> None:
    """Also where f64 holds the number not exactly: 2^62 + 2^54 is a tie of bf16, and one more is none."""
    ties = [2**62 + 2**54, 2**62 + 2**54 + 1, 2**62 + 2**54 - 1, -(2**62) - 2**54 - 1, 2**50 + 2**39 + 1, 7, -300, 0]
    x = np.array([ties], np.int64)
    spec = fi.program(x="m n")(lambda x: fi.cast(x, kind))(Matrix(1, len(ties), "i64", name="x"), out=kind)
    found = fi.best(spec, arch="sm_90").simulate(x).out.astype(np.float64)[0]
    if kind == "bf16":
        step = 2.0**55
        assert found[:4].tolist() == [2.0**62, 2.0**62 + step, 2.0**62, -(2.0**62) - step]
    if kind == "tf32":
        assert found[4] == 2.0**50 + 2.0**40
    assert found[5:].tolist() == [7, {"e4m3": -288, "e5m2": -320}.get(kind, -300), 0]


def test_vectors_have_two_elements() -> None:
    schedule = fi.best(CASES["sums and products"].spec(), arch="sm_90")
    assert "copy_16B(&x_rf[0], &x[" in schedule.cuda("sm_90")


@pytest.mark.parametrize("kind", ["i64", "i32"])
def test_added_to_elements(kind: str) -> None:
    """Atomic additions wrap."""

    def added(ids: Any, x: Any, sums: Any) -> Any:
        return sums.at[ids, :].add(x)

    spec = fi.program(ids="e", x="e n", sums="v n")(added)(
        Vector(50, "i64", name="ids"), Matrix(50, 8, kind, name="x"), Matrix(7, 8, "i64", name="sums")
    )
    rng = np.random.default_rng(0)
    ids, sums = rng.integers(0, 7, 50), rng.integers(-(2**62), 2**62, (7, 8))
    x = rng.integers(-(2**62), 2**62, (50, 8)) if kind == "i64" else rng.integers(-9, 9, (50, 8)).astype(np.int32)
    expected = sums.copy()
    np.add.at(expected, ids, x)
    schedule = pointwise.pointwise(spec)
    schedule.simulate(ids, x, out=sums)
    np.testing.assert_array_equal(sums, expected)
    assert not schedule.compile("sm_90").resources.spills


def test_a_number_that_is_no_index_is_found() -> None:
    """An index is read from the low word, and one that does not fit there is refused by the simulator."""
    case = CASES["lines of a table"]
    ids, table = case.arrays
    with pytest.raises(SimulationError, match="indices lie from 0 to 69") as error:
        fi.best(case.spec(), arch="sm_90").simulate(ids + 2**32, table)
    assert error.value.code == "gather-range"


def test_overflow_is_found() -> None:
    case = CASES["sum"]
    x = np.full(case.arrays[0].shape, 2**62)
    schedule = fi.best(case.spec(), arch="sm_90")
    with pytest.raises(SimulationError, match="9223372036854775808 does not fit into 64 bits") as error:
        schedule.simulate(x, overflow="error")
    assert error.value.code == "integer-overflow"
    schedule.simulate(x >> 30, overflow="error")


@pytest.mark.parametrize("off", [0, 1])
def test_a_wrong_result_is_found(off: int) -> None:
    """The reference is f64, which bounds what it loses beyond 2^53; smaller numbers are compared bit by bit."""
    schedule = fi.best(CASES["sums and products"].spec(), arch="sm_90")

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out)
        data.outs[0][3, 5] += off

    assert verify(schedule, launch, {}).passed == (off == 0)


def test_numbers_of_a_call() -> None:
    """A scalar of the call has 64 bits."""
    spec = fi.program(x="m n")(lambda x: x * "factor")(Matrix(8, 64, "i64", name="x"))
    x = np.arange(512).reshape(8, 64)
    np.testing.assert_array_equal(fi.best(spec, arch="sm_90").simulate(x, factor=2**40).out, x * 2**40)


def test_moves() -> None:
    schedule = fi.best(Move(Matrix(64, 64, "i64", name="x"), Matrix(64, 64, "i64", name="y")), arch="sm_90")
    x = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (64, 64))
    np.testing.assert_array_equal(schedule.simulate(x).out, x)
