"""The rows of the CUDA cores and the scalar operations, on the hardware, against their NumPy meanings."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron.algebra.arch import native
from fireiron.algebra.dtypes import DTYPES, e4m3, e5m2, tf32
from fireiron.algebra.expr import Var, as_expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import BINARY, OF_NUMBERS, Arg, Binary, Cast, Scalar, Select, Unary
from fireiron.algebra.unary import FUNCTIONS
from fireiron.atoms.meaning import meaning_of
from fireiron.atoms.table import TABLE, find
from fireiron.jit.build import build
from fireiron.jit.driver import driver
from fireiron.kernel.ir.statements import BLOCK, THREAD, Buffer, Call, Compute, Kernel, Pointer, View
from fireiron.language.levels import GL, RF, Thread
from fireiron.simulate.arithmetic import evaluate_scalar

THREADS, BLOCKS = 256, 32
COUNT = THREADS * BLOCKS
CONVERTS = {tf32: 80, e4m3: 89, e5m2: 89}  # by instructions, from these architectures on
# The hardware's functions are a few units off in the last place.
INEXACT = {name for name, function in FUNCTIONS.items() if not function.exact} - {"sqrt"} | {"pow"}
LANE = Var(BLOCK, BLOCKS) * THREADS + Var(THREAD, THREADS)


def pointer(name, dtype, size, output=False):
    buffer = Buffer(name, GL, dtype, as_expr(size), written=output, read=not output)
    return Pointer(buffer, (as_expr(size),), (as_expr(1),), "output" if output else "input")


def made(name, parameters, body, buffers=()):
    kernel = Kernel(name, tuple(parameters), as_expr(BLOCKS), THREADS, 0, tuple(buffers), tuple(body))
    return build(name, lambda: kernel, native(driver().compute_capability(0)), cache=False)


def differences(got, expected, *inputs):
    """List where two arrays differ in any bit, NaN being equal to NaN."""
    wide, wanted = got.astype(np.float64), expected.astype(np.float64)
    equal = (wide == wanted) & (np.signbit(wide) == np.signbit(wanted)) | np.isnan(wide) & np.isnan(wanted)
    return [(got[i], expected[i], *(x[i] for x in inputs)) for i in np.flatnonzero(~equal)[:5]]


@pytest.mark.parametrize("row", [r for r in TABLE if r.kind == "MatMul" and r.unit == Thread], ids=lambda row: row.name)
def test_a_row_means_what_the_hardware_does(row, draw):
    if driver().compute_capability(0) < row.arch:
        pytest.skip(f"{row.name} needs sm_{row.arch}")
    rng = np.random.default_rng(0)
    parameters, buffers, loads, views, arrays = [], [], [], [], []
    for operand in row.operands:
        n = operand.registers
        outside = pointer(f"{operand.role}_gl", operand.dtype, COUNT * n)
        own = View(Buffer(f"{operand.role}_rf", RF, operand.dtype, as_expr(n), unit=Thread), as_expr(0), Layout(n, 1))
        parameters.append(outside)
        buffers.append(own.buffer)
        views.append(own)
        copy = find(f"copy.{n * operand.dtype.nbytes}B.GL.RF")
        loads.append(Call(copy, (View(outside.buffer, LANE * n, Layout(n, 1)), own)))
        arrays.append(draw(rng, operand.dtype, COUNT * n))
    n = row.operands[2].registers
    result = pointer("D_gl", row.operands[2].dtype, COUNT * n, output=True)
    store = Call(find(copy.name.replace("GL.RF", "RF.GL")), (views[2], View(result.buffer, LANE * n, Layout(n, 1))))
    kernel = made("row", [*parameters, result], [*loads, Call(row, tuple(views)), store], buffers)
    got = kernel(*arrays)
    a, b, c = (x.reshape(1, COUNT, -1) for x in arrays)
    expected = meaning_of(row)(a, b, c)
    inputs = [np.broadcast_to(x, expected.shape).ravel() for x in (a, b, c)] if a.shape == c.shape else []
    assert differences(np.asarray(got), expected.ravel(), *inputs) == []


def trees(d, kinds):
    """List every operation on one type, and every conversion from it to others."""
    a, b = Arg(0, d), Arg(1, d)
    unary = [Unary(op, a) for op in FUNCTIONS if d.kind == "float" or FUNCTIONS[op].integers]
    total = Binary("add", Binary("mul", a, b), a)
    nested = [total, Binary("sub", a, total), Select(Binary("lt", a, b), a, Unary("neg", b))]
    return [
        *unary,
        *(Binary(op, a, b) for op in (BINARY if d.kind == "float" else OF_NUMBERS)),
        *(Cast(a, to) for to in kinds if to != d),
        *nested,
    ]


def is_function(tree: Scalar) -> bool:
    return isinstance(tree, Unary | Binary) and tree.op in INEXACT


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_scalars_mean_what_the_hardware_does(d, draw):
    capability = driver().compute_capability(0)
    kinds = [kind for kind in DTYPES if capability >= CONVERTS.get(kind, 0)]
    if d not in kinds:
        pytest.skip(f"converting {d} needs sm_{CONVERTS[d]}")
    rng = np.random.default_rng(1)
    x, y = draw(rng, d, COUNT), draw(rng, d, COUNT)
    if d.kind == "int":
        y[y == 0] = 1  # a quotient by zero is undefined
        x[x == np.iinfo(d.numpy).min] = 1  # and so is the one that overflows
    every = trees(d, kinds)
    inputs = (pointer("x", d, COUNT), pointer("y", d, COUNT))
    outputs = [pointer(f"out_{i}", tree.dtype, COUNT, output=True) for i, tree in enumerate(every)]
    views = tuple(View(p.buffer, LANE) for p in inputs)
    body = [Compute(View(p.buffer, LANE), tree, views) for p, tree in zip(outputs, every, strict=True)]
    results = made("scalars", [*inputs, *outputs], body)(x, y)
    wrong = {}
    with np.errstate(all="ignore"):
        for tree, got in zip(every, results, strict=True):
            expected = evaluate_scalar(tree, (x, y), {})
            if is_function(tree):
                wide, wanted = np.asarray(got).astype(np.float64), expected.astype(np.float64)
                least = float(np.finfo(np.float32).tiny) if d.bits < 64 else float(np.finfo(d.numpy).smallest_subnormal)
                known = FUNCTIONS.get(tree.op)
                roundings, stray = (known.roundings, known.stray) if known and d.bits < 64 else (0, 0.0)
                near = 8 * max(d.epsilon, 2.0**-52) + roundings * 2.0**-23
                assert np.allclose(wide, wanted, rtol=near, atol=8 * least + 2 * stray, equal_nan=True), tree
                continue
            if isinstance(tree, Binary) and tree.op in ("max", "min"):
                # Which of 0 and -0 is larger is left open, by C as by NumPy.
                got, expected = got + got.dtype.type(0), expected + expected.dtype.type(0)
            if found := differences(np.asarray(got), expected, x, y):
                wrong[str(tree)] = found
    assert wrong == {}
