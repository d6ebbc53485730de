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
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references


def small(persistent: bool = False) -> Any:
    q, k, v = (fi.tensor(1, 2, n, 64, dtype="f16") for n in (192, 64, 64))
    return attention.wgmma(attention.attention(q, k, v), groups=1, keys=32, persistent=persistent)


def test_the_role_that_loads_announces_the_bytes() -> None:
    kernel = small().lowered()
    (barrier,) = [b for b in kernel.barriers if b.name == "q_sh_full"]
    arrivals = [s for s in walk(kernel.body) if isinstance(s, Arrive) and s.barrier == barrier]
    assert [s.nbytes for s in arrivals] == [64 * 64 * 2]
    assert sum(isinstance(s, Await) and s.barrier == barrier for s in walk(kernel.body)) == 1


def test_blocks_that_loop_over_tiles_have_two_slots() -> None:
    kernel = small(persistent=True).lowered()
    slots = {b.name: (b.slots, b.count) for b in kernel.barriers if b.name.startswith("q_sh")}
    assert slots == {"q_sh_full": (2, 1), "q_sh_empty": (2, 1)}
    assert next(b for b in kernel.buffers if b.name == "q_sh").slots == 2


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


def outcome(schedule: Any, body: Any) -> str:
    """Run a kernel of three tiles a block: the code of its fault, else whether its output is right."""
    kernel = attrs.evolve(schedule.lowered(), body=body)
    arrays = random_arrays(Interface.of(kernel), {})
    expected = references(schedule, arrays, {})
    try:
        simulate(kernel, arrays)
    except SimulationError as error:
        return error.code
    return "right" if compare("y", arrays["y"], expected["y"], schedule.computed.outputs[0].dtype).passed else "wrong"


@pytest.mark.parametrize("persistent", [False, True])
def test_planted_mistakes_are_found(persistent: bool) -> None:
    made = small(persistent)
    body = made.lowered().body
    assert outcome(made, body) == "right"
    planted = [s for s in walk(body) if isinstance(s, Await | Arrive) and s.barrier.name.startswith("q_sh")]
    assert len(planted) == (4 if persistent else 2)
    for one in planted:
        assert outcome(made, rewrite(body, lambda s, one=one: () if s is one else s)) != "right"
