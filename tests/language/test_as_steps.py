"""Specs and chains as programs of steps: every kind in einsum's words, and nothing that computes is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fireiron as fi
from fireiron import A, B, ColMajor, Matrix, Vector, add, matmul, products, relu, row_max, row_sum, save, scale
from fireiron.language.steps import Ragged, check_program
from fireiron.language.words import program_in_words


def vector(extent: int, name: str, **more: Any) -> Any:
    return Vector(extent, name=name, **more)


def glu() -> Any:
    x, y, g, u = (Matrix(64, 64, "f16", name=name) for name in ("x", "y", "G", "U"))
    return products(y, (x, g), [(x, u), (x, g)], op=lambda gate, up: gate * up)


def stack() -> Any:
    x, y = Matrix(32, 16, "f16", name="X"), Matrix(32, 16, "f16", name="Y")
    w, v = Matrix(16, 16, "f16", name="W", batch=3), Matrix(16, 16, "f16", name="V")
    return fi.layers(y, x, (v, relu), (w, lambda acc: acc + Matrix(1, 16, name="b", batch=3)))


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "one step": (lambda: matmul(64, 32, 16), "C[m, n] = add over k of A[m, k] * B[k, n]"),
    "a result of another type": (
        lambda: matmul(64, 32, 16, "f16"),
        "acc[m, n] = add over k of A[m, k] * B[k, n]\nC[m, n]   = f16(acc[m, n])",
    ),
    "alpha and beta": (
        lambda: matmul(64, 32, 16, alpha="s", beta=0.5),
        "acc[m, n] = add over k of A[m, k] * B[k, n]\nC[m, n]   = acc[m, n] * s + C[m, n] * 0.5",
    ),
    "a batch": (
        lambda: matmul(64, 32, 16, batch=3).then(add(Matrix(1, 32, name="bias", batch=3))),
        "acc[b, m, n] = add over k of A[b, m, k] * B[b, k, n]\nC[b, m, n]   = acc[b, m, n] + bias[b, 0, n]",
    ),
    "bits": (lambda: matmul(64, 32, 64, "b1"), "C[m, n] = add over k of 1 - (A[m, k] == B[k, n])"),
    "common bits": (lambda: matmul(64, 32, 64, "b1", product="and"), "C[m, n] = add over k of A[m, k] * B[k, n]"),
    "a prolog whose values serve neighbours": (
        lambda: matmul(64, 32, 16).prolog(A, scale(Matrix(64, 4, name="s"))).prolog(B, relu),
        "A_prolog[m, k] = A[m, k] * s[m, k // 4]\n"
        "B_prolog[k, n] = max(B[k, n], 0)\n"
        "C[m, n]        = add over k of A_prolog[m, k] * B_prolog[k, n]",
    ),
    "what is stored on the way": (
        lambda: matmul(64, 32, 16).then(relu, save(Matrix(64, 32, "f16", name="h")), scale(2.0)),
        "acc[m, n]  = add over k of A[m, k] * B[k, n]\n"
        "acc2[m, n] = max(acc[m, n], 0)\n"
        "h[m, n]    = f16(acc2[m, n])\n"
        "C[m, n]    = acc2[m, n] * 2",
    ),
    "rows": (
        lambda: matmul(64, 32, 16).then(row_sum(vector(64, "total", along=ColMajor)), relu),
        "acc[m, n]   = add over k of A[m, k] * B[k, n]\n"
        "total[m, 0] = add over n of acc[m, n]\n"
        "C[m, n]     = max(acc[m, n], 0)",
    ),
    "rows of several tiles": (
        lambda: matmul(64, 32, 16).then(row_max(Matrix(64, 4, name="top"))),
        "acc[m, n] = add over k of A[m, k] * B[k, n]\n"
        "top[m, t] = max over c of acc[m, t * 8 + c else -inf]\n"
        "C[m, n]   = acc[m, n]",
    ),
    "a swapped product": (
        lambda: matmul(64, 32, 16).swap().then(add(vector(32, "bias"))),
        "acc[n, m] = add over k of B[n, k] * A[k, m]\nC[n, m]   = acc[n, m] + bias[n]",
    ),
    "groups": (
        lambda: matmul(64, 32, 16, groups=4),
        "C[m, n] = add over k of A[m, k] * B[g, k, n], m in g up to offsets[g]",
    ),
    "several products": (
        glu,
        "gate[m, n] = add over k of x[m, k] * G[k, n]\n"
        "up_0[m, n] = add over k of x[m, k] * U[k, n]\n"
        "up_1[m, n] = add over k of x[m, k] * G[k, n]\n"
        "up[m, n]   = up_0[m, n] + up_1[m, n]\n"
        "y[m, n]    = f16(gate[m, n] * up[m, n])",
    ),
    "layers": (
        stack,
        "acc[m, d1]  = add over d0 of X[m, d0] * V[d0, d1]\n"
        "h[m, d1]    = f16(max(acc[m, d1], 0))\n"
        "for l1 of 3, h2 = h at first:\n"
        "  acc2[m, d2] = add over d1 of h2[m, d1] * W[l1, d1, d2]\n"
        "  h2[m, d2]   = f16(acc2[m, d2] + b[l1, 0, d2])\n"
        "Y[m, d2]    = h2[m, d2]",
    ),
    "a move": (lambda: fi.Move(Matrix(4, 4), Matrix(4, 4, "f16")), "Y[m, n] = f16(X[m, n])"),
    "an init": (lambda: fi.Init(Matrix(4, 4), 1.5), "Y[m, n] = f32(1.5)"),
    "a pointwise one": (
        lambda: fi.Pointwise(lambda x, v: x * 2 + v, Matrix(4, 8, name="x"), vector(8, "v"), Matrix(4, 8, name="y")),
        "y[m, n] = x[m, n] * 2 + v[n]",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_spec_prints_its_steps(case: str) -> None:
    made, expected = CASES[case]
    assert str(made()).splitlines()[1:] == [f"  {line}" for line in expected.splitlines()]
    check_program(made().steps, updated=frozenset("C"))


def test_a_chain_completes_its_spec() -> None:
    """An accumulator's type, a conversion of a load, and an epilog's first value are part of what a chain computes."""
    chain = matmul(64, 32, 16).tile(64, 32).to(fi.Block).epilog(relu, dtype="f64", init=1.0).load(A, fi.SH, dtype="f16")
    assert program_in_words(chain.steps).splitlines()[1:] == [
        "  acc[m, n]  = add over k of f16(A[m, k]) * B[k, n]",
        "  acc2[m, n] = acc[m, n] + 1",
        "  C[m, n]    = f32(max(acc2[m, n], 0))",
    ]


def test_names_that_users_took_are_left_to_them() -> None:
    spec = matmul(64, 32, 16).then(add(vector(32, "acc")))
    assert [step.name for step in spec.steps.steps] == ["acc2", "C"]


def test_a_dim_of_groups() -> None:
    (m,) = [d for d in matmul(64, 32, 16, groups=4).steps.dims if isinstance(d, Ragged)]
    assert (m.name, m.of.name, m.ends.name) == ("m", "g", "offsets")
    assert "m 64 (of g up to offsets[g])" in program_in_words(matmul(64, 32, 16, groups=4).steps)


def test_what_a_program_reads_and_writes() -> None:
    spec = matmul(64, 32, 16, groups=4, beta=1.0).then(save(Matrix(64, 32, name="h")), add(vector(32, "bias")))
    assert [t.name for t in spec.steps.inputs] == ["A", "B", "offsets", "C", "bias"]
    assert [t.name for t in spec.steps.outputs] == ["C", "h"]
