"""Check each rule of index expressions by the form it gives, and that lowering-sized work is quick."""

from __future__ import annotations

import time

import pytest

from fireiron import FireironError
from fireiron.algebra.expr import (
    FALSE,
    TRUE,
    Const,
    Expr,
    Index,
    Var,
    affine,
    and_,
    as_int,
    ceil_div,
    eq,
    evaluate,
    free,
    ge,
    gt,
    le,
    lt,
    maximum,
    minimum,
    ne,
    not_,
    or_,
    prove_lt,
    proves,
    select,
    simplest,
    substitute,
    symbol,
)
from fireiron.algebra.index.printing import fits_int32, to_c
from fireiron.algebra.index.python import to_python

M, N, K8 = symbol("M"), symbol("N"), symbol("K", multiple_of=8)
x, y, z, u = Var("x", 64), Var("y", 8), Var("z", 4), Var("u")
i, j = Var("i", M), Var("j", 8)
lane = Var("id", 32)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (x * 8 + 0 + y - y, x * 8),
        ((x * 8 + y) // 8, x),
        ((x * 8 + y) % 8, y),
        (x % 256, x),
        (lane // 32, Const(0)),
        ((u // 4) // 8, u // 32),
        ((u // 4) * 4 + u % 4, u),
        (u % 4 + (u // 4) * 4, u),
        ((u % 64) % 8, u % 8),
        ((u % 64) // 8, (u // 8) % 8),
        (u // 8 % 8 * 8 + u % 8, u % 64),
        (u - u // 8 * 8, u % 8),
        (u - u % 8, u // 8 * 8),
        ((u % 64 + y) % 8, (u + y) % 8),
        ((x * 16 + y * 2 + 1) // 32, x // 2),
        ((x * 16 + y) % 32, x % 2 * 16 + y),
        ((x * 12) // 8, (x * 3) // 2),
        (ceil_div(K8, 8), K8 // 8),
        (K8 // 8 * 8, K8),
        (K8 // 8 * 2, K8 // 4),
        (K8 // 8 // 4, K8 // 32),
        ((K8 * x + y) // 8, K8 // 8 * x),
        ((K8 * x + y) % 8, y),
        ((i * M + Var("k", M)) // M, i),
        ((M * u + i) % M, i),
        ((x * (N + 1) + y * 0) // (N + 1), x),
        (u & 15, u % 16),
        (u >> 3, u // 8),
        (u << 3, u * 8),
        (x * 8 | y, x * 8 + y),
        (x * 8 ^ y, x * 8 + y),
        (x ^ 0, x),
        (x ^ x, Const(0)),
        ((x ^ y) ^ y, x),
        ((x * 64 + y * 8) ^ (x % 8 * 8), x * 64 + (y ^ x % 8) * 8),
        (lane & 0x30, lane // 16 * 16),
        (minimum(x, 100), x),
        (maximum(x, 100), Const(100)),
        (minimum(i + 1, M), i + 1),
        (select(lt(x, 64), y, z), y),
        (select(lt(u, 64), y, y), y),
        (lt(x, 64), TRUE),
        (ge(x, 64), FALSE),
        (lt(x * 8, y * 8 + 3), lt(x, y + 1)),
        (le(x, y), lt(x, y + 1)),
        (not_(lt(x, y)), ge(x, y)),
        (not_(and_(lt(x, 3), lt(y, 3))), or_(ge(x, 3), ge(y, 3))),
        (and_(lt(x, 3), not_(lt(x, 3))), FALSE),
        (and_(), TRUE),
        (eq(x * 8 + 1, u * 8), FALSE),
        (eq(x, y), eq(y, x)),
        (ne(x, x), FALSE),
        ((1 - y) // 8, (9 - y) // 8 - 1),
        (x // -3, (-x) // 3),
    ],
)
def test_rules(found: Expr, expected: Expr) -> None:
    assert found == expected
    assert hash(found) == hash(expected)


def test_order_is_of_first_appearance_and_does_not_matter_for_equality() -> None:
    block_m, warp = Var("block_m", 16), Var("warp", 4)
    assert str(1 + block_m * 128 + warp * 64 + lane) == "block_m * 128 + warp * 64 + id + 1"
    assert x + y == y + x
    assert x * M == M * x
    assert x * x * y != x * y * y


def test_a_bit_permutation_of_lanes() -> None:
    e = ((lane >> 1) & 7) | (lane & 0x30) | ((lane & 1) << 3)
    assert str(e) == "id / 2 % 8 + id / 16 * 16 + id % 2 * 8"
    assert e.range == (0, 31)
    assert sorted(evaluate(e, {"id": n}) for n in range(32)) == list(range(32))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (lt(i * 8 + j, M * 8), True),
        (lt(i * 8 + j + 1, M * 8), False),
        (lt(Var("t", ceil_div(N, 128)) * 128, N), True),
        (lt(Var("t", ceil_div(N, 128)) * 128 + j, N), False),
        (lt(Var("t", ceil_div(K8, 128)) * 128 + j, K8), True),
        (le(N // 8 * 8, N), True),
        (lt(Var("t", K8 // 8) * 8 + j, K8), True),
        (lt(Var("r", M) * N + Var("c", N), M * N), True),
        (lt(Var("r", M) * N + Var("c", N + 1), M * N), False),
        (ge(M - i, 1), True),
        (lt(u % M, M), True),
    ],
)
def test_symbolic_bounds(condition: Expr, expected: bool) -> None:
    assert proves(condition) is expected


def test_a_ragged_tile_is_proved_inside() -> None:
    tile = Var("tile", ceil_div(N, 128))
    inside = Var("inside", minimum(128, N - tile * 128))
    assert prove_lt(tile * 128 + inside, N)
    assert not prove_lt(tile * 128 + inside + 1, N)


@pytest.mark.parametrize(
    ("e", "interval", "divisor"),
    [
        (x * 8 + y, (0, 511), 1),
        (x - y, (-7, 63), 1),
        (x * y, (0, 441), 1),
        (K8 * x * 2, (0, 2 * 2**30 * 63), 16),
        (K8 + 12, (20, 2**30 + 12), 4),
        (u * 4, (0, None), 4),
        (x // 5, (0, 12), 1),
        (u % 5, (0, 4), 1),
        (x ^ u % 8, (0, 63), 1),
        (Const(0), (0, 0), 0),
        (select(lt(u, 3), x, 100), (0, 100), 1),
        (minimum(u, 7), (0, 7), 1),
        (x & (u * 2 + 1), (0, 63), 1),
    ],
)
def test_ranges_and_divisors(e: Expr, interval: tuple[int | None, int | None], divisor: int) -> None:
    assert e.range == interval
    assert e.divisor == divisor


@pytest.mark.parametrize(
    ("e", "wide", "code"),
    [
        (i * N + j, True, "(long long)i * N + j"),
        (i * N * 4 + j * N, True, "(long long)i * N * 4 + (long long)j * N"),
        (x * 8 + y, True, "x * 8 + y"),
        (minimum(M * N, x), True, "min((long long)M * N, (long long)x)"),
        (M + N, True, "M + (long long)N"),
        (u // 8 % 4, False, "u / 8 % 4"),
        ((x - y) // 8, False, "(x - y + 8) / 8 - 1"),
        (Var("s", None, -(2**40)) // 8, False, "s >> 3"),
        (Var("s", None, -(2**40)) % 8, False, "s & 7"),
        (x * (y // 3), False, "x * (y / 3)"),
        (M - x, False, "M - x"),
        (3 - x, False, "3 - x"),
        (-x, False, "-x"),
        (le(x, M), False, "x <= M"),
        (gt(x, 3), False, "x > 3"),
        (eq(u % 32, 0), False, "u % 32 == 0"),
        (and_(lt(x, 3), or_(lt(y, 3), lt(z, 2))), False, "x < 3 && (y < 3 || z < 2)"),
        (select(lt(x, 3), y, z) + 1, False, "(x < 3 ? y : z) + 1"),
        ((x ^ y) * 16, False, "(x ^ y) * 16"),
        (Const(1) << y, False, "1 << y"),
    ],
)
def test_printed_c(e: Expr, wide: bool, code: str) -> None:
    assert to_c(e, wide=wide) == code


def test_names_rename_leaves() -> None:
    assert to_c(x + y, names={"x": "threadIdx.x"}) == "threadIdx.x + y"
    assert to_python(x // 8 + lt(y, 3), names={"y": "v[1]"}) == "x // 8 + (v[1] < 3) * 1"
    assert to_python(and_(lt(x, 3), lt(y, 3)), arrays=False) == "(x < 3 and y < 3)"


def test_fits_int32_looks_at_all_steps() -> None:
    assert fits_int32(x * 8 + y)
    assert not fits_int32(M * x)
    assert not fits_int32((M + N) // 4)
    assert not fits_int32(M * 2 + x - 63)


def test_affine() -> None:
    assert affine(i * N + x * 4 + y + 1, [i, x]) == ({i: N, x: 4}, y + 1)
    assert affine(x // 8 + y, [x]) is None
    assert affine(x * x, [x]) is None
    assert affine(y, [x]) == ({x: 0}, y)


def test_substitute_and_free() -> None:
    e = (x * 8 + y) // 3 + select(lt(u, M), u, 0)
    assert free(e) == {x, y, u, M}
    assert substitute(e, {x: 3, y: 2, u: 5, M: 4}) == Const(26 // 3)
    assert substitute(x + y, {x: y, y: x}) == x + y
    assert simplest(substitute(x, {x: 3})) == 3


def test_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match="the truth of `x < 3` is not known here"):
        bool(lt(x, 3))
    with pytest.raises(ZeroDivisionError):
        _ = x // 0
    with pytest.raises(TypeError):
        _ = x + 1.5  # type: ignore[operator]
    with pytest.raises(FireironError, match="a multiple of 8 between 1 and 7"):
        symbol("S", multiple_of=8, minimum=1, maximum=7)


def test_as_int() -> None:
    values: list[Index] = [3, Const(3), x]
    assert [as_int(value) for value in values] == [3, 3, None]


def lowering_sized_work() -> int:
    thread, block = Var("thread", 256), Var("block", 4096)
    operations = 0
    for step in range(400):
        warp, inner = thread // 32, thread % 32
        row = block * 128 + warp // 2 * 64 + step * 16 + inner // 4
        column = warp % 2 * 64 + inner % 4 * 2
        offset = row * K8 + column
        lt(row, M)
        assert offset.range[0] == step * 16 * 8
        operations += 18
    return operations


def test_lowering_sized_work_is_quick() -> None:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        operations = lowering_sized_work()
        best = min(best, time.perf_counter() - start)
    assert best / operations < 50e-6, f"{best / operations * 1e6:.1f} us an operation"
