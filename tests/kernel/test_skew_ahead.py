"""Skewed loops in which several products run ahead, and steps of two chunks read one array."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron.base.errors import SimulationError
from fireiron.estimate.registers import least_registers
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Await,
    Commit,
    Fence,
    For,
    Region,
    Statement,
    Sync,
    Wait,
    walk,
)
from fireiron.schedules import attention_gradients as gradients
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references

POINTS = "ds", "held_ds", "shared_ds"
# For each form: the skew, and the order of a chunk's steps.
FORMS: dict[str, tuple[tuple[str, str], tuple[str, ...]]] = {
    "two products ahead": (("dp", "dk"), ("s", "dp", "p", *POINTS, "dv", "dq", "y2", "dk")),
    "one product ahead": (("s", "dk"), ("s", "p", "dp", *POINTS, "dq", "dv", "y2", "dk")),
    "before all sums": (("s", "dv"), ("s", "p", "dp", *POINTS, "dv", "dq", "dk", "y2")),
}


def made(form: str, queries: int = 256, keys: int = 64, causal: bool = False) -> Any:
    heads = [fi.tensor(1, 1, n, 64, dtype="f16") for n in (queries, keys, keys, queries)]
    rows, sums = [fi.tensor(1, 1, queries) for _ in range(2)], fi.tensor(1, 1, queries, 64, name="sums")
    spec = gradients.of_all(*heads, *rows, sums, causal=causal, out=("f16", "f16", fi.inplace("sums")))
    skew, order = FORMS[form]
    return gradients.at_once(spec, skew=skew, order=order, slots=1)


def loop_of(schedule: Any) -> For:
    found = [s for s in walk(schedule.lowered().body) if isinstance(s, For) and s.kind == "chunks"]
    return next(s for s in found if any(isinstance(x, Wait) for x in walk(s.body)))


def outcome(schedule: Any, body: Any) -> str:
    kernel = attrs.evolve(schedule.lowered(), body=body)
    arrays = random_arrays(Interface.of(kernel), {})
    expected = references(schedule, arrays, {})
    try:
        simulate(kernel, arrays)
    except SimulationError as error:
        return error.code
    pairs = zip(expected.items(), schedule.computed.outputs, strict=True)
    right = all(compare(n, arrays.get(n, arrays["sums"]), x, out.dtype).passed for (n, x), out in pairs)
    return "right" if right else "wrong"


def said(schedule: Any) -> list[str]:
    """List the products, the waits for them and the barriers of a trip, in order."""
    words: list[str] = []
    for s in walk(loop_of(schedule).body):
        if isinstance(s, Region) and s.kind == "product":
            words.append(s.buffer)
        elif isinstance(s, Wait) and s.group == "wgmma":
            words.append(str(s.pending))
        elif isinstance(s, Sync) and s.level == fi.Block:
            words.append("barrier")
    return words


def test_products_that_are_in_flight() -> None:
    assert said(made("two products ahead")) == ["s", "dp", "dk", "2", "1", "0", "dv", "dq", "barrier", "0"]
    assert said(made("one product ahead")) == ["s", "dk", "1", "dp", "0", "dq", "barrier", "dv", "1", "0"]


def test_the_barrier_stands_behind_products_that_do_not_need_it() -> None:
    """Gradients of scores are written in the last trip; scores and values' gradients run while warps wait."""
    assert said(made("before all sums")) == ["s", "dv", "dq", "barrier", "dk", "1", "dp", "0"]


def test_an_array_of_two_chunks_has_a_slot_more() -> None:
    slots = {b.name: b.slots for b in made("one product ahead").lowered().buffers}
    assert (slots["q_sh"], slots["dy_sh"]) == (3, 2)
    cursors = [s.cursor.name for s in walk(loop_of(made("one product ahead")).body) if isinstance(s, Advance)]
    assert sorted(cursors)[-2:] == ["q_last", "q_ring"]


@pytest.mark.product
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("queries", "causal"), [(40, False), (64, False), (128, False), (200, True)])
def test_results_are_right_whatever_the_number_of_trips(form: str, queries: int, causal: bool) -> None:
    schedule = made(form, queries, 200 if causal else 64, causal)
    assert outcome(schedule, schedule.lowered().body) == "right"


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=pytest.mark.exhaustive) if n else form for n, form in enumerate(FORMS)]
)
def test_planted_mistakes_are_found(form: str) -> None:
    schedule = made(form)
    body = schedule.lowered().body
    assert outcome(schedule, body) == "right"
    for one in walk(loop_of(schedule).body):
        if ordering(one):
            assert outcome(schedule, rewrite(body, lambda s, one=one: () if s is one else s)) != "right", one


def ordering(s: Statement) -> bool:
    """Say whether a statement orders accesses.

    Fences of registers behind a wait are for the assembler alone. That lse and delta were read, the sums' barriers say
    too.
    """
    spare = (isinstance(s, Fence | Sync) and "the slot" in s.reason) or (isinstance(s, Fence) and s.kind == "registers")
    return isinstance(s, Wait | Await | Arrive | Sync | Commit | Fence) and not spare


@pytest.mark.parametrize("form", FORMS)
def test_no_pass_changes_what_is_stored(form: str) -> None:
    assert not [p.name for p in made(form).explain(passes=True).passes if p.broken]


def test_registers_of_a_skewed_loop_count_where_they_are_needed() -> None:
    """The first chunk's statements stand before the loop, and the loop writes the same registers anew."""
    # Two sums of 32, scores of two products, gradients of scores before and after rounding, weights.
    assert least_registers(made("two products ahead").lowered()) == 176
    assert least_registers(made("before all sums").lowered()) == 144
