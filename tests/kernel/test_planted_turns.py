"""Mistakes planted in turns of units: the walk of edges, or the simulator, finds every one."""

from __future__ import annotations

import attrs
import pytest

from fireiron import matmul
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import If, Kernel, Statement, Turn, walk
from fireiron.kernel.passes.edges import unordered
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays
from tests.kernel.test_planted_cluster import moved


def staggered() -> Kernel:
    spec = matmul(200, 136, 312, "bf16", layout="TN", arch="sm_90")
    return hopper.pingpong(spec, Plan(64, 64, 2, pingpong=True, stages=2)).lowered()


def noticed(kernel: Kernel) -> str:
    """Say what is found: by the walk of edges, else by the simulator."""
    if unordered(kernel):
        return "edges"
    try:
        simulate(kernel, random_arrays(Interface.of(kernel), {}), launched=3)
    except SimulationError as error:
        return error.code
    return ""


def of_turn(s: Statement, waits: bool | None = None) -> bool:
    """Say whether a statement lets one unit wait, or tell."""
    if not isinstance(s, If) or not all(isinstance(x, Turn) for x in s.body):
        return False
    return any(isinstance(x, Turn) and "turns" in x.reason and waits in (None, x.waits) for x in s.body)


def test_turns_are_in_order() -> None:
    assert noticed(staggered()) == ""


def test_dropped_turns() -> None:
    kernel = staggered()
    for gone in [s for s in walk(kernel.body) if isinstance(s, Turn)]:
        body = rewrite(kernel.body, lambda s, g=gone: () if s is g else s)
        assert noticed(attrs.evolve(kernel, body=body)), str(gone)


@pytest.mark.parametrize("change", ["number", "threads", "waits"])
def test_changed_turns(change: str) -> None:
    kernel = staggered()
    for turn in [s for s in walk(kernel.body) if isinstance(s, Turn) and "turns" in s.reason]:
        other = {"number": turn.number ^ 1, "threads": turn.threads + 128, "waits": not turn.waits}[change]
        made = attrs.evolve(turn, **{change: other})
        body = rewrite(kernel.body, lambda s, t=turn, m=made: m if s is t else s)
        assert noticed(attrs.evolve(kernel, body=body)), str(turn)


def test_units_that_wait_behind_their_loop() -> None:
    kernel = staggered()
    for i, turn in enumerate([s for s in walk(kernel.body) if of_turn(s, waits=True)]):
        assert noticed(moved(kernel, lambda s, t=turn: s is t, 2 - i)), str(turn)


def test_units_that_tell_ahead_of_their_loop() -> None:
    kernel = staggered()
    for i, turn in enumerate([s for s in walk(kernel.body) if of_turn(s, waits=False)]):
        assert noticed(moved(kernel, lambda s, t=turn: s is t, -1 - i)), str(turn)
