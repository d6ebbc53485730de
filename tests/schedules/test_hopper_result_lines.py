"""Products on Hopper whose result has lines, or rows, that start between multiples of 16 bytes: threads store it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fireiron import ColMajor, MatMul, Matrix, RowMajor, Vector, add, matmul, relu, save, symbol
from fireiron.front import realigned
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from tests.schedules.test_hopper_layouts import verified as held

PLANS = {
    "cooperative": Plan(128, 64),
    "pingpong": Plan(128, 64, pingpong=True),
    "swapped": Plan(128, 40, swapped=True),
    "swapped, in turn": Plan(128, 48, pingpong=True, swapped=True),
    "in clusters": Plan(64, 64, 1, cluster=(2, 1)),
    "ways": Plan(64, 64, 1, ways=2),
    "ways of a cluster": Plan(64, 64, 1, ways=2, through="cluster"),
    "ways at once": Plan(64, 64, 1, ways=2, through="grid"),
    "equal shares": Plan(64, 64, 1, stream=True),
}


def verified(schedule: Any, **sizes: int) -> None:
    """Look for wgmma in the code, and compare with the reference."""
    assert "wgmma" in schedule.cuda("sm_90a")
    assert "slower-path" not in {f.code for f in schedule.check("sm_90a")}
    held(schedule, **sizes)


@pytest.mark.product
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("cols", [75, 138])
def test_every_plan_stores_such_lines(plan: str, cols: int) -> None:
    verified(hopper.gemm(matmul(150, cols, 264, "f16", layout="TN", arch="sm_90a"), PLANS[plan]))


@pytest.mark.parametrize(
    ("dtype", "out", "layout", "size"),
    [
        ("bf16", "bf16", "NN", (72, 104, 40)),
        ("bf16", "f32", "NT", (96, 80, 72)),
        ("tf32", "f32", "TN", (70, 61, 36)),
        ("e4m3", "bf16", "TN", (70, 61, 48)),
        ("i8", "i32", "TN", (70, 61, 48)),
    ],
)
def test_element_types(dtype: str, out: str, layout: str, size: tuple[int, int, int]) -> None:
    m, n, k = size
    spec = matmul(m, n, k, dtype, out=out, layout=layout, arch="sm_90a")
    c = attrs.evolve(spec.matmul.C, strides=(n + 3, 1))
    verified(hopper.gemm(MatMul(spec.matmul.A, spec.matmul.B, c, arch="sm_90a")))


def test_ops_read_and_save_tensors_with_such_lines() -> None:
    residual, bias = Matrix(130, 203, "f16", name="residual"), Vector(203, "f16", name="bias")
    before = Matrix(130, 203, "f16", name="before")
    spec = matmul(130, 203, 96, "f16", layout="TN").then(add(bias), save(before), relu, add(residual))
    verified(hopper.gemm(spec))
    verified(hopper.gemm(spec, Plan(128, 64)))


def test_a_saved_result_has_such_lines_alone() -> None:
    before = Matrix(130, 208, "f16", name="before", ld=209)
    verified(hopper.gemm(matmul(130, 208, 96, "f16", layout="TN").then(save(before), relu)))


def test_products_of_a_batch() -> None:
    verified(hopper.gemm(matmul(100, 75, 64, "f16", layout="TN", batch=3)))


def test_columns_of_any_number() -> None:
    verified(hopper.gemm(matmul(100, symbol("N"), 64, "f16", layout="TN")), N=75)


@pytest.mark.parametrize(("m", "n"), [(75, 1), (64, 1), (1, 1), (1, 75)])
@pytest.mark.parametrize("layout", ["TN", "TT"])
def test_results_of_one_row_or_column(m: int, n: int, layout: str) -> None:
    """Each row of a column is a line of one element, 2 bytes behind the other: no tensor map has it."""
    comparison = hopper.gemm(matmul(m, n, 64, "f16", layout=layout)).simulate().comparison
    assert comparison is not None
    assert comparison.passed


@pytest.mark.parametrize("size", [(3726, 2123, 1584), (4096, 50257, 768), (8, 30522, 1024)])
def test_the_first_plans_spill_nothing(size: tuple[int, int, int]) -> None:
    spec = matmul(*size, "f16", layout="TN", arch="sm_90a")
    for plan in hopper.plans(spec)[:3]:
        binary = hopper.gemm(spec, plan).compile("sm_90a")
        assert not binary.resources.spills, plan


def test_the_model_counts_slower_stores() -> None:
    spec = matmul(4096, 3000, 768, "f16", layout="TN")
    odd = MatMul(spec.matmul.A, spec.matmul.B, attrs.evolve(spec.matmul.C, strides=(3001, 1)))
    for plan in hopper.plans(spec)[:5]:
        assert hopper.clocks(plan, odd) > 1.02 * hopper.clocks(plan, spec)


def test_such_a_result_is_not_copied() -> None:
    """Lines of A and B are whole: one launch multiplies. Where they are not, all three are copied."""
    assert not realigned.may_copy(matmul(4096, 3001, 1024, "f16", layout="TN"))
    plan = realigned.realigned(matmul(4096, 3001, 1021, "f16", layout="TN"), "sm_90a")
    assert plan is not None
    assert plan.back is not None


def test_the_code(golden: Callable[[str, str], None]) -> None:
    golden(
        hopper.gemm(matmul(512, 509, 256, "f16", layout="TN"), Plan(128, 64)).cuda("sm_90a"),
        "schedules/hopper_result_lines.cu",
    )


def test_lines_of_one_column_start_at_their_elements() -> None:
    assert not Matrix(64, 1, "f16", RowMajor).starts_lines_at(4)
    assert Matrix(64, 1, "f16", ColMajor).starts_lines_at(16)
    assert not Matrix(1, 64, "f16", ColMajor).starts_lines_at(4)
