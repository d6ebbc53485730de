"""Fences ahead of products that read what threads wrote to shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fireiron import FR, SH, A, B, Block, Strategy, Swizzle, Warpgroup, cp_async, matmul, staged
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Fence, Statement, Wait, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import hopper
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def product(copy: Strategy, stages: int = 3) -> Any:
    """Multiply by wgmma what threads, and no bulk copies, bring to shared memory."""
    chain = matmul(128, 64, 256, "f16", layout="TN", arch="sm_90").tile(64, 64).to(Block).epilog(memory=FR)
    chain = chain.split(64).pipeline(stages)
    for role in (A, B):
        chain = chain.load(role, SH, copy).swizzle(Swizzle(3, 3, 3))
    return chain.tile(64, 64).to(Warpgroup).split(16).unroll().done("wgmma")


def fences(kernel: Any) -> list[str]:
    return [s.reason for s in walk(kernel.body) if isinstance(s, Fence) and s.kind == "proxy.async"]


def without(kernel: Any, drop: Callable[[Statement], bool]) -> Any:
    return attrs.evolve(kernel, body=rewrite(kernel.body, lambda s: () if drop(s) else s))


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("copy", [staged(), cp_async()])
def test_what_threads_wrote_is_fenced_before_products_read_it(copy: Strategy, stages: int) -> None:
    kernel = product(copy, stages).lowered()
    assert set(fences(kernel)) == {"threads write a_sh and b_sh before products read it"}
    assert unordered(kernel) == ()
    simulate(kernel, random_arrays(Interface.of(kernel), {}))
    assert product(copy, stages).simulate().comparison.passed


def test_the_fence_is_needed() -> None:
    kernel = product(staged()).lowered()
    broken = without(kernel, lambda s: isinstance(s, Fence) and s.kind == "proxy.async")
    assert unordered(broken) != ()
    with pytest.raises(SimulationError, match="missing-proxy-fence"):
        simulate(broken, random_arrays(Interface.of(kernel), {}))


@pytest.mark.parametrize("copy", [staged(), cp_async()])
def test_products_end_before_their_operands_are_overwritten(copy: Strategy) -> None:
    kernel = product(copy, 1).lowered()
    broken = without(kernel, lambda s: isinstance(s, Wait) and s.group == "wgmma")
    assert any("in flight (wgmma)" in found.lacks for found in unordered(broken))


def test_bulk_copies_need_neither() -> None:
    schedule = hopper.cooperative(matmul(256, 256, 256, "f16", layout="TN", arch="sm_90"))
    assert not [reason for reason in fences(schedule.lowered()) if reason.startswith("threads write")]
