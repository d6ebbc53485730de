"""Every listing and preset on the GPU, against NumPy in f64, within the bound of its dtype."""

from __future__ import annotations

import numpy as np
import pytest
from verified import verified

from fireiron import (
    RF,
    SH,
    A,
    B,
    Block,
    Layout,
    Matrix,
    Move,
    RowMajor,
    Thread,
    Vector,
    Warp,
    add,
    matmul,
    relu,
    symbol,
    vector,
)
from fireiron.jit.interface import Interface
from fireiron.language.decompositions import Epilog
from fireiron.schedules import simt
from fireiron.verify.random_data import random_arrays

PRESETS = [simt.listing1, simt.listing2, simt.listing4, simt.sgemm]
SHAPES = [(256, 384, 128), (257, 130, 67), (33, 500, 9)]


def check(schedule, numbers=None, expect=None, **sizes):
    """Run a MatMul's schedule and compare, on whole numbers too.

    |error| <= (K + 2) eps_acc |A||B| plus one rounding to C's type; integers are exact.
    """
    spec = schedule.matmul
    arrays = random_arrays(Interface.of(schedule.lowered()), sizes, seed=1)
    plain = {
        t.name: arrays[t.name] if t.storage == tuple(range(len(t.shape))) else arrays[t.name].swapaxes(-1, -2)
        for t in (spec.A, spec.B)
    }
    wide = np.float64 if spec.A.dtype.kind == "float" else np.int64
    a, b = (plain[t.name].astype(wide) for t in (spec.A, spec.B))
    before = {name: x.astype(wide) for name, x in arrays.items()}
    kernel = schedule.compile()
    assert kernel.resources.spill_stores == kernel.resources.stack == 0
    verified(schedule, numbers, kernel=kernel, kinds=("exact",), **sizes)
    out = arrays["C"]
    got = kernel(*(arrays[p.name] for p in kernel.interface.inputs), out=out, **(numbers or {})).astype(wide)
    wanted = a @ b if expect is None else expect(a @ b, before)
    if wide is np.int64:
        assert np.array_equal(got, wanted)
        return
    acc = next((x.dtype for x in schedule.links if isinstance(x, Epilog)), spec.C.dtype)
    room = (a.shape[-1] + 4) * acc.epsilon * (np.abs(a) @ np.abs(b) + 4) + spec.C.dtype.epsilon * np.abs(wanted)
    assert (np.abs(got - wanted) <= room).all()


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("preset", PRESETS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_presets_in_every_layout(preset, shape, layout):
    check(preset(matmul(*shape, layout=layout)))


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i8", "u8", "i32"])
@pytest.mark.parametrize("preset", PRESETS, ids=lambda f: f.__name__)
def test_presets_in_every_dtype(preset, dtype):
    check(preset(matmul(130, 257, 40, dtype)))


def test_symbolic_sizes():
    schedule = simt.sgemm(matmul(symbol("M"), symbol("N", multiple_of=4), symbol("K", multiple_of=4)))
    check(schedule, M=301, N=132, K=44)


def test_batch():
    spec = matmul(70, 60, 50, batch=3)
    schedule = (
        spec.tile(32, 32, batch=1).to(Block).epilog().split(8).load(A, SH).load(B, SH)
        .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    check(schedule)


def test_epilogue_operands_and_scalars():
    bias = Vector(257, name="bias")
    spec = matmul(130, 257, 40, alpha="alpha", beta=0.5)
    schedule = (
        spec.tile(64, 64).to(Block).epilog(add(bias), relu).split(8).load(A, SH).load(B, SH)
        .tile(32, 32).to(Warp).tile(8, 4).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    check(schedule, {"alpha": 2.0}, lambda ab, x: np.maximum(2.0 * ab + 0.5 * x["C"] + x["bias"], 0))


def test_transpose_through_shared_memory():
    from fireiron import SRC, ColMajor

    schedule = (
        Move(Matrix(100, 75, name="X"), Matrix(100, 75, order=ColMajor, name="Y"))
        .tile(32, 32).to(Block).load(SRC, SH, vector()).storage_layout(RowMajor).pad(1)
        .tile(1, 1).to(Thread).layout(ColMajor).done()
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((100, 75)).astype("f4")
    assert np.array_equal(schedule.compile()(x), x.T)


def test_hierarchical_storage():
    schedule = (
        matmul(128, 128, 64).tile(64, 64).to(Block).epilog().split(8)
        .load(A, SH).storage_layout(Layout((64, (4, 2)), (4, (1, 256)))).load(B, SH)
        .tile(32, 32).to(Warp).tile(8, 4).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    check(schedule)
