"""Which wrong results a comparison notices, by element type and K: errors are planted in results made with NumPy.

`noticed.txt` is the table of it, and may only get better; `pytest tests/front/test_noticed.py --update-golden` writes
it anew.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.elements import pack, read
from fireiron.algebra.exact import product, whole_numbers
from fireiron.jit.interface import Interface
from fireiron.schedules import attention, rows
from fireiron.verify.bounded import Bounded, cast, exact
from fireiron.verify.comparison import compare
from fireiron.verify.exact_data import exact_arrays
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import Meaning, outputs_of
from fireiron.verify.sums import Summing
from fireiron.verify.sums import product as summed

TABLE = Path(__file__).with_name("noticed.txt")
DEPTHS = (64, 256, 1024, 4096, 16384)
ROWS, COLUMNS = 48, 40
PLANTED = 200
FP8 = (32, 13)  # what wgmma keeps of a sum of 8-bit floats


@attrs.frozen
class Case:
    """Name element types of a product: of its operands, its sums and its result."""

    name: str
    inside: str
    sums: str
    out: str
    product: Any = "mul"
    cut: tuple[int, int] | None = None
    parts: tuple[int, str] | None = None

    @property
    def how(self) -> Summing:
        parts = None if self.parts is None else (self.parts[0], find_dtype(self.parts[1]))
        return Summing(find_dtype(self.sums), self.product, self.cut, None, parts, drawn=True)


CASES = (
    Case("f64", "f64", "f64", "f64"),
    Case("f32", "f32", "f32", "f32"),
    Case("tf32", "tf32", "f32", "f32"),
    Case("f16", "f16", "f32", "f16"),
    Case("f16-f16", "f16", "f16", "f16"),
    Case("bf16", "bf16", "f32", "bf16"),
    Case("bf16-added", "bf16", "f32", "bf16", parts=(4, "bf16")),
    Case("e4m3", "e4m3", "f32", "f32"),
    Case("e4m3-cut", "e4m3", "f32", "bf16", cut=FP8),
    Case("e4m3-e4m3", "e4m3", "f32", "e4m3"),
    Case("e5m2", "e5m2", "f32", "f32"),
    Case("e5m2-cut", "e5m2", "f32", "bf16", cut=FP8),
    Case("i8", "i8", "i32", "i32"),
    Case("i8-i8", "i8", "i32", "i8"),
    Case("u8", "u8", "i32", "i32"),
    Case("i4", "i4", "i32", "i32"),
    Case("b1-xor", "b1", "i32", "i32", product="xor"),
    Case("b1-and", "b1", "i32", "i32", product="and"),
)  # fmt: skip


@attrs.frozen
class Noticed:
    """Count what goes unnoticed.

    Args:
        dropped, doubled: of 1000 elements with a term lost, or added twice, how many pass the exact run.
        another_row: the same of elements taken from another row.
        zeros: of 1000 elements that are 0 all, how many pass.
        blind: of 1000 elements of random numbers, how many would pass as 0.
        terms: the smallest error of an element that the random run notices, in usual terms (median of elements).
    """

    dropped: int
    doubled: int
    another_row: int
    zeros: int
    blind: int
    terms: float


def exact_operands(case: Case, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make A, B (a row a column of it) and the terms' sums."""
    kind = find_dtype(case.inside)
    made = product(k, kind, kind, case.how.whole, whole_numbers(find_dtype(case.out)), kind=case.product)
    rng = np.random.default_rng(1)
    (a, _), (b, _) = made.left.draw(rng, ROWS), made.right.draw(rng, COLUMNS)
    return stored(a, kind), stored(b, kind), total(case, a, b)


def stored(x: np.ndarray, kind: DType) -> np.ndarray:
    """Give the values that an array of a type holds: operands must survive it."""
    held = read(pack(x, kind) if kind.packed else x.astype(kind.numpy), kind).astype(np.float64)
    assert (held == x).all(), f"{kind} does not hold what was drawn"
    return held


def total(case: Case, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum each element's terms: whole numbers below 2**53, which f64 holds."""
    wide = a.astype(np.float64), b.astype(np.float64).T
    products = (wide[0] @ wide[1]).astype(np.int64)
    # Of two bits, x xor y is x + y - 2 x y.
    return products if case.product != "xor" else a.sum(1)[:, None].astype(np.int64) + b.sum(1) - 2 * products


def term(case: Case, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Give terms of operands that belong together."""
    a, b = a.astype(np.int64), b.astype(np.int64)
    return a ^ b if case.product == "xor" else a * b


def expected(case: Case, a: np.ndarray, b: np.ndarray) -> Bounded:
    return cast(summed(exact(a), exact(b.T), case.how), find_dtype(case.out))


def passing(case: Case, results: np.ndarray, wanted: Bounded) -> np.ndarray:
    """Say of each element whether it passes, alone."""
    out = find_dtype(case.out)
    limited = np.clip(results, *out.limits).astype(out.numpy)
    found = compare("C", limited, wanted, out)
    right = np.abs(limited.astype(np.float64) - wanted.value) <= wanted.error
    assert found.wrong == int((~right).sum())
    return right


def thousandths(passes: np.ndarray) -> int:
    return round(1000 * float(passes.mean()))


@functools.cache
def noticed(case: Case, k: int) -> Noticed:
    a, b, c = exact_operands(case, k)
    wanted = expected(case, a, b)
    assert (wanted.error == 0).all(), "an exact run leaves no bound"
    assert passing(case, c, wanted).all(), "right results pass"
    rng = np.random.default_rng(2)
    m, n, p = (rng.integers(0, extent, PLANTED) for extent in (ROWS, COLUMNS, k))
    lost = term(case, a[m, p], b[n, p])
    picked = Bounded(wanted.value[m, n], wanted.error[m, n])
    other = (m + rng.integers(1, ROWS, PLANTED)) % ROWS
    kind = find_dtype(case.inside)
    if kind.kind == "int":
        low, high = kind.limits
        x, y = (rng.integers(int(low), int(high) + 1, (lines, k)).astype(np.float64) for lines in (ROWS, COLUMNS))
    else:
        x, y = (read(rng.standard_normal((n, k)).astype(kind.numpy), kind).astype(float) for n in (ROWS, COLUMNS))
    drawn = expected(case, x, y)
    blind = compare("C", drawn.value, drawn, find_dtype(case.out)).unverified / drawn.value.size
    return Noticed(
        thousandths(passing(case, c[m, n] - lost, picked)),
        thousandths(passing(case, c[m, n] + lost, picked)),
        thousandths(passing(case, c[other, n], picked)),
        thousandths(passing(case, np.zeros_like(c), wanted)),
        round(1000 * blind),
        float(np.median(drawn.error) / np.sqrt((x**2).mean() * (y**2).mean())),
    )


def line(name: str, k: int, found: Noticed) -> str:
    counts = (found.dropped, found.doubled, found.another_row, found.zeros, found.blind)
    return f"{name:<12}{k:>6}" + "".join(f"{x:>9}" for x in counts) + f"{found.terms:>12.3g}"


def softmax(dtype: str, k: int) -> Any:
    spec = fi.program(x="m n")(lambda x: fi.softmax(x, "n"))(fi.tensor(16, k, name="x", dtype=dtype))
    return rows.row(spec)


def heads(dtype: str, k: int) -> Any:
    queries, keys = (fi.tensor(1, 1, n, 32, name=name, dtype=dtype) for n, name in ((32, "q"), (k, "k")))
    values = fi.tensor(1, 1, k, 32, name="v", dtype=dtype)
    return attention.mma(attention.attention(queries, keys, values), warps=1, keys=32)


@attrs.frozen
class Weighed:
    """Name a program that weighs by exponentials, and its element type."""

    name: str
    made: Any
    dtype: str


WEIGHED = (
    Weighed("softmax-f32", softmax, "f32"),
    Weighed("softmax-f16", softmax, "f16"),
    Weighed("softmax-bf16", softmax, "bf16"),
    Weighed("attend-f16", heads, "f16"),
    Weighed("attend-bf16", heads, "bf16"),
)


@functools.cache
def noticed_by_weights(case: Weighed, k: int) -> Noticed:
    """Count as `noticed` does: a term is a key of a row's sums, one of those at the row's maximum."""
    schedule, kind = case.made(case.dtype, k), find_dtype(case.dtype)
    meaning, interface = Meaning.of(schedule), Interface.of(schedule.lowered())
    arrays = exact_arrays(meaning, interface, {})
    (wanted,) = outputs_of(meaning, arrays, {}).values()
    assert (wanted.error == 0).all(), "an exact run leaves no bound"
    wide = {name: x.astype(np.float64).reshape(-1, x.shape[-1]) for name, x in arrays.items()}
    scores = wide["x"] if "x" in wide else wide["q"] @ wide["k"].T
    chosen = scores == scores.max(-1, keepdims=True)
    count = chosen.sum(-1)
    value, error = (x.reshape(len(count), -1) for x in (wanted.value, wanted.error))
    rng = np.random.default_rng(2)
    m = rng.choice(np.flatnonzero(count > 1), PLANTED)
    term = np.array([rng.choice(np.flatnonzero(chosen[i])) for i in m])
    n = term if "x" in wide else rng.integers(0, value.shape[1], PLANTED)
    part = np.ones(PLANTED) if "x" in wide else wide["v"][term, n]
    sums = value[m, n] * count[m]
    # A term is lost from, or doubled in, what is divided by, or what the values are weighed by.
    lost, twice = (
        (sums / (count[m] + more) if "x" in wide else (sums + more * part) / count[m]) for more in (-1.0, 1.0)
    )
    other = value[(m + rng.integers(1, len(count), PLANTED)) % len(count), n]

    def passing(results: np.ndarray, i: Any, j: Any) -> np.ndarray:
        return np.abs(results.astype(kind.numpy).astype(np.float64) - value[i, j]) <= error[i, j]

    drawn = random_arrays(interface, {})
    (bound,) = outputs_of(meaning, drawn, {}, drawn=True).values()
    blind = compare("y", bound.value, bound, kind).unverified / bound.value.size
    nothing = np.zeros(value.shape)
    return Noticed(
        thousandths(passing(lost, m, n)),
        thousandths(passing(twice, m, n)),
        thousandths(passing(other, m, n)),
        thousandths(passing(nothing, slice(None), slice(None))[value != 0]),
        round(1000 * blind),
        float(np.median(bound.error) * k),
    )


HEAD = """\
# Planted errors that go unnoticed, by element types and K. Of 1000 elements of an exact run: those with a term lost,
# those with a term added twice, those taken from another row, and all of them 0. Of 1000 elements of a run on random
# numbers: those whose bound is as large as they are. Last: the smallest error that bounds of random numbers notice,
# in terms of usual size; below 1 a lost term shows there too. Elements of two rows may be equal, and terms 0 of bits
# and where partial sums are rounded to bf16 (added). Of softmax a lost term makes the row's others larger, by less than
# their type tells apart where they are many; of weighed values (attend) terms are those that the sum has, over their
# number. Of both `zeros` counts elements that are not 0.
# types           K  dropped  doubled  another    zeros    blind       terms
"""


def test_the_table(request: pytest.FixtureRequest) -> None:
    found = {(case.name, k): noticed(case, k) for case in CASES for k in DEPTHS}
    found |= {(case.name, k): noticed_by_weights(case, k) for case in WEIGHED for k in DEPTHS}
    if request.config.getoption("--update-golden"):
        lines = [line(case.name, k, found[case.name, k]) for case in (*CASES, *WEIGHED) for k in DEPTHS]
        TABLE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        return
    text = TABLE.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    rows = [words.split() for words in text.removeprefix(HEAD).splitlines()]
    known = {(name, int(k)): [float(x) for x in limits] for name, k, *limits in rows}
    assert known.keys() == found.keys()
    for key, limits in known.items():
        now = attrs.astuple(found[key])
        assert all(x <= most * 1.01 for x, most in zip(now, limits, strict=True)), f"{key}: {now}, and {limits} before"


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize("case", WEIGHED, ids=lambda case: case.name)
def test_exact_runs_notice_one_key(case: Weighed, k: int) -> None:
    found = noticed_by_weights(case, k)
    assert found.zeros == 0
    if case.made is heads or case.dtype == "f32":
        assert found.dropped == found.doubled == 0


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exact_runs_notice_one_term(case: Case, k: int) -> None:
    found = noticed(case, k)
    assert found.zeros <= 20
    if case.inside == "b1" or (case.parts is not None and k > 256):
        return  # some terms are 0
    assert found.dropped == found.doubled == 0
