"""Rows state their step, and what they compute follows from it and from where they round."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron.algebra.dtypes import bf16
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.rounding import fma_f64
from fireiron.atoms.table import every, find
from fireiron.language.as_steps import steps_of
from fireiron.language.atom import Atom
from fireiron.language.specs import MatMul
from fireiron.language.tensor import Matrix

BITS = ("redux.and.i32", "redux.or.i32", "redux.xor.i32")


def row(name: str) -> Atom:
    found = find(name)
    assert found is not None
    return found


def test_every_row_states_its_step() -> None:
    assert [atom.name for atom in every() if atom.step is None] == list(BITS)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("fma.f16x2", "C[m, n] = add over k of A[m, k] * B[k, n]"),
        ("mma.m16n8k256.i32.b1.xor", "C[m, n] = add over k of 1 - (A[m, k] == B[k, n])"),
        ("redux.max.i32", "dst[t] = max over other of src[other]"),
        ("shfl.idx.4B", "dst[t] = src[lane]"),
        ("red.add.f32", "dst[e] = dst[e] + src[e]"),
        ("ldmatrix.x4.A.b16", "dst[e] = src[e]"),
    ],
)
def test_steps_in_words(name: str, step: str) -> None:
    assert str(row(name).step) == step


def test_a_product_is_the_step_of_the_spec() -> None:
    """What a row sums is what a MatMul of its shape sums, to the expression."""
    atom = row("mma.m16n8k16.f32.f16")
    a, b, c = Matrix(16, 16, "f16", name="A"), Matrix(16, 8, "f16", name="B"), Matrix(16, 8, "f32", name="C")
    spec = steps_of(MatMul(a, b, c)).steps[0]
    assert atom.step is not None
    assert spec.fold is not None
    assert atom.step.fold is not None
    assert [str(ref) for ref in atom.step.reads] == [str(ref) for ref in spec.reads]
    assert atom.step.fold == spec.fold


def test_no_row_of_a_product_has_a_meaning_of_its_own() -> None:
    products = [atom for atom in every() if atom.kind in ("MatMul", "Reduce")]
    assert all(atom.numpy is None and meaning_of(atom) is not None for atom in products)


def test_where_a_sum_is_rounded() -> None:
    """1 + 2^-11 + 2^-11 in f16: rounded once it is 1 + 2^-10; after each product it stays 1."""
    once = meaning_of(row("mma.m16n8k8.f16.f16"))
    each = meaning_of(row("fma.f16"))
    assert once is not None
    assert each is not None
    small = np.full((1, 1, 1), 2.0**-11, np.float16)
    one = np.ones((1, 1, 1), np.float16)
    assert float(each(small, one, each(small, one, one)).item()) == 1.0
    a = np.zeros((1, 32, 4), np.float16)
    a[0, 0, :2] = 2.0**-11  # row 0, columns 0 and 1
    found = once(a, np.ones((1, 32, 2), np.float16), np.ones((1, 32, 4), np.float16))
    assert float(found[0, 0, 0]) == 1 + 2.0**-10
    assert float(found[0, 4, 0]) == 1.0


def test_rounding_through_f32_differs() -> None:
    a, b, c = (np.full((1, 1, 1), x).astype(bf16.numpy) for x in (3.0, 87 / 256, 2.0**-80))
    fused, twice = meaning_of(row("fma.bf16")), meaning_of(row("fma.bf16.via.f32"))
    assert fused is not None
    assert twice is not None
    assert float(fused(a, b, c).item()) != float(twice(a, b, c).item())


def test_a_row_that_says_nothing_has_no_meaning() -> None:
    assert meaning_of(attrs.evolve(row("fma.f32"), rounding="")) is None
    dot = attrs.evolve(row("fma.f32"), rounding="", numpy=lambda a, b, c: c - a * b)
    assert meaning_of(dot) is dot.numpy


def test_integers_wrap() -> None:
    total = meaning_of(row("dp4a.i8"))
    assert total is not None
    a = np.full((1, 1, 4), 127, np.int8)
    assert int(total(a, a, np.full((1, 1, 1), 2**31 - 1, np.int32)).item()) == 2**31 - 1 + 4 * 127**2 - 2**32


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_products_of_short_floats_add_up_in_f64(kind: Any) -> None:
    """A row of short operands with an accumulator of f64, which a user may add, rounds no product to the short type."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(1000).astype(k) for k in (kind, kind, np.float64))
    wanted = [float(Fraction(float(x)) * Fraction(float(y)) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert np.array_equal(fma_f64(a, b, c), wanted)
