"""Rewriting reaches every statement, those of roles among them."""

from __future__ import annotations

import pytest

from fireiron import matmul
from fireiron.algebra.expr import Var, as_expr, free
from fireiron.kernel.ir import Advance, Arrive, Await, Call, walk
from fireiron.kernel.rewrite import replaced
from fireiron.schedules import ampere, hopper
from fireiron.schedules.hopper import Plan


@pytest.mark.parametrize("plan", [Plan(cluster=(2, 1)), Plan(128, 192, pingpong=True, swapped=True)])
def test_nothing_changes_where_nothing_is_replaced(plan: Plan) -> None:
    spec = matmul(1024, 1024, 512, "f16", layout="TN")
    for kernel in (hopper.gemm(spec, plan).lowered("sm_90a"), ampere.gemm(spec).lowered("sm_90a")):
        assert replaced(kernel.body, {}) == kernel.body


def test_slots_counts_and_masks_are_rewritten() -> None:
    plan = Plan(128, 192, pingpong=True, cluster=(2, 1))
    kernel = hopper.gemm(matmul(1024, 1024, 512, "f16", layout="TN"), plan).lowered("sm_90a")
    (slot,) = {x for s in walk(kernel.body) if isinstance(s, Await) for x in free(s.slot) if isinstance(x, Var)}
    body = replaced(kernel.body, {slot: as_expr(3)})
    for s in walk(body):
        match s:
            case Await() | Arrive():
                assert slot not in free(s.slot)
            case Call():
                assert s.signal is None or slot not in free(s.signal[1])
                assert all(slot not in free(v.offset) for v in s.views)
            case Advance():
                assert slot not in free(s.by)
            case _:
                pass
