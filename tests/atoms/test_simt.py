"""Rows of the CUDA cores: their arithmetic against rational numbers, their layouts, and look-ups in the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fireiron.algebra.dtypes import DType, bf16, f16, f32, f64, i8, i32, u8
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.table import TABLE, find, matching, nearest
from fireiron.cuda.types import rounded
from fireiron.language.atom import Atom
from fireiron.language.levels import GL, RF, SH, Thread, Warp

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, DType, int], Array]
THREADS = 256
FLOATS = ("fma.f64", "fma.f32", "fma.f16", "fma.f16x2", "fma.bf16", "fma.f32.f16", "fma.f32.bf16")
INTEGERS = ("imad.i32", "imad.i32.i8", "imad.i32.u8", "dp4a.i8", "dp4a.u8")


def atom(name: str) -> Atom:
    found = find(name)
    assert found is not None
    return found


def dtype_of(row: Atom, role: str) -> DType:
    found = row.operand(role).dtype
    assert found is not None
    return found


def exact_fma(a: float, b: float, c: float, to: DType) -> float:
    """Compute a * b + c with rational numbers and round it once."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    x = Fraction(a) * Fraction(b) + Fraction(c)
    if x == 0:
        negative = math.copysign(1, a) * math.copysign(1, b) < 0 and math.copysign(1, c) < 0
        both_zero = c == 0 and (a == 0 or b == 0)
        return -0.0 if both_zero and negative else 0.0
    # Truncated to far more bits than any type has, with a sticky last one.
    shift = 300 - (x.numerator.bit_length() - x.denominator.bit_length())
    scaled = abs(x) * Fraction(2) ** shift
    whole = scaled.numerator // scaled.denominator
    sticky = whole * 2 + (scaled.denominator != 1)
    size = _round(sticky, -shift - 1, to)
    return size if x > 0 else -size


def _round(whole: int, exponent: int, to: DType) -> float:
    """Round whole * 2**exponent, positive, to a type."""
    largest = {64: 1023, 32: 127}.get(to.bits, 15 if to == f16 else 127)
    place = max(whole.bit_length() - 1 + exponent, 1 - largest) - to.mantissa
    drop = place - exponent
    kept, rest = divmod(whole, 1 << drop)
    half = 1 << (drop - 1)
    kept += rest > half or (rest == half and kept & 1)
    return math.inf if kept.bit_length() + place > largest + 1 else math.ldexp(kept, place)


def same(got: Array, expected: list[float]) -> Array:
    """Compare bit for bit, any NaN being equal to any."""
    wide = np.array([float(x) for x in got.ravel().tolist()])
    wanted = np.array(expected)
    return (np.isnan(wide) & np.isnan(wanted)) | ((wide == wanted) & (np.signbit(wide) == np.signbit(wanted)))


def meant(row: Any) -> Any:
    """Give what a row computes."""
    found = meaning_of(row)
    assert found is not None
    return found


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("seed", range(4))
def test_a_float_row_rounds_once(name: str, seed: int, draw: Draw) -> None:
    row = atom(name)
    rng = np.random.default_rng(seed)
    accumulator = dtype_of(row, "C")
    arrays = [
        draw(rng, dtype_of(row, role), 2 * THREADS * n).reshape(2, THREADS, n)
        for role in "ABC"
        for n in [row.operand(role).registers]
    ]
    a, b, c = arrays
    # Ties and cancellation: the addend near minus the product, or far below it.
    with np.errstate(all="ignore"):
        c[0, ::2] = (-(a[0, ::2].astype(np.float64) * b[0, ::2].astype(np.float64))).astype(c.dtype)
        c[1, ::4] = (a[1, ::4].astype(np.float64) * b[1, ::4].astype(np.float64) * 2.0**-40).astype(c.dtype)
    got = meant(row)(a, b, c)
    assert got.dtype == c.dtype
    assert got.shape == c.shape
    triples = zip(*(np.broadcast_to(x, c.shape).ravel().tolist() for x in arrays), strict=True)
    expected = [exact_fma(float(x), float(y), float(z), accumulator) for x, y, z in triples]
    wrong = np.flatnonzero(~same(got, expected))
    assert [
        (got.ravel()[i], expected[i], *(np.broadcast_to(x, c.shape).ravel()[i] for x in arrays)) for i in wrong
    ] == []


@pytest.mark.parametrize(
    ("name", "a", "b", "c", "expected"),
    [
        # 261/256 lies between two bf16; what is added decides, though it is far below the last bit of f64.
        ("fma.bf16", 3.0, 87 / 256, 2.0**-80, 1.0234375),
        ("fma.bf16", 3.0, 87 / 256, -(2.0**-80), 1.015625),
        # The product has 48 bits, and the sum lies just above a tie of f32.
        ("fma.f32", 1 + 2.0**-12, 1 + 2.0**-12, 2.0**-70, 1 + 2.0**-11 + 2.0**-23),
        # Two roundings would give 0.
        ("fma.f64", 1 + 2.0**-30, 1 - 2.0**-30, -1.0, -(2.0**-60)),
        ("fma.f64", 1e300, 1e300, -math.inf, -math.inf),
        ("fma.f64", 2.0**-600, 2.0**-600, 2.0**-1074, 2.0**-1074),
        ("fma.f64", 2.0**1000, 2.0**24, -(2.0**1023), 2.0**1023),
        ("fma.f16", 60000.0, 2.0, -60000.0, 60000.0),
    ],
)
def test_a_case_that_naive_arithmetic_gets_wrong(name: str, a: float, b: float, c: float, expected: float) -> None:
    row = atom(name)
    d = dtype_of(row, "C").numpy
    got = meant(row)(*(np.full((1, 1, 1), x).astype(d) for x in (a, b, c)))
    assert float(got[0, 0, 0]) == expected


def test_bf16_through_f32_rounds_twice() -> None:
    row = atom("fma.bf16.via.f32")
    a, b, c = (np.full((1, 1, 1), x).astype(bf16.numpy) for x in (3.0, 87 / 256, 2.0**-80))
    # The f32 sum is the tie itself, which then goes to the even neighbour.
    assert float(meant(row)(a, b, c)[0, 0, 0]) == 1.015625


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_row_wraps(name: str, draw: Draw) -> None:
    row = atom(name)
    rng = np.random.default_rng(0)
    a, b, c = (draw(rng, dtype_of(row, r), THREADS * row.operand(r).registers).reshape(1, THREADS, -1) for r in "ABC")
    got = meant(row)(a, b, c)
    assert got.dtype == np.int32
    exact = (a.astype(object) * b.astype(object)).sum(axis=-1, keepdims=True) + c.astype(object)
    assert (((exact + 2**31) % 2**32 - 2**31) == got).all()


def test_the_operands_are_not_written() -> None:
    for row in TABLE:
        if row.kind == "MatMul" and row.unit == Thread:
            arrays = [np.ones((1, 4, o.registers), dtype_of(row, o.role).numpy) for o in row.operands]
            kept = [x.copy() for x in arrays]
            meant(row)(*arrays)
            assert all((x == y).all() for x, y in zip(arrays, kept, strict=True))


class Text(str):
    """Stand for a printed element, which knows the name of its buffer."""

    name = "x"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_is_consistent(row: Atom) -> None:
    threads = row.unit.size
    for operand in row.operands:
        rows, columns = operand.shape
        assert operand.layout.rank == 2
        assert operand.layout[0].size == threads
        covered = {operand.layout(t, r) for t in range(threads or 0) for r in range(operand.registers)}
        assert covered == set(range(rows * columns))
    if row.nbytes and row.unit == Thread:
        assert all(o.registers == row.nbytes for o in row.operands)
    if row.kind == "MatMul":
        m, n, k = row.shape
        assert [o.shape for o in row.operands] == [(m, k), (k, n), (m, n)]
        assert meaning_of(row) is not None
    bulk = {name: Text("x") for name in ("map", "signal", "peers", "coordinates")}
    fields = {o.role: Text("x") for o in row.operands} | {"lane": "0", "read": "true"} | bulk
    if any(o.pitch for o in row.operands):
        fields |= {"tile": "0", "pitch": "16"}
    fields |= {f"offset{i}": Text("x") for i in range(row.rank - 2) if row.windows}
    assert row.call.format_map(fields).endswith(";")
    assert bool(row.guarded_call) == bool(row.guarded_cuda)


def test_names_are_unique() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)


def names(rows: tuple[Atom, ...]) -> list[str]:
    return [row.name for row in rows]


def test_matching_prefers_the_native_instruction() -> None:
    spec = ("MatMul", (1, 1, 1), (bf16, bf16, bf16), (RF, RF, RF), Thread)
    assert names(matching(*spec, arch=80)) == ["fma.bf16", "fma.bf16.via.f32"]
    assert names(matching(*spec, arch=75)) == ["fma.bf16.via.f32"]
    assert names(matching(*spec)) == ["fma.bf16", "fma.bf16.via.f32"]


@pytest.mark.parametrize(
    ("shape", "dtypes", "expected"),
    [
        ((1, 1, 1), (f64, f64, f64), "fma.f64"),
        ((1, 1, 1), (f32, f32, f32), "fma.f32"),
        ((1, 1, 1), (f16, f16, f16), "fma.f16"),
        ((1, 2, 1), (f16, f16, f16), "fma.f16x2"),
        ((1, 1, 1), (f16, f16, f32), "fma.f32.f16"),
        ((1, 1, 1), (bf16, bf16, f32), "fma.f32.bf16"),
        ((1, 1, 1), (i32, i32, i32), "imad.i32"),
        ((1, 1, 1), (i8, i8, i32), "imad.i32.i8"),
        ((1, 1, 1), (u8, u8, i32), "imad.i32.u8"),
        ((1, 1, 4), (i8, i8, i32), "dp4a.i8"),
        ((1, 1, 4), (u8, u8, i32), "dp4a.u8"),
    ],
)
def test_matching_a_product(shape: tuple[int, ...], dtypes: tuple[DType, ...], expected: str) -> None:
    assert names(matching("MatMul", shape, dtypes, (RF, RF, RF), Thread, arch=75)) == [expected]


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("d", [f64, f32, f16, i8])
def test_matching_a_move(d: DType, nbytes: int) -> None:
    if nbytes % d.nbytes:
        return
    for src in (GL, SH, RF):
        for dst in (GL, SH, RF):
            found = matching("Move", (nbytes // d.nbytes,), (d, d), (src, dst), Thread, arch=75)
            assert names(found) == [f"copy.{nbytes}B.{src}.{dst}"]


def test_nothing_matches_what_no_row_does() -> None:
    assert matching("Move", (3,), (f32, f32), (GL, SH), Thread) == ()
    assert matching("Move", (4,), (f32, f16), (GL, SH), Thread) == ()
    assert matching("MatMul", (1, 1, 1), (f32, f32, f32), (SH, RF, RF), Thread) == ()
    assert matching("MatMul", (1, 1, 1), (f32, f32, f32), (RF, RF, RF), Warp) == ()


def test_the_nearest_rows_say_what_differs() -> None:
    found = nearest("MatMul", (1, 1, 1), (f16, f16, f16), (SH, RF, RF), Thread, arch=75)
    assert [str(near) for near in found] == [
        "fma.f16: it takes A in RF, not SH",
        "fma.f16x2: its shape is 1x2x1, not 1x1x1; it takes A in RF, not SH",
        "fma.f32.f16: it takes A in RF, not SH; it takes C in f32, not f16",
    ]
    found = nearest("MatMul", (1, 1, 1), (bf16, bf16, bf16), (RF, RF, RF), Warp, arch=75, most=2)
    assert [str(near) for near in found] == [
        "fma.bf16.via.f32: a Thread executes it, not a Warp",
        "fma.bf16: a Thread executes it, not a Warp; it needs sm_80, not sm_75",
    ]
    found = nearest("Move", (5,), (f16, f32), (GL, SH), Thread, most=1)
    assert str(found[0]) == "copy.16B.GL.SH: it does not convert f16 to f32"
    assert str(nearest("Shuffle", (3,), (f64, f64), (RF, RF), Warp, most=1)[0]) == (
        "shfl.idx.8B: it moves 1 element of f64, not 3"
    )


def test_rounded_agrees_with_numpy() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=200) * 2.0 ** rng.integers(-160, 140, 200), [0.0, -0.0, 65519.9, 65520.0]])
    with np.errstate(all="ignore"):
        for d in (f16, f32):
            assert [rounded(float(x), d) for x in values] == values.astype(d.numpy).astype(np.float64).tolist()
