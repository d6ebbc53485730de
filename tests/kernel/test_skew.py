"""Skewed loops: the next chunk's product is in flight beside this one's, and every wait and phase of it counts."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Arrive, Await, For, Region, Statement, Wait, walk
from fireiron.schedules import attention
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references
from fireiron.verify.verification import Data, verify


def heads(queries: int, keys: int, causal: bool = False) -> Any:
    q, k, v = (fi.tensor(1, 1, n, 64, dtype="f16") for n in (queries, keys, keys))
    spec = attention.attention(q, k, v, causal=causal)
    return attention.wgmma(spec, groups=1, keys=32, stages=2, persistent=False, slack=0)


def loop_of(schedule: Any) -> For:
    found = [s for s in walk(schedule.lowered().body) if isinstance(s, For) and s.kind == "chunks"]
    return next(s for s in found if any(isinstance(x, Wait) for x in walk(s.body)))


def test_two_products_are_in_flight() -> None:
    body = loop_of(heads(64, 256)).body
    said = [
        s.buffer if isinstance(s, Region) else s.pending for s in walk(body) if isinstance(s, Wait) or is_product(s)
    ]
    assert said == ["s", "o", 1, 0]


def is_product(s: Statement) -> bool:
    return isinstance(s, Region) and s.kind == "product"


def test_arrays_have_barriers_of_their_own() -> None:
    names = [b.name for b in heads(64, 256).lowered().barriers]
    assert names == ["k_full", "k_empty", "v_full", "v_empty", "q_sh_full"]


@pytest.mark.parametrize("keys", [20, 32, 40, 64, 75, 160])
def test_results_are_right_whatever_the_number_of_trips(keys: int) -> None:
    made = heads(64, keys)

    def launch(data: Data) -> None:
        made.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(made, launch, {})
    assert verdict.passed, str(verdict)


def test_tiles_without_trips() -> None:
    """The first tile's queries see no key at all."""
    made = heads(160, 40, causal=True)

    def launch(data: Data) -> None:
        made.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(made, launch, {})
    assert verdict.passed, str(verdict)


def outcome(schedule: Any, body: Any) -> str:
    kernel = attrs.evolve(schedule.lowered(), body=body)
    arrays = random_arrays(Interface.of(kernel), {})
    expected = references(schedule, arrays, {})
    try:
        simulate(kernel, arrays)
    except SimulationError as error:
        return error.code
    return "right" if compare("y", arrays["y"], expected["y"], schedule.computed.outputs[0].dtype).passed else "wrong"


def test_planted_mistakes_are_found() -> None:
    made = heads(64, 160)
    body = made.lowered().body
    assert outcome(made, body) == "right"
    (loop,) = [s for s in walk(body) if isinstance(s, For) and any(isinstance(x, Wait) for x in walk(s.body))]
    planted = [s for s in walk(loop.body) if isinstance(s, Wait | Await | Arrive)]
    assert len(planted) == 2 + 2 + 2
    for one in planted:
        assert outcome(made, rewrite(body, lambda s, one=one: () if s is one else s)) != "right"
