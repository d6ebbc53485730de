"""Every row of mma and of ldmatrix on the hardware, against its declared layouts."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron.algebra.arch import native
from fireiron.algebra.dtypes import b1, f16, i32, tf32, u4, u8
from fireiron.algebra.elements import TF32_READ, pack
from fireiron.algebra.expr import Var, as_expr
from fireiron.algebra.layout import Layout
from fireiron.atoms.ldmatrix import LDMATRIX
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.mma import MMA
from fireiron.atoms.table import find
from fireiron.jit.build import build
from fireiron.jit.driver import driver
from fireiron.kernel.ir.statements import THREAD, Buffer, Call, Kernel, Pointer, Sync, View
from fireiron.language.levels import GL, RF, SH, Thread, Warp

LANES = 32
LANE = Var(THREAD, LANES)
ROW_NBYTES = 16


def copies(nbytes):
    """Split a thread's registers into copies of powers of two."""
    sizes = []
    while nbytes:
        sizes.append(min(16, nbytes & -nbytes))
        nbytes -= sizes[-1]
    return sizes


def vector(count):
    return Layout(count, 1) if count > 1 else Layout(1, 0)


def outside(name, dtype, count, output=False):
    buffer = Buffer(name, GL, dtype, as_expr(LANES * count), read=not output, written=output)
    return Pointer(buffer, (as_expr(LANES * count),), (as_expr(1),), "output" if output else "input")


def run(name, parameters, buffers, body, arrays, shared=0):
    kernel = Kernel("row", tuple(parameters), as_expr(1), LANES, shared, tuple(buffers), tuple(body))
    target = native(driver().compute_capability(0))
    return np.asarray(build(name, lambda: kernel, target, cache=False)(*arrays))


def drawn(rng, dtype, count):
    """Draw small whole numbers, whose sums are exact in every type; of tf32 with junk in the bits that are not read."""
    low, high = (max(-8, dtype.limits[0]), min(8, dtype.limits[1]))
    numbers = rng.integers(low, high + 1, count)
    if dtype.packed:
        return pack(numbers, dtype)
    if dtype != tf32:
        return numbers.astype(dtype.numpy)
    junk = rng.integers(0, 1 << 13, count, dtype=np.uint32)
    return ((numbers.astype(np.float32).view(np.uint32) & np.uint32(TF32_READ)) | junk).view(np.float32)


@pytest.mark.parametrize("row", MMA, ids=lambda row: row.name)
def test_a_row_means_what_the_hardware_does(row):
    if driver().compute_capability(0) < row.arch:
        pytest.skip(f"{row.name} needs sm_{row.arch}")
    rng = np.random.default_rng(0)
    parameters, buffers, body, views, arrays = [], [], [], [], []
    for operand in row.operands:
        dtype = operand.dtype
        n = operand.registers // dtype.pack  # packed elements travel as bytes
        pointer = outside(f"{operand.role}_gl", dtype, n)
        inside = Buffer(f"{operand.role}_fr", RF, dtype, as_expr(n), unit=Thread)
        parameters.append(pointer)
        buffers.append(inside)
        at = 0
        for nbytes in copies(n * dtype.nbytes):
            count = nbytes // dtype.nbytes
            pair = View(pointer.buffer, LANE * n + at, vector(count)), View(inside, as_expr(at), vector(count))
            body.append(Call(find(f"copy.{nbytes}B.GL.RF"), pair))
            at += count
        views.append(View(inside, as_expr(0), vector(n)))
        arrays.append(drawn(rng, dtype, LANES * operand.registers))
    c = row.operands[2]
    result = outside("D_gl", c.dtype, c.registers, output=True)
    body.append(Call(row, tuple(views)))
    for i in range(c.registers):
        pair = View(buffers[2], as_expr(i)), View(result.buffer, LANE * c.registers + i)
        body.append(Call(find(f"copy.{c.dtype.nbytes}B.RF.GL"), pair))
    got = run(row.name, [*parameters, result], buffers, body, arrays)
    wanted = meaning_of(row)(*(x.reshape(1, LANES, -1) for x in arrays))
    assert np.array_equal(got, wanted.ravel())


@pytest.mark.parametrize("row", LDMATRIX, ids=lambda row: row.name)
def test_ldmatrix_deals_out_as_its_layouts_say(row):
    src, dst = row.operands
    dtype = {32: i32, 16: f16, 8: u8, 4: u4, 1: b1}[row.nbytes * 8 // src.registers]
    line, held = src.registers // dtype.pack, dst.registers // dtype.pack  # of memory, and of one thread's fragment
    first = [int(src.layout[0](lane)) for lane in range(LANES)]
    number = len(set(first))  # lanes beyond give the addresses of the first ones again
    pointer, result = outside("X", dtype, line), outside("Y", dtype, held, output=True)
    shared = Buffer("x_sh", SH, dtype, as_expr(LANES * line), nbytes=LANES * ROW_NBYTES)
    fragment = Buffer("y_fr", RF, dtype, as_expr(held), unit=Thread)
    body = [
        Call(
            find("copy.16B.GL.SH"),
            (View(pointer.buffer, LANE * line, vector(line)), View(shared, LANE * line, vector(line))),
        ),
        Sync(Warp, "the rows are written before they are read"),
        Call(row, (View(shared, LANE % number * line, vector(line)), View(fragment, as_expr(0), vector(held)))),
    ]
    for i in range(held):
        body.append(
            Call(
                find(f"copy.{dtype.nbytes}B.RF.GL"), (View(fragment, as_expr(i)), View(result.buffer, LANE * held + i))
            )
        )
    # Pairs of bytes that tell all places apart.
    given = np.arange(LANES * ROW_NBYTES // 2, dtype=np.uint16).view(np.uint8).view(dtype.numpy)
    got = run(row.name, [pointer, result], [shared, fragment], body, [given], LANES * ROW_NBYTES)
    place = {first[lane] + int(src.layout[1](e)): (lane, e) for lane in range(number) for e in range(src.registers)}
    wanted = []
    for lane in range(LANES):
        for register in range(0, dst.registers, dtype.pack):
            at, element = place[int(dst.layout[0](lane)) + int(dst.layout[1](register))]
            wanted.append(given[at * line + element // dtype.pack])
    assert got.tobytes() == np.array(wanted, dtype.numpy).tobytes()
