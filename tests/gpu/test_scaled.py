"""Sums of chunks on the GPU: 8-bit floats with scales of blocks, by every plan, in batches, groups, ragged sizes."""

from __future__ import annotations

import numpy as np
import pytest
from compiling import compiled
from verified import verified

from fireiron import A, B, ColMajor, Matrix, dequantise, matmul, symbol
from fireiron.jit.bind import concrete
from fireiron.jit.driver import driver
from fireiron.jit.interface import Interface
from fireiron.schedules import fused, hopper
from fireiron.schedules.hopper import Plan
from fireiron.verify.random_data import random_arrays

BLOCK = 128
PLANS = {
    "cooperative": Plan(128, 128),
    "wide": Plan(128, 192),
    "across blocks": Plan(128, 160),
    "two rows of products": Plan(256, 96),
    "taking turns": Plan(128, 96, pingpong=True),
    "swapped": Plan(128, 64, swapped=True),
    "one consumer": Plan(64, 192, 1),
    "three consumers": Plan(192, 96, 3),
    "equal shares": Plan(128, 128, stream=True),
    "ways": Plan(128, 128, ways=2),
    "cluster": Plan(128, 128, cluster=(2, 1)),
    "two stages": Plan(128, 128, stages=2),
}
# Two chunks; more tiles than SMs and many chunks; rows that no tile divides.
SHAPES = ((128, 128, 256), (1536, 2048, 1024), (1000, 640, 768))


@pytest.fixture(autouse=True)
def needs_hopper():
    number = driver().compute_capability(0)
    if number != 90:
        pytest.skip(f"wgmma is for sm_90a alone, this GPU is sm_{number}")


def scaled(m, n, k, dtype="e4m3", out="bf16", order=ColMajor, **spec):
    batch, groups = spec.get("batch"), spec.get("groups")
    left = Matrix(m, k // BLOCK, name="sa", batch=batch)
    right = Matrix(k // BLOCK, n // BLOCK, order=order, name="sb", batch=batch or groups)
    product = matmul(m, n, k, dtype, layout="TN", out=out, **spec)
    return product.prolog(A, dequantise("f32", left)).prolog(B, dequantise("f32", right))


def right(schedule, ends=None, **sizes):
    """Run twice on data of each kind, and compare with f64; gives what was proved."""
    given = {}
    if ends is not None:
        pointers = {p.name: p for p in Interface.of(schedule.lowered()).pointers}
        held = np.ones(concrete(pointers["C"].shape, sizes), schedule.matmul.C.dtype.numpy)
        given = {"offsets": np.array(ends, np.int32), "C": held}
    return verified(schedule, given=given, seed=7, repeats=2, **sizes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", PLANS)
def test_plans(plan, shape):
    right(hopper.scaled_gemm(scaled(*shape), PLANS[plan]))


@pytest.mark.parametrize("plan", PLANS)
def test_every_scale_is_that_of_its_block(plan):
    """Nothing is rounded here: a scale of another row, column or chunk would show."""
    out = "bf16" if plan == "swapped" else "f32"
    schedule = hopper.scaled_gemm(scaled(520, 512, 512, out=out), PLANS[plan])
    found = right(schedule)
    assert out == "bf16" or found.word == "right", str(found)


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
@pytest.mark.parametrize("out", ["f32", "f16", "bf16"])
def test_types(dtype, out):
    right(hopper.gemm(scaled(512, 768, 640, dtype, out)))


def test_presets_and_kinds():
    right(fused.gemm_block_scaled(matmul(384, 512, 512, "e4m3", layout="TN", out="bf16")))
    right(hopper.gemm(scaled(384, 512, 512, batch=3)))
    right(hopper.gemm(scaled(1024, 512, 512, groups=6)), ends=(0, 1, 130, 130, 700, 1000))
    right(hopper.gemm(scaled(symbol("M"), 512, 512)), M=777)
    right(hopper.scaled_gemm(matmul(512, 512, 512, "e4m3", layout="TN")))
    for dtype in ("i8", "f16"):
        scales = Matrix(256, 4, name="sa")
        spec = matmul(256, 256, 512, dtype, layout="TN", out="f32").prolog(A, dequantise("f32", scales))
        right(hopper.scaled_gemm(spec))


def test_promoted_sums_lose_fewer_bits():
    """Sums of positive numbers only grow, and tensor cores cut each addition: by a part of the chunk's alone here."""
    spec = matmul(256, 256, 16384, "e4m3", layout="TN", out="f32")
    rng = np.random.default_rng(3)
    schedules = hopper.cooperative(spec, Plan(128, 128)), hopper.scaled_gemm(spec)
    arrays = random_arrays(Interface.of(schedules[0].lowered()), {})
    for name in ("A", "B"):
        arrays[name] = rng.uniform(0.5, 1.5, arrays[name].shape).astype(arrays[name].dtype)
    exact = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64).T
    worst = []
    for schedule in schedules:
        out = np.zeros((256, 256), np.float32)
        compiled(schedule)(arrays["A"], arrays["B"], out=out)
        worst.append(np.abs(out / exact - 1).max())
    assert worst[1] < worst[0] / 4, worst
