"""Compare random expressions, simplified as they are built, with plain Python arithmetic over all values."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fireiron.algebra.expr import (
    Expr,
    Var,
    and_,
    as_expr,
    eq,
    evaluate,
    le,
    lt,
    maximum,
    minimum,
    ne,
    not_,
    or_,
    select,
    substitute,
    symbol,
)
from fireiron.algebra.index.printing import to_c
from fireiron.algebra.index.python import to_python

Env = dict[str, int]
Pair = tuple[Expr, Callable[[Env], int]]

N = symbol("n", minimum=1, maximum=3)
LEAVES = (Var("a", 4), Var("b", 6, lower=-2), Var("c", 16), N, Var("i", N), symbol("M", multiple_of=4, maximum=8))
VALUES = [
    dict(zip("abcniM", row, strict=True))
    for row in itertools.product(range(4), range(-2, 6), range(0, 16, 3), range(1, 4), range(3), (4, 8))
    if row[4] < row[3]
]


def leaf(e: Var) -> Pair:
    return e, lambda env: env[e.name]


def integer(value: int) -> Pair:
    return as_expr(value), lambda env: value


def binary(pair: tuple[str, Pair, Pair]) -> Pair:
    op, (a, f), (b, g) = pair
    match op:
        case "+":
            return a + b, lambda env: f(env) + g(env)
        case "-":
            return a - b, lambda env: f(env) - g(env)
        case "*":
            return a * b, lambda env: f(env) * g(env)
        case "&":
            return a & b, lambda env: f(env) & g(env)
        case "|":
            return a | b, lambda env: f(env) | g(env)
        case "^":
            return a ^ b, lambda env: f(env) ^ g(env)
        case "min":
            return minimum(a, b), lambda env: min(f(env), g(env))
        case "max":
            return maximum(a, b), lambda env: max(f(env), g(env))
        case "<":
            return lt(a, b), lambda env: int(f(env) < g(env))
        case "<=":
            return le(a, b), lambda env: int(f(env) <= g(env))
        case "==":
            return eq(a, b), lambda env: int(f(env) == g(env))
        case "!=":
            return ne(a, b), lambda env: int(f(env) != g(env))
        case "and":
            return and_(a, b), lambda env: int(bool(f(env)) and bool(g(env)))
        case "or":
            return or_(a, b), lambda env: int(bool(f(env)) or bool(g(env)))
        case "not":
            return not_(a), lambda env: int(not f(env))
        case _:
            return select(a, b, 3), lambda env: g(env) if f(env) else 3


def scaled(pair: tuple[str, Pair, int]) -> Pair:
    op, (a, f), k = pair
    match op:
        case "*":
            return a * k, lambda env: f(env) * k
        case "//":
            return a // k, lambda env: f(env) // k
        case "%":
            return a % k, lambda env: f(env) % k
        case "&":
            return a & k, lambda env: f(env) & k
        case "<<":
            return a << k % 4, lambda env: f(env) << k % 4
        case ">>":
            return a >> k % 4, lambda env: f(env) >> k % 4
        case "//n":
            return a // N, lambda env: f(env) // env["n"]
        case _:
            return a % N, lambda env: f(env) % env["n"]


SIZES = st.sampled_from((1, 2, 3, 4, 6, 8, 12, 16, 32))
BINARY = (
    "+",
    "+",
    "+",
    "-",
    "-",
    "*",
    "&",
    "|",
    "^",
    "min",
    "max",
    "<",
    "<=",
    "==",
    "!=",
    "and",
    "or",
    "not",
    "select",
)
PAIRS = st.recursive(
    st.one_of(st.sampled_from(LEAVES).map(leaf), st.integers(-9, 40).map(integer)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(BINARY), inner, inner).map(binary),
        st.tuples(st.sampled_from(("*", "*", "//", "//", "%", "%", "&", "<<", ">>", "//n", "%n")), inner, SIZES).map(
            scaled
        ),
    ),
    max_leaves=9,
)


@settings(max_examples=400, deadline=None)
@given(PAIRS)
def test_simplified_expressions_keep_their_values_ranges_and_divisors(pair: Pair) -> None:
    e, reference = pair
    scalar = eval(f"lambda a, b, c, n, i, M: ({to_python(e, arrays=False)}) * 1")
    low, high = e.range
    expected = [reference(env) for env in VALUES]
    for env, value in zip(VALUES, expected, strict=True):
        assert low is None or low <= value, (e, env)
        assert high is None or value <= high, (e, env)
        assert value % e.divisor == 0 if e.divisor else value == 0, (e, env)
        assert scalar(**env) == value, (e, env)
    for env, value in zip(VALUES[::37], expected[::37], strict=True):
        assert evaluate(e, env) == value, (e, env)
    columns = {name: np.array([env[name] for env in VALUES]) for name in "abcniM"}
    vector = eval(f"lambda np, a, b, c, n, i, M: ({to_python(e)}) * 1")
    assert np.all(vector(np, **columns) == np.array(expected)), e
    assert np.all(evaluate(e, columns) == np.array(expected)), e


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.integers(0, 3))
def test_substitution_agrees_with_evaluation(pair: Pair, value: int) -> None:
    e, reference = pair
    replaced = substitute(e, {LEAVES[0]: value})
    for env in VALUES[::19]:
        assert evaluate(replaced, env) == reference({**env, "a": value}), (e, replaced)


def test_printed_c_computes_the_same_values(tmp_path: Path) -> None:
    found: list[Pair] = []

    @settings(max_examples=80, deadline=None, database=None)
    @given(PAIRS)
    def collect(pair: Pair) -> None:
        found.append(pair)

    collect()
    found.append((LEAVES[1] // 3, lambda env: env["b"] // 3))
    found.append((LEAVES[1] % 3 + LEAVES[1] // N, lambda env: env["b"] % 3 + env["b"] // env["n"]))
    rows = VALUES[::53]
    source = ["#include <stdio.h>"]
    for kind in ("min", "max"):
        sign = "<" if kind == "min" else ">"
        source.append(f"static long long {kind}(long long x, long long y) {{ return x {sign} y ? x : y; }}")
    source.append("int main(void) {")
    for env in rows:
        source.append("{ int " + ", ".join(f"{name} = {value}" for name, value in env.items()) + ";")
        source.extend(f'printf("%lld\\n", (long long)({to_c(e, wide=True)}));' for e, _ in found)
        source.append("(void)a; (void)b; (void)c; (void)n; (void)i; (void)M; }")
    source.append("return 0; }")
    file = tmp_path / "main.c"
    file.write_text("\n".join(source))
    subprocess.run(["gcc", "-w", "-O0", "-o", tmp_path / "main", file], check=True)
    printed = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout.split()
    expected = [reference(env) for env in rows for _, reference in found]
    for n, (value, want) in enumerate(zip(map(int, printed), expected, strict=True)):
        assert value == want, (to_c(found[n % len(found)][0]), rows[n // len(found)])
