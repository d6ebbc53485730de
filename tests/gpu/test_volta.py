"""Volta's tensor cores on the GPU: every row of a quad-pair and of a warp against the simulator, and the presets."""

from __future__ import annotations

import numpy as np
import pytest
from compiling import compiled
from verified import verified
from warp_rows import CASES, kernel_of, numbers

from fireiron import matmul
from fireiron.algebra.arch import native
from fireiron.jit.build import build
from fireiron.jit.driver import driver
from fireiron.jit.interface import Interface
from fireiron.schedules import fused, volta
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
def test_a_row_means_what_the_hardware_does(case):
    number = driver().compute_capability(0)
    if number < max(row.arch for row in case):
        pytest.skip(f"{case[0].name} needs sm_{case[0].arch}")
    kernel = kernel_of(*case)
    arrays = numbers(kernel)
    wanted = {name: x.copy() for name, x in arrays.items()}
    simulate(kernel, wanted)
    made = build("row", lambda: kernel, native(number), cache=False)
    (out,) = (p.buffer.name for p in kernel.parameters if p.role == "output")
    got = np.asarray(made(*(x for name, x in arrays.items() if name != out)))
    assert np.array_equal(got.astype(np.float64), wanted[out].astype(np.float64))


def right(schedule, acc_epsilon):
    kernel = schedule.lowered()
    arrays = random_arrays(Interface.of(kernel), {})
    spec = schedule.matmul
    made = compiled(schedule)
    verified(schedule, kernel=made, kinds=("exact",))
    got = np.asarray(made(arrays["A"], arrays["B"])).astype(np.float64)

    def plain(tensor):
        x = arrays[tensor.name].astype(np.float64)
        return x if tensor.storage == (0, 1) else x.T

    a, b = plain(spec.A), plain(spec.B)
    wanted = a @ b
    room = (a.shape[1] + 2) * acc_epsilon * (np.abs(a) @ np.abs(b)) + spec.C.dtype.epsilon * np.abs(wanted) + 1e-30
    assert (np.abs(got - wanted) <= room).all()


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("acc", ["f32", "f16"])
@pytest.mark.parametrize("macro", [16, 32])
def test_gemm(layout, acc, macro):
    for size in ((256, 384, 160), (61, 45, 33)):
        right(volta.gemm(matmul(*size, "f16", acc=acc, layout=layout), macro=macro), 2.0**-10 if acc == "f16" else 2e-7)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u8"])
def test_listings_and_tvm(dtype):
    out = "i32" if dtype in ("i8", "u8") else "f32"
    epsilon = 0.0 if out == "i32" else 2e-7
    for layout in ("NN", "NT", "TN", "TT"):
        right(volta.listing3(matmul(128, 192, 80, dtype, layout=layout, out=out)), epsilon)
        right(volta.tvm(matmul(128, 192, 96, dtype, layout=layout, out=out)), epsilon)
    right(volta.listing3(matmul(128, 192, 80, dtype, layout="TN", out=out), 32, 8), epsilon)
    right(volta.listing3(matmul(128, 192, 80, dtype, layout="TN", out=out), 8, 32), epsilon)
    if dtype in ("f16", "bf16"):  # a pad of 8 bytes would leave rows of bytes unaligned
        right(volta.listing5(matmul(256, 128, 384, dtype, layout="TN", out=out)), epsilon)


@pytest.mark.parametrize("columns", [8, 32])
def test_tvm_of_other_fragments_and_of_cuda_cores(columns):
    right(volta.tvm(matmul(128, 192, 96, "f16", layout="TN", out="f32"), warp_tile_m=columns), 2e-7)
    right(volta.tvm(matmul(100, 75, 33, "f16", layout="NN", out="f32"), warp_tile_m=columns), 2e-7)


@pytest.mark.parametrize(("dtype", "k"), [("i4", 128), ("u4", 64), ("b1", 512)])
def test_tvm_of_packed_elements(dtype, k):
    schedule = volta.tvm(matmul(128, 64, k, dtype, layout="TN"))
    verified(schedule, kernel=compiled(schedule))


@pytest.mark.parametrize("path", ["volta", "turing"])
def test_several_products(path):
    for schedule in (fused.add_gemm_gemm(130, 70, 64, 40, path=path), fused.lstm_cell(130, 70, 64, path=path)):
        verified(schedule, kernel=compiled(schedule))
