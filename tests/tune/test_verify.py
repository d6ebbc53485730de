"""Random vectors find what is wrong with a product, and pass what rounding explains."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import matmul
from fireiron.algebra.dtypes import DTYPES, bf16, f16, f32, f64, i8, i32
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.elements import read
from fireiron.algebra.exact import whole_numbers
from fireiron.tune.session import comparison
from fireiron.tune.verify import Rounding, exact_product, wrong_product

KINDS = [Rounding(f16, f32, f16), Rounding(bf16, f32, bf16), Rounding(f32, f32, f32), Rounding(f64, f64, f64)]
KINDS += [Rounding(i8, i32, i32), Rounding(f16, f32, f32)]


def product(kind: Rounding, m: int = 96, n: int = 80, k: int = 512, batch: int | None = None):
    rng = np.random.default_rng(3)
    lead = () if batch is None else (batch,)
    if kind.inside.kind == "int":
        a, b = (rng.integers(-8, 9, (*lead, *s)).astype(np.int8) for s in ((m, k), (k, n)))
        return a, b, a.astype(np.int32) @ b.astype(np.int32)
    a, b = (rng.standard_normal((*lead, *s)).astype(kind.inside.numpy) for s in ((m, k), (k, n)))
    wide = np.float64 if kind.acc.name == "f64" else np.float32
    return a, b, (a.astype(wide) @ b.astype(wide)).astype(kind.outside.numpy)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_right_products_pass_and_wrong_ones_do_not(kind: Rounding) -> None:
    a, b, c = product(kind)
    assert wrong_product(a, b, c, kind) == ""
    for spoil in (_one_element, _a_tile_swapped, _a_chunk_of_k_missing):
        assert wrong_product(a, b, spoil(a, b, c), kind), spoil.__name__
    if kind.outside.kind == "float":
        holes = c.copy()
        holes[5, 7] = np.nan
        assert "NaN" in wrong_product(a, b, holes, kind)


@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e4m3", "i8", "i4"])
def test_exact_operands_have_the_product_that_is_said(name: str, layout: str) -> None:
    spec = matmul(40, 24, 96, name, layout="TN" if name == "i4" else layout, batch=None if name == "i4" else 2).matmul
    arrays = exact_product(spec, whole_numbers(spec.accumulator))
    assert arrays is not None
    a, b, c = (
        read(arrays[t.name], t.dtype).astype(np.float64).transpose(np.argsort(t.storage))
        for t in (spec.A, spec.B, spec.C)
    )
    assert (a @ b == c).all()
    assert a.shape == tuple(spec.A.shape)


def test_no_exact_operands_of_bits_and_short_sums() -> None:
    assert exact_product(matmul(8, 8, 64, "b1", layout="TN").matmul, 2.0**24) is None
    assert exact_product(matmul(8, 8, 64, "u8").matmul, 2.0**24) is None
    assert exact_product(matmul(8, 8, 4, "f16").matmul, 2.0**24) is None


def test_batches_are_named() -> None:
    kind = KINDS[0]
    a, b, c = product(kind, batch=3)
    assert wrong_product(a, b, c, kind) == ""
    c[1, 0, 0] += 100
    assert wrong_product(a, b, c, kind).startswith("batch 1: 1 of 96 rows")


def _one_element(a, b, c):
    spoiled = c.copy()
    spoiled[17, 33] += np.asarray(30).astype(c.dtype)
    return spoiled


def _a_tile_swapped(a, b, c):
    spoiled = c.copy()
    spoiled[16:32, :16], spoiled[32:48, :16] = c[32:48, :16], c[16:32, :16]
    return spoiled


def _a_chunk_of_k_missing(a, b, c):
    wide = np.int32 if c.dtype.kind == "i" else np.float64
    return (a[:, :-16].astype(wide) @ b[:-16].astype(wide)).astype(c.dtype)


def test_sums_of_bytes_may_lose_bits_and_others_not() -> None:
    f32, e4m3, f16 = (find_dtype(name) for name in ("f32", "e4m3", "f16"))
    assert Rounding(e4m3, f32, f32).of_sums(4096) > 50 * Rounding(f16, f32, f32).of_sums(4096)


@pytest.mark.parametrize("name", [kind.name for kind in DTYPES])
def test_the_comparison_kernel_compiles(name: str) -> None:
    from fireiron.algebra.arch import arch
    from fireiron.jit.compile import compile_source

    binary = compile_source(comparison(find_dtype(name)), "compare", arch("sm_90a"))
    assert not binary.resources.spills
