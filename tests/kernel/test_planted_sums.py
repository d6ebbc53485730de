"""Mistakes planted in reductions: the simulator finds every barrier, order, counter and addition that goes missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import RF, SH, A, B, Block, Thread, Warp, Warpgroup, by_atomics, matmul, staged
from fireiron.algebra.expr import as_expr
from fireiron.atoms.table import find
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Call, CountIn, For, If, Kernel, Region, Statement, Sync, Workspace, walk
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

Wanted = Callable[[Statement], bool]


def schedule(reduce: Any = None, inside: bool = False) -> Any:
    chain = matmul(64, 32, 64).tile(32, 32).to(Block).epilog(memory=RF)
    if inside:
        chain = chain.split(32).pipeline(2).load(A, SH, staged()).load(B, SH, staged()).split(16).parallel(Warpgroup)
    else:
        chain = chain.split(ways=3, multiple_of=8).parallel(Block, reduce).split(8).load(A, SH).load(B, SH)
    return (
        chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def without(body: tuple[Statement, ...], gone: Statement) -> tuple[Statement, ...]:
    out: list[Statement] = []
    for statement in body:
        if statement is gone:
            continue
        if isinstance(statement, For | If | Region):
            statement = attrs.evolve(statement, body=without(statement.body, gone))
        out.append(statement)
    return tuple(out)


def changed(kernel: Kernel, *pairs: tuple[Statement, Statement]) -> Kernel:
    """Put each second statement in the place of the first."""

    def visit(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in body:
            new = next((new for old, new in pairs if old is s), None)
            nested = new is None and isinstance(s, For | If | Region)
            out.append(attrs.evolve(s, body=visit(s.body)) if nested else s if new is None else new)
        return tuple(out)

    return attrs.evolve(kernel, body=visit(kernel.body))


def run(kernel: Kernel, order: list[int] | None = None) -> bool:
    arrays = random_arrays(Interface.of(kernel), {})
    a, b = arrays["A"].astype("f8"), arrays["B"].astype("f8")
    simulate(kernel, arrays, blocks=order)
    return bool(np.abs(arrays["C"] - a @ b).max() < 1e-4)


def found(kernel: Kernel, order: list[int] | None = None) -> str:
    with pytest.raises(SimulationError) as caught:
        run(kernel, order)
    return caught.value.code


@pytest.mark.parametrize("order", [None, [5, 4, 3, 2, 1, 0], [0, 3, 1, 4, 5, 2]], ids=str)
@pytest.mark.parametrize("reduce", [None, by_atomics()], ids=str)
def test_blocks_release_and_acquire(reduce: Any, order: list[int] | None) -> None:
    kernel = schedule(reduce).lowered()
    assert run(kernel, order)
    (count_in,) = [s for s in walk(kernel.body) if isinstance(s, CountIn)]
    (barrier,) = [s for s in walk(kernel.body) if isinstance(s, Sync) and "all threads" in s.reason]
    assert count_in.order == "acq_rel"
    for less in ("release", "acquire", "relaxed"):
        assert found(changed(kernel, (count_in, attrs.evolve(count_in, order=less))), order) == "race"
    assert found(attrs.evolve(kernel, body=without(kernel.body, barrier)), order) == "race"


def test_every_barrier_inside_the_block_is_needed() -> None:
    kernel = schedule(inside=True).lowered()
    assert run(kernel)
    barriers = [s for s in walk(kernel.body) if isinstance(s, Sync)]
    for gone in barriers:
        assert found(attrs.evolve(kernel, body=without(kernel.body, gone))) == "race"


def test_plain_additions_race() -> None:
    kernel = schedule(by_atomics()).lowered()
    add = next(s for s in walk(kernel.body) if isinstance(s, Call) and s.atom.kind == "Add")
    store = find("copy.16B.RF.GL") if add.atom.shape == (4,) else find("copy.4B.RF.GL")
    assert store is not None
    assert found(changed(kernel, (add, attrs.evolve(add, atom=store)))) == "race"


def test_a_sum_is_read_after_all_additions() -> None:
    # The last block but one takes the sum: one addition is still to come.
    kernel = schedule(by_atomics()).lowered()
    count_in = next(s for s in walk(kernel.body) if isinstance(s, CountIn))
    assert found(changed(kernel, (count_in, attrs.evolve(count_in, count=as_expr(2))))) in ("race", "workspace-left")


def test_the_workspace_is_left_as_it_was() -> None:
    kernel = schedule(by_atomics()).lowered()
    (last,) = [s for s in walk(kernel.body) if isinstance(s, If) and str(s.condition) == "last"]
    clear = [s for s in walk(last.body) if isinstance(s, Call) and s.views[1].buffer.name == "partial"]
    assert len(clear) == 1
    assert found(attrs.evolve(kernel, body=without(kernel.body, clear[0]))) == "workspace-left"


def test_a_sum_that_nobody_wrote_is_missed() -> None:
    kernel = schedule().lowered()
    leave = next(s for s in walk(kernel.body) if isinstance(s, Call) and s.views[1].buffer.name == "partial")
    assert found(attrs.evolve(kernel, body=without(kernel.body, leave))) == "uninitialised-read"


def test_workspaces_are_no_arguments() -> None:
    kernel = schedule().lowered()
    interface = Interface.of(kernel)
    assert [p.name for p in interface.workspaces] == ["partial", "arrived"]
    assert [p.name for p in interface.pointers] == ["A", "B", "C"]
    assert [p.zero for p in kernel.parameters if isinstance(p, Workspace)] == [False, True]
    assert Interface.from_json(interface.to_json()) == interface
