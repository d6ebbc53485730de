"""Products of 8-bit floats with scales of blocks on Hopper: their text, and machine code of the shape that is fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import A, B, ColMajor, Matrix, dequantise, matmul, symbol
from fireiron.base.errors import CheckError
from fireiron.schedules import fused, hopper
from fireiron.schedules.hopper import Plan

SIZE = (4096, 4096, 4096)


def scaled(m: Any = 4096, out: str = "bf16", **spec: Any) -> Any:
    batch, groups = spec.get("batch"), spec.get("groups")
    left = Matrix(m, 32, name="sa", batch=batch)
    right = Matrix(32, 32, order=ColMajor, name="sb", batch=batch or groups)
    product = matmul(m, 4096, 4096, "e4m3", layout="TN", out=out, **spec)
    return product.prolog(A, dequantise("f32", left)).prolog(B, dequantise("f32", right))


def test_as_printed(golden: Callable[[str, str], None]) -> None:
    schedule = fused.gemm_block_scaled(matmul(*SIZE, "e4m3", layout="TN", out="bf16"))
    golden(schedule.cuda("sm_90a"), "schedules/hopper_scaled.cu")


def test_the_main_loop_adds_once_an_element_and_reads_a_chunk_ahead() -> None:
    kernel = hopper.scaled_gemm(scaled()).compile("sm_90a", cache=False)
    assert (kernel.resources.spill_stores, kernel.resources.spill_loads, kernel.resources.stack) == (0, 0, 0)
    lines = kernel.sass.splitlines()
    first = next(i for i, line in enumerate(lines) if "GMMA" in line)
    last = next(i for i in range(first, len(lines)) if "BRA" in lines[i])
    loop = lines[first:last]
    assert sum("GMMA" in line for line in loop) == 4
    assert sum("FFMA" in line for line in loop) == 64  # 64x128 of 128 threads, with no product apart
    awaited = next(i for i, line in enumerate(loop) if "DEPBAR" in line)
    assert not any("FFMA" in line for line in loop[:awaited])
    assert sum("LDG" in line for line in lines[first - 40 : first + awaited]) == 3
    assert not any(code in line for line in loop for code in ("BAR.SYNC", "LDL", "STL", "LDS", "STS"))


PLANS = {
    "wide": Plan(128, 192),
    "across blocks": Plan(128, 160),
    "two rows of products": Plan(256, 96),
    "taking turns": Plan(128, 96, pingpong=True),
    "one consumer": Plan(64, 192, 1),
    "three": Plan(192, 96, 3),
    "equal shares": Plan(128, 128, stream=True),
    "ways": Plan(128, 128, ways=2),
    "cluster": Plan(128, 128, cluster=(2, 1)),
}


@pytest.mark.product
@pytest.mark.parametrize("out", ["bf16", "f32"])
@pytest.mark.parametrize("plan", PLANS)
def test_plans_compile_without_spills(plan: str, out: str) -> None:
    kernel = hopper.scaled_gemm(scaled(out=out), PLANS[plan]).compile("sm_90a")
    assert (kernel.resources.spill_stores, kernel.resources.stack, kernel.resources.warnings) == (0, 0, ())


@pytest.mark.parametrize("kind", ["groups", "batch", "symbol", "ragged", "unscaled"])
def test_kinds_compile_without_spills(kind: str) -> None:
    spec = {
        "groups": lambda: scaled(groups=64),
        "batch": lambda: scaled(batch=4),
        "symbol": lambda: scaled(symbol("M")),
        "ragged": lambda: scaled(4093),
        "unscaled": lambda: matmul(*SIZE, "e4m3", layout="TN", out="bf16"),
    }[kind]()
    made = hopper.scaled_gemm(spec) if kind == "unscaled" else hopper.gemm(spec)
    kernel = made.compile("sm_90a")
    assert (kernel.resources.spill_stores, kernel.resources.stack, kernel.resources.warnings) == (0, 0, ())


def test_plans_leave_room_for_two_sets_of_sums() -> None:
    for m in (16, 512, 4096):
        plans = hopper.plans(scaled(m))
        assert plans
        assert all(plan.promote and plan.held <= 192 and not plan.swapped and plan.panels == 1 for plan in plans)
        assert not any(plan.promote for plan in hopper.plans(matmul(m, 4096, 4096, "e4m3", layout="TN")))


def test_two_sets_of_sums_may_be_too_many() -> None:
    with pytest.raises(CheckError, match="acc 128, chunk 128") as caught:
        hopper.scaled_gemm(scaled(), Plan(128, 256)).check("sm_90a")
    assert caught.value.code == "registers"
