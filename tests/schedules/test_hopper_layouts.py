"""Products on Hopper whose operands do not all have K contiguous, of elements that descriptors do not transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import A, B, ColMajor, MatMul, Matrix, RowMajor, matmul, relu
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.verify.verification import Data, verify

PLANS = {
    "wide": Plan(128, 64),
    "two rows of products": Plan(256, 32),
    "taking turns": Plan(128, 64, pingpong=True),
    "one consumer": Plan(64, 32, 1),
    "clusters": Plan(128, 64, cluster=(2, 1)),
    "ways": Plan(64, 64, 1, ways=2),
    "ways of a cluster": Plan(64, 64, 1, ways=2, through="cluster"),
    "equal shares": Plan(64, 64, 1, stream=True),
}


def product(layout: str, size: tuple[int, int, int] = (4096, 4096, 4096), dtype: str = "tf32", **spec: Any) -> Any:
    return matmul(*size, dtype, layout=layout, arch="sm_90a", **spec)


@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize("plan", PLANS)
def test_tf32_comes_from_registers(right: Callable[..., Any], layout: str, plan: str) -> None:
    schedule = hopper.gemm(product(layout, (152, 136, 76)), PLANS[plan])
    assert "wgmma_m64" in schedule.cuda("sm_90a")
    right(schedule)


@pytest.mark.parametrize("operand", [A, B])
def test_a_prolog_and_the_other_order_are_one_way_through_registers(operand: Any) -> None:
    """The operand whose K is not contiguous may have the prolog; the other one would come from registers too."""
    spec = product("TT" if operand is A else "NN", (72, 64, 64))
    schedule = hopper.gemm(spec.prolog(operand, relu), Plan(64, 64, 1))

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)
    assert hopper.plans(spec.prolog(B if operand is A else A, relu)) == ()


def test_batches_and_ends_of_tensors(right: Callable[..., Any]) -> None:
    right(hopper.gemm(product("NN", (40, 72, 36), batch=3), Plan(64, 64, 1)))


def test_an_operand_from_registers_is_a() -> None:
    """A plan need not say that the product is swapped, and cannot say otherwise."""
    spec = product("NN", (256, 256, 128))
    assert hopper.cooperative(spec).residual.closed
    assert {plan.swapped for plan in hopper.plans(spec)} == {True}
    assert {plan.swapped for plan in hopper.plans(product("TT", (256, 256, 128)))} == {False}
    same = [hopper.gemm(spec, Plan(128, 64, swapped=swapped)).cuda("sm_90a") for swapped in (False, True)]
    assert same[0] == same[1]


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_the_model_asks_for_what_the_compiler_can_hold(layout: str) -> None:
    spec = product(layout)
    first = hopper.plans(spec)[0]
    assert first.n >= 160, "32-bit results of a transpose leave through panels that leave room for chunks"
    kernel = hopper.gemm(spec, first).compile("sm_90a")
    assert not kernel.resources.spills
    assert sum("HGMMA" in line for line in kernel.sass.splitlines()) == 4 * first.m // 128


def test_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(hopper.gemm(product("NN"), Plan(128, 256)).cuda("sm_90a"), "schedules/hopper_across_k.cu")


def test_lines_that_start_anywhere_go_another_way() -> None:
    a, b = Matrix(64, 64, "tf32", ColMajor, name="A", ld=66), Matrix(64, 64, "tf32", ColMajor, name="B")
    assert hopper.plans(MatMul(a, b, Matrix(64, 64, "tf32", RowMajor, name="C"))) == ()
