"""Atoms that several threads execute together: their rows, their meaning on the simulator, and what compiles them."""

from __future__ import annotations

import numpy as np
import pytest
from warp_rows import CASES, kernel_of, numbers

from fireiron.algebra.arch import ARCHS
from fireiron.algebra.arch import arch as arch_of
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.quadpair import QUADPAIR
from fireiron.atoms.wmma import WMMA, WMMA_MOVES
from fireiron.cuda.printer import source
from fireiron.jit import nvrtc12
from fireiron.jit.compile import compile_source
from fireiron.simulate import simulate

QUADPAIRS = 4
OLD = pytest.mark.skipif(nvrtc12.find() is None, reason=f"NVRTC 12 is not installed: {nvrtc12.INSTALL}")


def places(operand):
    """List the coordinate of each (thread, register)."""
    threads, registers = operand.layout[0], operand.layout[1]
    return [[int(threads(t)) + int(registers(r)) for r in range(registers.size)] for t in range(threads.size)]


# hardware.md, section 4: mma.m8n8k4, hi being the upper half of the warp's lanes, i the register.
@pytest.mark.parametrize("row", QUADPAIR, ids=lambda row: row.name)
def test_m8n8k4_as_published(row):
    a_order, b_order = row.name.split(".")[2:4]
    a, b, c = (places(o) for o in row.operands)
    for thread in range(8):
        lane, hi = thread % 4, thread // 4
        for i in range(4):
            m, k = (lane + 4 * hi, i) if a_order == "row" else (i + 4 * hi, lane)
            assert a[thread][i] == m + 8 * k
            n, k = (lane + 4 * hi, i) if b_order == "col" else (i + 4 * hi, lane)
            assert b[thread][i] == k + 4 * n
        for i in range(8):
            if row.operands[2].dtype.name == "f32":
                m, n = (lane & 1) + (i & 2) + 4 * hi, (i & 4) + (lane & 2) + (i & 1)
            else:
                m, n = lane + 4 * hi, i
            assert c[thread][i] == m + 8 * n


@pytest.mark.parametrize("row", QUADPAIR, ids=lambda row: row.name)
def test_the_meaning_is_a_product(row):
    rng = np.random.default_rng(0)
    full = [rng.integers(-4, 5, (QUADPAIRS, *o.shape)).astype(o.dtype.numpy) for o in row.operands]
    held = [
        np.array([[[m.ravel(order="F")[c] for c in t] for t in places(o)] for m in each])
        for each, o in zip(full, row.operands, strict=True)
    ]
    a, b, c = (x.astype(np.float64) for x in full)
    wanted = (a @ b + c).swapaxes(1, 2).reshape(QUADPAIRS, -1)
    got = meaning_of(row)(*held)
    for unit in range(QUADPAIRS):
        for t, thread in enumerate(places(row.operands[2])):
            assert got[unit, t].tolist() == wanted[unit, thread].tolist()


@pytest.mark.parametrize("row", [*WMMA, *WMMA_MOVES], ids=lambda row: row.name)
def test_opaque_fragments_hold_what_the_isa_says(row):
    # PTX ISA, Matrix Fragments for WMMA: registers of 32 bits of A and of B, by element type and shape.
    words = {
        "f16": {(16, 16): 8, (32, 16): 8, (16, 8): 8, (8, 16): 8, (16, 32): 8},
        "bf16": {(16, 16): 4, (32, 16): 8, (16, 8): 2, (8, 16): 2, (16, 32): 8},
        "i8": {(16, 16): 2, (32, 16): 4, (16, 8): 1, (8, 16): 1, (16, 32): 4},
        "i4": {(8, 32): 1, (32, 8): 1},
        "b1": {(8, 128): 1, (128, 8): 1},
    }
    for operand in row.operands:
        assert bool(operand.opaque) == operand.memory.registers
        if operand.opaque and ".C." not in operand.opaque:
            kind = operand.dtype.name.replace("u8", "i8").replace("u4", "i4")
            assert operand.dtype.nbytes_of(operand.registers) == 4 * words[kind][operand.shape]
        if ".C." in operand.opaque:
            assert operand.registers == (2 if operand.shape == (8, 8) else 8)


def elements(packed, kind):
    """Take elements of fewer than 8 bits out of bytes, the first from the lowest bits."""
    x = packed.view(np.uint8).astype(np.int64)[:, None] >> kind.bits * np.arange(kind.pack) & (1 << kind.bits) - 1
    return (x - (x >> 3 << 4) if kind.signed else x).reshape(-1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(row.name for row in case))
def test_rows_run_on_the_simulator(case):
    kernel = kernel_of(*case)
    arrays = numbers(kernel)
    simulate(kernel, arrays)
    if len(case) == 1:
        return
    product, load_a, load_b, store = case
    m, n, k = product.shape

    def matrix(atom, name, rows, cols):
        kind = {"A_gl": product.operands[0].dtype, "B_gl": product.operands[1].dtype}.get(name)
        x = arrays[name].astype(np.int64) if kind is None or kind.pack == 1 else elements(arrays[name], kind)
        return x.reshape(rows, cols) if ".row." in atom.name else x.reshape(cols, rows).T

    a, b = matrix(load_a, "A_gl", m, k), matrix(load_b, "B_gl", k, n)
    wanted = (a[:, :, None] != b).sum(1) if product.product == "xor" else a @ b
    assert np.array_equal(matrix(store, "D_gl", m, n), wanted)


def compiled(case, target):
    kernel = kernel_of(*case)
    found = compile_source(source(kernel), "row", arch_of(target)).resources
    assert (found.spill_stores, found.spill_loads, found.stack, found.warnings) == (0, 0, 0, ())


@OLD
def test_rows_of_volta_compile_for_volta():
    for case in CASES[:: len(CASES) // 12]:
        if max(row.arch for row in case) <= 72:
            compiled(case, "sm_72")


@pytest.mark.exhaustive
@OLD
@pytest.mark.parametrize("target", [a.name for a in ARCHS])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(row.name for row in case))
def test_rows_compile_for_every_target(case, target):
    if max(row.arch for row in case) <= arch_of(target).number:
        compiled(case, target)
