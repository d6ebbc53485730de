"""Stores through shared memory: whole lines, over the dead ring of the operands, in every element type."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import FireironError, Vector, conform, matmul, saturate, scale, through_shared
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Sync, walk
from fireiron.schedules import ampere
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

PANELS = [None, (32, 64), (64, 32), (16, 16)]


def small(spec: Any, store: Any = None, **more: Any) -> Any:
    return ampere.gemm(spec, m=64, n=64, warp=(32, 32), k=64 // spec.matmul.A.dtype.nbytes, store=store, **more)


@pytest.mark.product
@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("shape", [(64, 64, 64), (70, 88, 96)])
def test_panels(right, panel, shape):
    right(small(matmul(*shape, "f16", layout="TN"), through_shared(panel=panel, pad=8, reuse=True)))


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        ("f16", None), ("f16", "f32"), ("bf16", None), ("bf16", "f32"),
        ("i8", None), ("i8", "i8"), ("u8", "u8"), ("f64", None),
    ],
)  # fmt: skip
def test_element_types(right, dtype, out):
    schedule = small(matmul(80, 96, 64, dtype, layout="TN", out=out), slots=1 if dtype == "f64" else 2)
    if out in ("i8", "u8"):
        schedule, low, high = narrow(schedule, dtype), *((-128, 127) if out == "i8" else (0, 255))
        right(schedule, lambda p, x: np.clip(p, low, high))
    else:
        right(schedule)


def narrow(schedule: Any, dtype: str) -> Any:
    """Saturate explicitly too, which changes nothing."""
    spec = matmul(80, 96, 64, dtype, layout="TN", out=dtype)
    return small(spec, ops=(saturate(dtype),))


@pytest.mark.parametrize(("dtype", "low", "high"), [("i8", -128, 127), ("u8", 0, 255)])
def test_scale_of_integers_rounds_to_nearest_even_and_saturates(dtype, low, high):
    column = Vector(96, "f32", name="factors")
    for ops in ((scale(0.0625),), (scale(0.0625), saturate(dtype)), (scale(column),)):
        schedule = small(matmul(80, 96, 64, dtype, layout="TN", out=dtype), ops=ops)
        kernel = schedule.lowered()
        arrays = random_arrays(Interface.of(kernel), {})
        if "factors" in arrays:
            arrays["factors"] = np.linspace(-0.2, 0.2, 96).astype(np.float32)
        simulate(kernel, arrays)
        total = arrays["A"].astype(np.int64) @ arrays["B"].astype(np.int64).T
        factor = arrays.get("factors", np.float32(0.0625))
        wanted = np.clip(np.rint(total.astype(np.float32) * factor), low, high)
        assert len(np.unique(wanted)) > 20
        assert np.array_equal(arrays["C"], wanted.astype(arrays["C"].dtype))
        assert schedule.compile("sm_80", cache=False).resources.stack == 0


def test_lines_are_stored_by_sixteen_bytes_and_the_ring_is_their_buffer():
    direct, lines = (ampere.gemm(matmul(256, 256, 64, "f16", layout="TN"), store=s) for s in (conform(), None))
    assert direct.lowered().shared_nbytes == lines.lowered().shared_nbytes
    report = lines.simulate().report
    assert {s.conflict_degree for s in report.sites if s.conflict_degree} == {1.0}
    assert report.gl_write.nbytes // report.gl_write.requests == 512
    assert direct.simulate().report.gl_write.per_request == 8


def test_a_store_over_the_ring_without_its_barriers_is_caught():
    kernel = small(matmul(64, 64, 160, "f16", layout="TN")).lowered()  # the last chunk lies where the store begins
    arrays = random_arrays(Interface.of(kernel), {})
    reasons = [s.reason for s in walk(kernel.body) if isinstance(s, Sync) and "acc_sh" in s.reason]
    assert len(reasons) == 2

    def without(body: Any, reason: str) -> Any:
        kept = (s for s in body if not (isinstance(s, Sync) and s.reason == reason))
        return tuple(attrs.evolve(s, body=without(s.body, reason)) if hasattr(s, "body") else s for s in kept)

    for reason in reasons:
        with pytest.raises(FireironError) as caught:
            simulate(attrs.evolve(kernel, body=without(kernel.body, reason)), arrays)
        assert caught.value.code in {"race", "uninitialised-read"}


@pytest.mark.parametrize(
    "arch", ["sm_80", *(pytest.param(a, marks=pytest.mark.exhaustive) for a in ("sm_86", "sm_89")), "sm_90a"]
)
def test_stores_compile_without_spills(arch):
    for dtype, out in (("f16", None), ("i8", "i8")):
        ops = (scale(0.01),) if out == "i8" else ()
        schedule = ampere.gemm(matmul(512, 512, 512, dtype, layout="TN", out=out), ops=ops)
        found = schedule.compile(arch, cache=False).resources
        assert found.spill_stores == found.spill_loads == found.stack == 0
