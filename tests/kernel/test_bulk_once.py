"""Bulk loads above a ring: an mbarrier orders them, and a dropped wait or count is noticed."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Arrive, Await, For, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import attention
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays


def small() -> Any:
    q, k, v = (fi.tensor(1, 1, n, 64, dtype="f16") for n in (64, 64, 64))
    return attention.wgmma(attention.attention(q, k, v), groups=1, keys=32)


def test_the_role_that_loads_announces_the_bytes() -> None:
    kernel = small().lowered()
    (barrier,) = [b for b in kernel.barriers if b.name == "q_sh_full"]
    arrivals = [s for s in walk(kernel.body) if isinstance(s, Arrive) and s.barrier == barrier]
    assert [s.nbytes for s in arrivals] == [64 * 64 * 2]
    assert sum(isinstance(s, Await) and s.barrier == barrier for s in walk(kernel.body)) == 1


@pytest.mark.parametrize("kind", [Await, Arrive])
def test_planted_mistakes_are_found(kind: Any) -> None:
    kernel = small().lowered()

    def dropped(s: Any) -> Any:
        return () if isinstance(s, kind) and s.barrier.name == "q_sh_full" else s

    with pytest.raises(SimulationError):
        simulate(attrs.evolve(kernel, body=rewrite(kernel.body, dropped)), random_arrays(Interface.of(kernel), {}))


def test_the_walk_of_edges_finds_what_is_dropped_or_too_late() -> None:
    """The bytes are awaited ahead of the loop that reads them, and counted exactly."""
    kernel = small().lowered()
    assert unordered(kernel) == ()

    def of_load(s: Any, kind: Any) -> bool:
        return isinstance(s, kind) and s.barrier.name == "q_sh_full"

    def changed(kind: Any, *new: Any) -> Any:
        return rewrite(kernel.body, lambda s: new if of_load(s, kind) else s)

    (arrive,) = [s for s in walk(kernel.body) if of_load(s, Arrive)]
    (wait,) = [s for s in walk(kernel.body) if of_load(s, Await)]
    fewer = attrs.evolve(arrive, nbytes=arrive.nbytes - 16)
    other = attrs.evolve(wait, parity=1 - wait.parity)
    loops = [s for s in walk(kernel.body) if isinstance(s, For) and any(isinstance(x, Await) for x in s.body)]
    late = rewrite(changed(Await), lambda s: (s, wait) if isinstance(s, For) and s.var == loops[-1].var else s)
    bodies = [changed(Arrive), changed(Await), changed(Arrive, fewer), changed(Arrive, arrive, arrive)]
    for body in (*bodies, changed(Await, other), late):
        assert body != kernel.body
        assert unordered(attrs.evolve(kernel, body=body)) != ()
