"""Rows of wgmma and bulk copies: fragments cover their tiles once, meanings are products, and all compile."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hopper_kernels import Tile, bulk_kernel, wgmma_arrays, wgmma_kernel

from fireiron.algebra.arch import arch
from fireiron.algebra.dtypes import f16, f32, i8, u8
from fireiron.algebra.expr import as_int
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.table import chosen_from
from fireiron.atoms.wgmma import WIDTHS, wgmma, wgmma_near
from fireiron.cuda.printer import source
from fireiron.jit.compile import compile_source

HOPPER = arch("sm_90a")
EVERY = tuple(row for n in WIDTHS for row in wgmma(n))
FEW = tuple(row for n in (8, 96, 256) for row in wgmma(n))


def compiles(kernel):
    binary = compile_source(source(kernel), kernel.name, HOPPER)
    assert (binary.resources.spill_stores, binary.resources.stack) == (0, 0)
    return binary


def test_widths_are_those_of_the_manual():
    assert [row.shape[1] for row in EVERY if row.name.endswith("f32.f16")] == list(range(8, 257, 8))
    eight_bit = [8, 16, 24, 32, *range(48, 257, 16)]
    for dtype in ("i8", "u8"):
        assert [row.shape[1] for row in EVERY if row.name.endswith(f"i32.{dtype}")] == eight_bit
    assert len({row.name for row in EVERY}) == len(EVERY)


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.name)
def test_fragments_cover_their_tile_once(row):
    for operand in row.operands:
        if not operand.memory.registers:
            continue
        threads, registers = operand.layout[0], operand.layout[1]
        places = threads(np.arange(threads.size))[:, None] + registers(np.arange(registers.size))
        assert np.array_equal(np.sort(places, axis=None), np.arange(operand.shape[0] * operand.shape[1]))


@pytest.mark.parametrize("row", FEW, ids=lambda row: row.name)
def test_the_meaning_is_a_product_and_the_row_compiles(row):
    n, dtype = row.shape[1], row.operands[1].dtype
    a = Tile(64, dtype, 128) if row.operands[0].span else None
    b = Tile(n, dtype, 128)
    given, (x, y, z) = wgmma_arrays(row, a, b, np.random.default_rng(0))
    assert [len(g) for g in given] == [as_int(p.buffer.size) for p in wgmma_kernel(row, a, b).parameters[:3]]
    c = row.operand("C").layout
    places = c[0](np.arange(128))[:, None] + c[1](np.arange(c[1].size))
    if a is not None:
        product = (x[0].astype("f8") @ y[0].astype("f8")).ravel(order="F")
        assert np.array_equal(meaning_of(row)(x, y, z)[0].astype("f8"), product[places] + z[0].astype("f8"))
    assert f"m64n{n}k{row.shape[2]}" in compiles(wgmma_kernel(row, a, b)).ptx


@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize("majors", [(True, True), (True, False), (False, True), (False, False)])
def test_descriptors_say_how_tiles_lie(majors, span):
    (row,) = (r for r in wgmma(128) if r.name == "wgmma.m64n128k16.f32.f16")
    a, b = (Tile(lines, f16, span, k_major) for lines, k_major in zip((64, 128), majors, strict=True))
    text = source(wgmma_kernel(row, a, b))
    compiles(wgmma_kernel(row, a, b))
    mode = {128: 1, 64: 2, 32: 3}[span]
    found = re.findall(r"wgmma_operand<(\d+), (\d+), (\d+)>\(&\w+\[0\], (\d+)\)", text)
    assert [int(x[0]) for x in found] == [mode, mode]
    for (_, lead, stride, shift), tile in zip(found, (a, b), strict=True):
        assert int(stride) == 8 * span
        assert int(shift) == (span - 32 if tile.k_major else 0)
        assert int(lead) == (16 if tile.k_major or tile.lines <= tile.width else span * 16)


def test_a_tile_in_memory_is_swizzled_as_the_manual_says():
    tile = Tile(8, f16, 128)
    values = np.arange(8 * 16, dtype=f16.numpy).reshape(8, 16)
    flat = tile.placed(values)
    for line in range(8):
        # 16-byte units of a row of 128 bytes are permuted by the row's number.
        for unit in (6, 7):
            at = line * 64 + (unit ^ line) * 8
            assert np.array_equal(flat[at : at + 8], values[line, (unit - 6) * 8 : (unit - 5) * 8])


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_bulk_copies_of_every_rank_compile(rank, span, add):
    shape, box, at = (3, 2, 4, 24, 64)[-rank:], (1, 2, 2, 8, 8)[-rank:], (1, 0, 1, 8, 16)[-rank:]
    ptx = compiles(bulk_kernel(f32, shape, box, at, span, add)).ptx
    assert f"cp.async.bulk.tensor.{rank}d.shared::cluster" in ptx
    assert f"cp.{'reduce.' if add else ''}async.bulk.tensor.{rank}d.global" in ptx


def test_look_ups_find_the_nearest_width_of_each_type():
    near = {row.operands[0].dtype: row.shape[1] for row in wgmma_near(204)}
    assert (near[f16], near[i8], near[u8]) == (200, 208, 208)
    assert {row.shape[1] for row in chosen_from(None, (64, 1000, 16)) if row.name.startswith("wgmma")} == {256}
