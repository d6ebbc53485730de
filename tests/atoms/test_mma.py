"""Rows of mma, ldmatrix and cp.async: fragments cover their tiles once, fit each other, and compile."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron.algebra.arch import arch
from fireiron.atoms.cp_async import CP_ASYNC
from fireiron.atoms.ldmatrix import LDMATRIX
from fireiron.atoms.mma import MMA
from fireiron.jit.compile import compile_source


def places(operand):
    """List the coordinate of each (thread, register)."""
    threads, registers = operand.layout[0], operand.layout[1]
    return [[int(threads(t)) + int(registers(r)) for r in range(registers.size)] for t in range(threads.size)]


@pytest.mark.parametrize("row", MMA, ids=lambda row: row.name)
def test_fragments_cover_their_tile_once(row):
    for operand in row.operands:
        flat = [c for thread in places(operand) for c in thread]
        assert sorted(flat) == list(range(operand.shape[0] * operand.shape[1]))


@pytest.mark.parametrize("row", MMA, ids=lambda row: row.name)
def test_the_meaning_is_a_product(row):
    rng = np.random.default_rng(0)
    low = 0 if row.operands[0].dtype.name == "u8" else -4
    full = [rng.integers(low, 5, o.shape).astype(o.dtype.numpy) for o in row.operands]
    held = [
        np.array([[m.ravel(order="F")[c] for c in t] for t in places(o)])[None]
        for m, o in zip(full, row.operands, strict=True)
    ]
    a, b, c = (m.astype(np.float64) for m in full)
    got = row.numpy(*held)[0]
    wanted = (a @ b + c).ravel(order="F")
    assert all(got[t][r] == wanted[x] for t, thread in enumerate(places(row.operands[2])) for r, x in enumerate(thread))


# hardware.md, section 4: mma.m16n8k16 with g = lane >> 2 and t = lane & 3.
def test_m16n8k16_as_published():
    row = next(r for r in MMA if r.name == "mma.m16n8k16.f32.f16")
    a, b, c = (places(o) for o in row.operands)
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for i in range(8):
            m, k = g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >> 2)
            assert a[lane][i] == m + 16 * k
        for i in range(4):
            assert b[lane][i] == 2 * t + (i & 1) + 8 * (i >> 1) + 16 * g
            assert c[lane][i] == g + 8 * (i >> 1) + 16 * (2 * t + (i & 1))


@pytest.mark.parametrize("row", LDMATRIX, ids=lambda row: row.name)
def test_ldmatrix_deals_out_what_it_reads(row):
    src, dst = (places(o) for o in row.operands)
    assert {c for t in src for c in t} == {c for t in dst for c in t} == set(range(row.shape[0]))


def test_ldmatrix_gives_the_fragments_of_mma():
    held = {(o.role, o.shape, o.layout) for r in MMA for o in r.operands}
    fits = [r.name for r in LDMATRIX if (r.name.split(".")[-2], r.operands[1].shape, r.operands[1].layout) in held]
    assert {"ldmatrix.x4.A.b16", "ldmatrix.x4.trans.A.b16", "ldmatrix.x2.B.b16", "ldmatrix.x2.trans.B.b16"} <= set(fits)


@pytest.mark.parametrize("row", [*MMA, *LDMATRIX, *CP_ASYNC], ids=lambda row: row.name)
def test_wrappers_compile(row):
    types = "struct half { unsigned short bits; };\n"
    size = 16 * 8
    names = [o.role for o in row.operands]
    places_ = ", ".join(f"{name}[{size}]" for name in names)
    text = row.call.format_map({name: f"{name}[0]" for name in names})
    body = (
        f"__shared__ __align__(16) char {places_};\n    {text}"
        if row.kind == "Move"
        else f"alignas(16) char {places_};\n    {text}"
    )
    source = (
        f'{types}{row.cuda}extern "C" __global__ void k(char* out) {{\n    {body}\n    out[0] = {names[-1]}[0];\n}}\n'
    )
    if row in CP_ASYNC:
        source = source.replace("&src[0]", "out + 16")
    compile_source(source, "k", arch("sm_90a" if row.arch == 90 else f"sm_{row.arch}"))
