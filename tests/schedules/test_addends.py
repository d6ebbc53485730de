"""Sums that begin with what an epilog adds first: bias and residual take no registers beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import Block, FireironError, Matrix, Thread, Vector, add, matmul, relu, save
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.verify.verification import Data, verify


def spec(m: int, n: int, k: int) -> Any:
    ops = add(Vector(n, "f16", name="bias")), add(Matrix(m, n, "f16", name="residual")), relu
    return matmul(m, n, k, "f16", out="f16", layout="TN").then(*ops)


def right(schedule: Any) -> None:
    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(
    ("sizes", "plan"),
    [
        ((256, 128, 128), Plan(128, 64, pingpong=True, addends=True)),
        ((250, 136, 64), Plan(128, 64, pingpong=True, addends=True)),
        ((256, 64, 64), Plan(128, 64, addends=True, cluster=(2, 1))),
    ],
)
def test_sums_begin_with_bias_and_residual(sizes: tuple[int, int, int], plan: Plan) -> None:
    right(hopper.gemm(spec(*sizes), plan))


def test_tiles_by_turns_of_192_columns_have_registers_for_a_residual(golden: Callable[[str, str], None]) -> None:
    schedule = hopper.gemm(spec(12288, 768, 768), Plan(128, 192, pingpong=True, addends=True, group=2))
    assert not schedule.compile("sm_90a").resources.spills
    golden(schedule.cuda("sm_90a"), "schedules/hopper_addends.cu")


def test_a_value_that_every_use_of_the_sum_shares_is_an_addend() -> None:
    twice = matmul(64, 64, 32).tile(32, 32).to(Block)
    chain = twice.epilog(add(Vector(64, name="bias")), lambda x: x * (x + 1), addends=True)
    right(chain.split(8).tile(4, 4).to(Thread).split(1).unroll().tile(1, 1).unroll().done())


def test_addends_do_not_go_with_other_outputs() -> None:
    chain = matmul(64, 64, 32).tile(32, 32).to(Block)
    add_one = add(Vector(64, name="bias"))
    for ops, more in (((add_one, save(Matrix(64, 64, name="g"))), {}), ((add_one,), {"init": 1.0})):
        with pytest.raises(FireironError, match="epilog-addends"):
            chain.epilog(*ops, addends=True, **more)
