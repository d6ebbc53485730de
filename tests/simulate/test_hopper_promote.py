"""Sums of chunks on Hopper: right by every plan, whatever shares the work, and nothing that orders them is idle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import A, B, ColMajor, Matrix, dequantise, matmul, symbol
from fireiron.atoms.wgmma import KEPT_OF_FP8
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.schedules import fused, hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import mathematical, reference
from fireiron.verify.verification import expected, make

BLOCK = 128
PLANS = {
    "cooperative": Plan(128, 128),
    "one consumer": Plan(64, 128, 1),
    "two rows of products": Plan(256, 64),
    "taking turns": Plan(128, 64, pingpong=True),
    "wider than a block": Plan(64, 256, 1),
    "across blocks": Plan(128, 160),
    "swapped": Plan(128, 64, swapped=True),
    "cluster": Plan(128, 64, cluster=(2, 1)),
    "equal shares": Plan(128, 128, stream=True),
    "ways": Plan(128, 128, ways=2),
    "smaller chunks": Plan(128, 64, panels=1, stages=2),
}


def scaled(m: Any, n: int, k: int, dtype: str = "e4m3", out: str = "bf16", **spec: Any) -> Any:
    """Scale rows of A for every 128 of K, and of B each block of 128x128."""
    batch, groups = spec.get("batch"), spec.get("groups")
    left = Matrix(m, k // BLOCK, name="sa", batch=batch)
    right = Matrix(k // BLOCK, n // BLOCK, order=ColMajor, name="sb", batch=batch or groups)
    product = matmul(m, n, k, dtype, layout="TN", out=out, arch="sm_90a", **spec)
    return product.prolog(A, dequantise("f32", left)).prolog(B, dequantise("f32", right))


def check(schedule: Any, sizes: dict[str, int] | None = None, ends: Any = None, **more: Any) -> None:
    kernel, spec = schedule.lowered(), schedule.matmul
    arrays = random_arrays(Interface.of(kernel), sizes or {})
    if ends is not None:
        arrays["offsets"] = np.array(ends, np.int32)
        arrays["C"][...] = 1
    expected = reference(schedule, {**arrays, "C": arrays["C"].copy()}, {})
    simulate(kernel, arrays, sizes, **more)
    found = compare("C", mathematical(spec.C, arrays["C"]), expected, spec.C.dtype)
    assert found.passed, str(found)


@pytest.mark.parametrize("plan", PLANS)
def test_plans(plan: str) -> None:
    check(hopper.scaled_gemm(scaled(264, 384, 384), PLANS[plan]))


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
@pytest.mark.parametrize("out", ["f32", "f16", "bf16"])
def test_types(dtype: str, out: str) -> None:
    check(hopper.scaled_gemm(scaled(128, 128, 256, dtype, out)))


def test_sums_of_other_types_are_scaled_too() -> None:
    scales = Matrix(128, 2, name="sa")
    for dtype in ("i8", "bf16"):
        spec = matmul(128, 128, 256, dtype, layout="TN", out="f32").prolog(A, dequantise("f32", scales))
        check(hopper.scaled_gemm(spec))


def test_sums_without_scales() -> None:
    schedule = hopper.scaled_gemm(matmul(128, 256, 384, "e4m3", layout="TN"))
    assert "acc += chunk" in schedule.cuda("sm_90a")
    check(schedule)


def test_batches_and_groups() -> None:
    check(hopper.gemm(scaled(136, 128, 256, batch=2)))
    check(hopper.gemm(scaled(320, 128, 256, groups=4)), ends=(0, 40, 200, 312))


def test_sizes_of_the_call() -> None:
    check(hopper.scaled_gemm(scaled(symbol("M"), 128, 256)), {"M": 136})


def test_presets_choose_sums_for_scales() -> None:
    for schedule in (
        hopper.gemm(scaled(256, 256, 256)),
        fused.gemm_block_scaled(matmul(256, 256, 256, "e4m3", layout="TN", out="bf16")),
    ):
        assert "acc += chunk * scale" in schedule.cuda("sm_90a")
        check(schedule)
    # Scales of single elements along K are multiplied where elements are.
    spec = matmul(64, 64, 64, "e4m3", layout="TN").prolog(A, dequantise("f32", Matrix(1, 64, name="s")))
    each = hopper.gemm(spec.prolog(B, dequantise("f32", 0.5)))
    assert "wgmma" not in each.cuda("sm_90a")
    check(each)


def test_scales_of_their_own_block() -> None:
    """With powers of two nothing is rounded: a scale of another block, row or chunk would show."""
    schedule = hopper.scaled_gemm(scaled(256, 384, 512, out="f32"), Plan(128, 128))
    arrays = random_arrays(Interface.of(schedule.lowered()), {})
    rng = np.random.default_rng(5)
    for name in ("A", "B"):
        arrays[name] = rng.integers(-4, 5, arrays[name].shape).astype(arrays[name].dtype)
    for name in ("sa", "sb"):
        arrays[name] = (2.0 ** rng.integers(-3, 4, arrays[name].shape)).astype(np.float32)
    simulate(schedule.lowered(), arrays)
    a = arrays["A"].astype(np.float64) * np.repeat(arrays["sa"], BLOCK, 1)
    b = arrays["B"].astype(np.float64) * np.repeat(np.repeat(arrays["sb"], BLOCK, 0), BLOCK, 1)
    np.testing.assert_array_equal(arrays["C"], a @ b.T)


def test_bounds_of_sums_that_tensor_cores_cut() -> None:
    """They keep 13 bits of a sum of 8-bit floats or so, and of a chunk's it is a smaller part that is lost."""
    spec = matmul(128, 128, 2048, "e4m3", layout="TN")
    schedules = hopper.cooperative(spec, Plan(128, 128)), hopper.scaled_gemm(spec)
    arrays = random_arrays(Interface.of(schedules[0].lowered()), {})
    whole, apart = (reference(schedule, arrays, {}) for schedule in schedules)
    np.testing.assert_array_equal(whole.value, apart.value)
    assert (apart.error < whole.error / 8).all()


def test_every_derived_statement_is_needed(without: Any) -> None:
    kernel = hopper.scaled_gemm(scaled(256, 128, 640), Plan(128, 128, stages=3)).lowered()
    arrays = random_arrays(Interface.of(kernel), {})
    codes: set[str] = set()
    for statement, broken in without(kernel):
        try:
            simulate(broken, arrays, launched=1)
        except SimulationError as error:
            codes.add(error.code)
        else:
            pytest.fail(f"nothing missed {statement}")
    assert {"missing-wgmma-fence", "deadlock", "not-arrived"} <= codes


def test_bounds_of_scaled_chunks_are_those_of_plain_ones() -> None:
    """Scales of 1 change nothing: tensor cores cut the sums of each chunk all the same."""
    plain, apart = matmul(64, 128, 512, "e4m3", layout="TN"), scaled(64, 128, 512, out="f32")
    arrays = random_arrays(Interface.of(hopper.scaled_gemm(apart).lowered()), {})
    for name in ("sa", "sb"):
        arrays[name][...] = 1
    scales, none = (reference(hopper.scaled_gemm(spec), arrays, {}, drawn=True) for spec in (apart, plain))
    np.testing.assert_array_equal(scales.value, none.value)
    np.testing.assert_allclose(scales.error, none.error, rtol=1e-9)
    chunk = {name: arrays[name][:, :BLOCK] for name in ("A", "B")}
    alone = reference(hopper.cooperative(matmul(64, 128, BLOCK, "e4m3", layout="TN")), chunk, {}, drawn=True)
    assert (np.median(scales.error) > np.median(alone.error)).all()


def cut(terms: Any) -> Any:
    """Sum the last axis as wgmma does: 32 terms and the sum so far, cut 13 bits below the largest of them."""
    total = np.zeros(terms.shape[:-1])
    for start in range(0, terms.shape[-1], 32):
        addends = np.concatenate([terms[..., start : start + 32], total[..., None]], -1)
        unit = 2.0 ** (np.frexp(np.abs(addends).max(-1, keepdims=True))[1] - 1 - KEPT_OF_FP8)
        total = (np.trunc(addends / unit) * unit).sum(-1)
    return total


def test_bounds_of_scaled_chunks_hold_what_tensor_cores_cut() -> None:
    schedule = hopper.scaled_gemm(scaled(128, 128, 1024, out="f32"))
    arrays = random_arrays(Interface.of(schedule.lowered()), {})
    wanted = reference(schedule, arrays, {}, drawn=True)
    a, b = (arrays[name].astype(np.float64) for name in ("A", "B"))
    found = np.zeros(wanted.value.shape)
    for i, k in enumerate(range(0, 1024, BLOCK)):
        sums = cut(a[:, None, k : k + BLOCK] * b[None, :, k : k + BLOCK])
        found += sums * arrays["sa"][:, i : i + 1] * arrays["sb"][0, i]
    result = compare("C", found.astype(np.float32), wanted, schedule.matmul.C.dtype)
    assert result.passed, str(result)
    assert result.ratio > 0.02  # and is not much larger


@pytest.mark.parametrize("k", [128, 640, 2048])
def test_exact_runs_of_scaled_chunks_notice_one_term(k: int) -> None:
    schedule = hopper.scaled_gemm(scaled(128, 128, k, out="f32"))
    data = make("exact", schedule, Interface.of(schedule.lowered()), {})
    wanted = expected(schedule, data)["C"]
    assert (wanted.error == 0).all()
    a, b = (data.arrays[name].astype(np.float64) for name in ("A", "B"))
    a *= np.repeat(data.arrays["sa"], BLOCK, 1)
    b *= np.repeat(np.repeat(data.arrays["sb"], BLOCK, 0), BLOCK, 1)
    rng = np.random.default_rng(3)
    terms = rng.integers(0, k, wanted.value.shape)
    rows, cols = np.indices(terms.shape)
    lost = a[rows, terms] * b[cols, terms]
    np.testing.assert_array_equal(wanted.value, a @ b.T)
    found = compare("C", (wanted.value - lost).astype(np.float32), wanted, schedule.matmul.C.dtype)
    assert found.wrong == terms.size
