"""Sums of which each block of a tile adds a share: right for ragged tiles, and no part of the meeting is needless."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import pytest

from fireiron import RF, SH, A, B, Block, Thread, in_order, matmul
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Kernel, Meet, Statement, Sync, walk
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

FEW = Plan(m=64, n=32, consumers=1, stages=3, ways=3, through="grid")
WIDE = Plan(m=128, n=64, stages=3, ways=2, through="grid")


def product(size: tuple[int, int, int], plan: Plan) -> Kernel:
    return hopper.split_k(matmul(*size, "f16", layout="TN", arch="sm_90a"), plan).lowered()


def check(kernel: Kernel, exact: bool = False) -> None:
    """Simulate, and compare with f64."""
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(kernel, arrays)
    a, b = (arrays[name].astype("f8") for name in "AB")
    np.testing.assert_allclose(
        arrays["C"].astype("f8"), a @ b.T if a.shape[1] == b.shape[1] else a @ b, rtol=2e-3, atol=2e-3
    )


@pytest.mark.parametrize(
    ("size", "plan"),
    [
        ((64, 32, 512), FEW),
        ((100, 40, 320), FEW),
        ((100, 40, 320), attrs.evolve(FEW, swapped=True)),
        ((130, 72, 256), WIDE),
        ((64, 24, 512), attrs.evolve(FEW, n=24, ways=4)),  # three of four blocks have a share
        ((128, 64, 512), attrs.evolve(FEW, cluster=(2, 1))),
    ],
    ids=str,
)
def test_shares(size: tuple[int, int, int], plan: Plan) -> None:
    check(product(size, plan))


def by_hand() -> Kernel:
    """Let four blocks of CUDA cores share each tile."""
    chain = matmul(32, 64, 96).tile(32, 32).to(Block).epilog(memory=RF)
    chain = chain.split(ways=4, multiple_of=8).parallel(Block, reduce=in_order(shared=True)).split(8)
    chain = chain.load(A, SH).load(B, SH).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done().lowered("sm_80")


def test_shares_of_cuda_cores() -> None:
    check(by_hand())


def broken(kernel: Kernel, change: Callable[[Statement], Statement | tuple[Statement, ...]]) -> str:
    """Change the kernel, and give the code of what the simulator says."""
    found = attrs.evolve(kernel, body=rewrite(kernel.body, change))
    assert found != kernel
    with pytest.raises(SimulationError) as error:
        check(found)
    return error.value.code


def test_planted() -> None:
    """Nothing of the meeting can be left out."""
    for kernel in (product((64, 32, 512), FEW), by_hand()):
        (meet,) = [s for s in walk(kernel.body) if isinstance(s, Meet)]
        assert kernel.cooperative
        assert broken(kernel, lambda s: () if isinstance(s, Meet) else s) == "uninitialised-read"
        for count, codes in (
            (meet.count - 1, ("counted-twice", "uninitialised-read")),
            (meet.count + 1, ("deadlock",)),
        ):
            assert broken(kernel, lambda s, n=count: attrs.evolve(s, count=n) if isinstance(s, Meet) else s) in codes
        before = [s for s in walk(kernel.body) if isinstance(s, Sync) and "partial" in s.reason]
        assert before, "threads meet before their block counts in"
        assert broken(kernel, lambda s, b=before: () if s in b else s) == "race"
