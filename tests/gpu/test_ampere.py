"""Tensor cores on the GPU: every mma row against its meaning, and the preset in every dtype and layout."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import conform, matmul, saturate, scale, through_shared
from fireiron.algebra.arch import native
from fireiron.algebra.expr import Var, as_expr
from fireiron.algebra.layout import Layout
from fireiron.atoms.mma import MMA
from fireiron.atoms.table import find
from fireiron.cuda.printer import source
from fireiron.front.simulation import random_arrays
from fireiron.jit.build import build
from fireiron.jit.driver import driver
from fireiron.jit.interface import Interface
from fireiron.kernel.ir import THREAD, Buffer, Call, Kernel, Pointer, View
from fireiron.language.levels import GL, RF, Thread
from fireiron.schedules import ampere

LANES = 32


def copies(nbytes):
    """Split a thread's registers into copies of powers of two."""
    sizes = []
    while nbytes:
        sizes.append(min(16, nbytes & -nbytes))
        nbytes -= sizes[-1]
    return sizes


@pytest.mark.parametrize("row", MMA, ids=lambda row: row.name)
def test_a_row_means_what_the_hardware_does(row):
    rng = np.random.default_rng(0)
    parameters, buffers, body, views, arrays = [], [], [], [], []
    lane = Var(THREAD, LANES)
    for operand in row.operands:
        n, size = operand.registers, operand.dtype.nbytes
        outside = Buffer(f"{operand.role}_gl", GL, operand.dtype, as_expr(LANES * n), read=True, written=False)
        inside = Buffer(f"{operand.role}_fr", RF, operand.dtype, as_expr(n), unit=Thread)
        parameters.append(Pointer(outside, (as_expr(LANES * n),), (as_expr(1),), "input"))
        buffers.append(inside)
        at = 0
        for nbytes in copies(n * size):
            count = nbytes // size
            layout = Layout(count, 1) if count > 1 else Layout(1, 0)
            views_ = (View(outside, lane * n + at, layout), View(inside, as_expr(at), layout))
            body.append(Call(find(f"copy.{nbytes}B.GL.RF"), views_))
            at += count
        views.append(View(inside, as_expr(0), Layout(n, 1)))
        low = 0 if operand.dtype.name == "u8" else -8
        arrays.append(rng.integers(low, 9, LANES * n).astype(operand.dtype.numpy))  # sums are exact in every type
    c = row.operands[2]
    result = Buffer("D_gl", GL, c.dtype, as_expr(LANES * c.registers), read=False, written=True)
    parameters.append(Pointer(result, (as_expr(LANES * c.registers),), (as_expr(1),), "output"))
    body.append(Call(row, tuple(views)))
    for i in range(c.registers):
        views_ = (View(buffers[2], as_expr(i)), View(result, lane * c.registers + i))
        body.append(Call(find(f"copy.{c.dtype.nbytes}B.RF.GL"), views_))
    kernel = Kernel("row", tuple(parameters), as_expr(1), LANES, 0, tuple(buffers), tuple(body))
    target = native(driver().compute_capability(0))
    got = build(row.name, lambda: (kernel, source(kernel)), target, cache=False)(*arrays)
    wanted = row.numpy(*(x.reshape(1, LANES, -1) for x in arrays))
    assert np.array_equal(np.asarray(got), wanted.ravel())


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u8", "f64"])
def test_gemm(dtype, layout):
    for shape in ((256, 384, 160), (130, 76, 52), (61, 45, 33)):
        schedule = ampere.gemm(matmul(*shape, dtype, layout=layout))
        arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=1)
        a, b = (arrays[x].astype("f8") for x in "AB")
        a, b = a.T if layout[1] == "T" else a, b.T if layout[0] == "T" else b
        got = schedule.compile()(arrays["A"], arrays["B"], out=arrays["C"]).astype("f8")
        kinds = schedule.matmul
        room = (shape[2] + 4) * kinds.accumulator.epsilon * (np.abs(a) @ np.abs(b)) + kinds.C.dtype.epsilon * np.abs(
            a @ b
        )
        assert (np.abs(got - a @ b) <= room).all()


@pytest.mark.parametrize(
    "more",
    [
        {}, {"slots": 1}, {"slots": 3}, {"ring": 1}, {"stages": 2}, {"stages": 3, "k": 64},
        {"m": 64, "n": 64, "warp": (32, 32), "k": 16},
        {"n": 128, "store": conform()}, {"n": 128, "fragments": conform()},
        {"store": through_shared(panel=(32, 256), pad=8)},
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(512, 512, 1024), (200, 328, 136)])
def test_pipelines_and_stores(shape, more):
    schedule = ampere.gemm(matmul(*shape, "f16", layout="TN"), **more)
    arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=2)
    a, b = arrays["A"].astype("f8"), arrays["B"].astype("f8").T
    got = schedule.compile()(arrays["A"], arrays["B"], out=arrays["C"]).astype("f8")
    room = (shape[2] + 4) * 2.0**-24 * (np.abs(a) @ np.abs(b)) + 2.0**-11 * np.abs(a @ b)
    assert (np.abs(got - a @ b) <= room).all()


@pytest.mark.parametrize(("dtype", "low", "high"), [("i8", -128, 127), ("u8", 0, 255)])
def test_scaled_and_saturated_integers(dtype, low, high):
    schedule = ampere.gemm(matmul(256, 512, 320, dtype, layout="TN", out=dtype), ops=(scale(0.03125), saturate(dtype)))
    arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=3)
    total = arrays["A"].astype("i8") @ arrays["B"].astype("i8").T
    got = schedule.compile()(arrays["A"], arrays["B"], out=arrays["C"])
    assert np.array_equal(got, np.clip(np.rint(total * 0.03125), low, high).astype(got.dtype))


@pytest.mark.parametrize("step", [4, 8, 16])
def test_f64_by_sixteen_rows(step):
    schedule = ampere.gemm(matmul(256, 192, 160, "f64"), step=step)
    arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=4)
    got = schedule.compile()(arrays["A"], arrays["B"], out=arrays["C"])
    assert np.allclose(got, arrays["A"] @ arrays["B"], rtol=1e-12, atol=1e-12)
