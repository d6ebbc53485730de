"""Rows of mma, ldmatrix and cp.async: fragments cover their tiles once, fit each other, and compile."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron.algebra.arch import arch
from fireiron.algebra.elements import pack
from fireiron.atoms.cp_async import CP_ASYNC
from fireiron.atoms.ldmatrix import LDMATRIX
from fireiron.atoms.meaning import meaning_of
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
    full = [rng.integers(max(-4, o.dtype.limits[0]), min(4, o.dtype.limits[1]) + 1, o.shape) for o in row.operands]
    held = [
        pack(np.array([[m.ravel(order="F")[c] for c in t] for t in places(o)]), o.dtype).astype(o.dtype.numpy)[None]
        for m, o in zip(full, row.operands, strict=True)
    ]
    a, b, c = full
    got = meaning_of(row)(*held)[0]
    terms = {"mul": np.multiply, "xor": np.bitwise_xor, "and": np.bitwise_and}[row.product]
    wanted = (terms(a[:, :, None], b[None]).sum(1) + c).ravel(order="F")
    assert all(got[t][r] == wanted[x] for t, thread in enumerate(places(row.operands[2])) for r, x in enumerate(thread))


# PTX ISA 9.7.14.5, figures of each shape; with g = lane >> 2 and t = lane & 3: (row, column) of element i.
PUBLISHED = {
    "mma.m16n8k8.f32.tf32": (
        lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i // 2)),
        lambda g, t, i: (t + 4 * i, g),
    ),
    "mma.m16n8k4.f32.tf32": (lambda g, t, i: (g + 8 * i, t), lambda g, t, i: (t, g)),
    "mma.m16n8k16.f32.e4m3": (
        lambda g, t, i: (g if i < 4 else g + 8, t * 4 + i % 4),
        lambda g, t, i: (t * 4 + i, g),
    ),
    "mma.m16n8k32.f32.e5m2": (
        lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + i % 4 + (0 if i < 8 else 16)),
        lambda g, t, i: (t * 4 + i % 4 + (0 if i < 4 else 16), g),
    ),
    "mma.m8n8k32.i32.i4": (lambda g, t, i: (g, t * 8 + i), lambda g, t, i: (t * 8 + i, g)),
    "mma.m16n8k32.i32.u4": (
        lambda g, t, i: (g if i < 8 else g + 8, t * 8 + i % 8),
        lambda g, t, i: (t * 8 + i, g),
    ),
    "mma.m16n8k64.i32.i4": (
        lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8, t * 8 + i % 8 + (0 if i < 16 else 32)),
        lambda g, t, i: (t * 8 + i % 8 + (0 if i < 8 else 32), g),
    ),
    "mma.m8n8k128.i32.b1.xor": (lambda g, t, i: (g, t * 32 + i), lambda g, t, i: (t * 32 + i, g)),
    "mma.m16n8k128.i32.b1.and": (
        lambda g, t, i: (g if i < 32 else g + 8, t * 32 + i % 32),
        lambda g, t, i: (t * 32 + i, g),
    ),
    "mma.m16n8k256.i32.b1.xor": (
        lambda g, t, i: (g if i < 32 or 64 <= i < 96 else g + 8, t * 32 + i % 32 + (0 if i < 64 else 128)),
        lambda g, t, i: (t * 32 + i % 32 + (0 if i < 32 else 128), g),
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_fragments_as_published(name):
    row = next(r for r in MMA if r.name == name)
    for operand, place in zip(row.operands, PUBLISHED[name], strict=False):
        for lane, held in enumerate(places(operand)):
            for i, found in enumerate(held):
                m, k = place(lane >> 2, lane & 3, i)
                assert found == m + operand.shape[0] * k


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
    for bits in (32, 8, 4, 1):
        assert {f"ldmatrix.x4.A.b{bits}", f"ldmatrix.x2.B.b{bits}"} <= set(fits)


@pytest.mark.parametrize("row", [*MMA, *LDMATRIX, *CP_ASYNC], ids=lambda row: row.name)
def test_wrappers_compile(row):
    types = "struct half { unsigned short bits; };\n"
    size = 16 * 16
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
