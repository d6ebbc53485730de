"""Data of exact runs: every type holds it, partial sums in any order too, and no two places of it are alike."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.elements import pack, read
from fireiron.algebra.exact import Product, product, whole_numbers

FP8 = 2.0**13  # number up to which wgmma sums whole 8-bit floats exactly
# Operands, the number up to which sums are exact, and the result.
TYPES = (
    ("f64", "f64", "f64"), ("f32", "f32", "f32"), ("tf32", "f32", "f32"), ("f16", "f32", "f16"), ("f16", "f16", "f16"),
    ("bf16", "f32", "bf16"), ("bf16", "bf16", "bf16"), ("e4m3", FP8, "f32"), ("e5m2", FP8, "bf16"),
    ("e4m3", "f32", "e4m3"), ("f32", "f32", "e5m2"),
    ("i8", "i32", "i32"), ("i8", "i32", "i8"), ("u8", "i32", "i32"), ("i4", "i32", "i32"), ("u4", "i32", "i32"),
    ("i32", "i32", "i32"),
)  # fmt: skip
DEPTHS = (1, 2, 7, 8, 9, 17, 64, 100, 1024, 4096)
LINES, COLUMNS = 24, 20


def made(inside: str, sums: str | float, out: str, k: int) -> Product:
    kind, most = find_dtype(inside), whole_numbers(find_dtype(sums)) if isinstance(sums, str) else sums
    return product(k, kind, kind, most, whole_numbers(find_dtype(out)))


def drawn(plan: Product, seed: int = 0):
    rng = np.random.default_rng(seed)
    (a, f), (b, g) = plan.left.draw(rng, LINES), plan.right.draw(rng, COLUMNS)
    return a.astype(np.int64), b.astype(np.int64), f, g


@pytest.mark.product
@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize(("inside", "sums", "out"), TYPES)
def test_every_type_holds_operands_and_partial_sums(inside: str, sums: str | float, out: str, k: int) -> None:
    plan, kind, result = made(inside, sums, out, k), find_dtype(inside), find_dtype(out)
    a, b, f, g = drawn(plan)
    for x in (a, b):
        assert (x != 0).any(-1).all()
        if not kind.packed:
            assert (x.astype(kind.numpy).astype(np.float64) == x).all()
        elif k % kind.pack == 0:
            assert (read(pack(x, kind), kind) == x).all()
    c = a @ b.T
    if plan.closed:
        assert (c == f[:, None] + g[None, :] + plan.rest).all()
    if kind.kind == "float":
        assert (c.astype(result.numpy).astype(np.float64) == c).all()
        most = whole_numbers(find_dtype(sums)) if isinstance(sums, str) else sums
        terms = a[:, None, :] * b[None, :, :]
        orders = [np.arange(k), np.arange(k)[::-1], np.random.default_rng(1).permutation(k)]
        for order in orders:
            assert np.abs(np.cumsum(terms[..., order], -1)).max() <= most
        if plan.certain:  # whatever the order: all that are positive first, all that are negative first
            assert np.maximum(terms, 0).sum(-1).max() <= most
            assert np.minimum(terms, 0).sum(-1).min() >= -most
        for ways in (2, 4):  # of a split K
            for i in range(ways):
                assert np.abs(terms[..., i::ways].sum(-1)).max() <= most


@pytest.mark.parametrize(("inside", "sums", "out"), TYPES)
def test_no_term_and_no_chunk_can_be_lost(inside: str, sums: str | float, out: str) -> None:
    if (inside, sums) == ("bf16", "bf16"):
        pytest.skip("of 1024 terms in sums that end at 256 some are 0")
    a, b, _, _ = drawn(made(inside, sums, out, 1024))
    terms = a[:, None, :] * b[None, :, :]
    assert (terms != 0).all()
    for size in (8, 16, 32, 64, 256, 512):
        lost = terms.reshape(LINES, COLUMNS, -1, size).sum(-1)
        # Of each chunk most elements show the loss; that of a chunk for one element alone may cancel.
        assert ((lost != 0).mean((0, 1)) > 0.6).all()


@pytest.mark.parametrize(("inside", "sums", "out"), TYPES)
def test_places_differ(inside: str, sums: str | float, out: str) -> None:
    a, b, _, _ = drawn(made(inside, sums, out, 64))
    c = a @ b.T
    for x in (a, b, c, a.T, b.T, c.T):
        assert len(np.unique(x, axis=0)) > min(len(x), 16) / 2 or out in ("e4m3", "e5m2")
    for shift in (1, 8, 16):
        assert (np.roll(c, shift, 0) != c).any()
        assert (np.roll(c, shift, 1) != c).any()
        assert (np.roll(a, shift, 1) @ b.T != c).mean() > 0.6, "terms meet the wrong ones"
    square = a[:COLUMNS] @ b[:COLUMNS].T
    assert (square != square.T).any(), "rows and columns differ"


def test_operands_of_one_depth_fit_each_other() -> None:
    bf16, i8 = find_dtype("bf16"), find_dtype("i8")
    rng = np.random.default_rng(0)
    plans = [product(256, bf16, bf16, 2.0**24, out) for out in (256.0, 256.0)]
    a, f = plans[0].left.draw(rng, 2, 8)
    b, g = plans[1].right.draw(rng, 2, 4)
    assert (a @ b.swapaxes(-1, -2) == f[..., None] + g[:, None, :]).all()
    assert not np.array_equal(
        product(256, i8, i8, 1e9, 1e9, seed=1).left.index, product(256, i8, i8, 1e9, 1e9).left.index
    )


def test_bits_mostly_make_terms() -> None:
    b1 = find_dtype("b1")
    for kind in ("xor", "and"):
        plan = product(512, b1, b1, 2.0**31, 2.0**31, kind=kind)
        a, b, _, _ = drawn(plan)
        terms = a[:, None] ^ b[None] if kind == "xor" else a[:, None] & b[None]
        assert 0.7 < terms.mean() < 0.85
