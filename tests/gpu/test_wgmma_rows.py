"""Every row and descriptor form of wgmma, and bulk copies of every rank, on the hardware."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "atoms"))
from hopper_kernels import Tile, boxed, bulk_kernel, wgmma_arrays, wgmma_kernel

from fireiron.algebra.arch import native
from fireiron.algebra.dtypes import bf16, e4m3, f16, f32, i8, i32, tf32
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.tma import POLICIES
from fireiron.atoms.wgmma import WIDTHS, wgmma
from fireiron.jit.build import build
from fireiron.jit.driver import driver

SPANS = (128, 64, 32)


@pytest.fixture(autouse=True)
def needs_hopper(request):
    number = driver().compute_capability(0)
    if "wgmma" in request.node.name and number != 90:
        pytest.skip(f"wgmma is for sm_90a alone, this GPU is sm_{number}")
    if number < 90:
        pytest.skip(f"bulk copies need sm_90, this GPU is sm_{number}")


def built(kernel):
    return build(kernel.name, lambda: kernel, native(driver().compute_capability(0)), cache=False)


def multiplies(row, a, b, accumulate=True):
    """Run one product, and compare every register with the row's meaning."""
    given, (x, y, z) = wgmma_arrays(row, a, b, np.random.default_rng(row.shape[1]))
    got = np.asarray(built(wgmma_kernel(row, a, b, accumulate))(*given))
    wanted = meaning_of(row)(x, y, z if accumulate else np.zeros_like(z))
    assert np.array_equal(got.astype("f8"), wanted.ravel().astype("f8")), row.name


@pytest.mark.parametrize("n", WIDTHS)
def test_wgmma_rows_of_a_width(n):
    for row in wgmma(n):
        dtype = row.operands[1].dtype
        multiplies(row, Tile(64, dtype, 128) if row.operands[0].span else None, Tile(n, dtype, 128))


def rows(n, *names):
    return [row for row in wgmma(n) if row.name.split(".", 2)[2] in names]


@pytest.mark.parametrize("n", [8, 64, 128, 256])
@pytest.mark.parametrize(("a_span", "b_span"), list(itertools.product(SPANS, SPANS)))
def test_wgmma_descriptors_of_16_bit_elements(n, a_span, b_span):
    for row in rows(n, "f32.f16", "f32.bf16"):
        dtype = row.operands[1].dtype
        for a_major, b_major in itertools.product((True, False), (True, False)):
            multiplies(row, Tile(64, dtype, a_span, a_major), Tile(n, dtype, b_span, b_major))
    for row in rows(n, "f32.f16.ra"):
        for b_major in (True, False):
            multiplies(row, None, Tile(n, f16, b_span, b_major))


@pytest.mark.parametrize("dtype", [tf32, e4m3, i8], ids=str)
@pytest.mark.parametrize(("a_span", "b_span"), list(itertools.product(SPANS, SPANS)))
def test_wgmma_descriptors_of_other_elements(dtype, a_span, b_span):
    for n in (8, 96, 256):
        for row in (r for r in wgmma(n) if r.operands[1].dtype == dtype and r.operands[0].span):
            multiplies(row, Tile(64, dtype, a_span), Tile(n, dtype, b_span))


def test_wgmma_takes_sums_for_zero_where_told():
    for row in wgmma(64):
        dtype = row.operands[1].dtype
        tile = Tile(64, dtype, 128) if row.operands[0].span else None
        multiplies(row, tile, Tile(64, dtype, 128), accumulate=False)


def values(rng, dtype, shape):
    if dtype.kind == "int":
        return rng.integers(-100 if dtype.signed else 0, 100, shape).astype(dtype.numpy)
    return rng.integers(-64, 64, shape).astype(dtype.numpy)


# The second place lies partly outside: what lies there is neither read nor written.
@pytest.mark.parametrize("at", [(1, 0, 1, 8, 16), (2, 1, 3, 20, 60)])
@pytest.mark.parametrize("span", [0, *SPANS])
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_boxes_of_every_rank_and_span(rank, span, at):
    shape, box, at = (3, 2, 4, 24, 64)[-rank:], (1, 2, 2, 8, 8)[-rank:], at[-rank:]
    rng = np.random.default_rng(rank)
    for dtype in (f32, f16, i32) if span in (0, 128) else (f32,):
        x = values(rng, dtype, shape)
        at = (*at[:-1], at[-1] // (16 // dtype.nbytes) * (16 // dtype.nbytes))  # any other start is a trap
        part = boxed(x, box, at)
        for add in (False, True):
            before = values(rng, dtype, shape)
            wanted = before.copy()
            wanted[part] = (before[part] if add else 0) + x[part]
            out = before.copy()
            built(bulk_kernel(dtype, shape, box, at, span, add))(x, out=out)
            assert np.array_equal(out, wanted), (dtype, add)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_hints_to_the_l2_cache_move_the_same(rank, policy):
    shape, box, at = (3, 2, 4, 24, 64)[-rank:], (1, 2, 2, 8, 8)[-rank:], (2, 1, 3, 20, 60)[-rank:]
    rng = np.random.default_rng(rank)
    x = values(rng, f32, shape)
    part = boxed(x, box, at)
    for add in (False, True):
        before = values(rng, f32, shape)
        wanted, out = before.copy(), before.copy()
        wanted[part] = (before[part] if add else 0) + x[part]
        built(bulk_kernel(f32, shape, box, at, 0, add, policy=policy))(x, out=out)
        assert np.array_equal(out, wanted), add


def test_bf16_is_added_by_bulk_copies():
    x, out = np.ones((24, 64), bf16.numpy), np.full((24, 64), 2, bf16.numpy)
    built(bulk_kernel(bf16, (24, 64), (8, 8), (8, 8), 0, add=True))(x, out=out)
    assert (out[8:16, 8:16] == 3).all()
    assert (out.astype("f4").sum()) == 2 * 24 * 64 + 64
