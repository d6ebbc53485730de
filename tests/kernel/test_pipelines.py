"""Pipelines run ahead by a pass: copies of one chunk become those of later ones, and two loops become one."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron.algebra.expr import Expr, Var, as_expr, evaluate, lt, ne
from fireiron.kernel.ir.statements import For, If, Let, Region, Statement
from fireiron.kernel.passes.pipeline import Pipe, run_ahead

K, ANY, SLOT = Var("k", 5), Var("any chunk", 5), Var("any slot", 3)
OUT = Var("out", 100)


def mark(value: Expr, name: str = "out") -> Statement:
    """Stand for a statement that does something with a value."""
    return Let(Var(name, 100), value)


def loop(
    *compute: Statement, name: str = "a", copies: tuple[Expr, Expr] = (as_expr(ANY), ANY + 50), var: Var = K
) -> For:
    parts = zip(("start", "finish"), copies, strict=True)
    regions = tuple(Region(kind, (mark(value, kind),), "", None, kind, name) for kind, value in parts)
    return For(var, as_expr(var.extent or 1), (*regions, *compute), kind="chunks")


def pipe(stages: int = 3, **changes: Any) -> Pipe:
    known: dict[str, Any] = {
        "stages": stages,
        "chunk": ANY,
        "number": K,
        "every": as_expr(5),
        "slot": None,
        "flows": True,
    }
    return Pipe(**{**known, **changes})


def values(body: tuple[Statement, ...]) -> list[tuple[str, int]]:
    """Run statements, and list what each does."""
    found: list[tuple[str, int]] = []

    def run(inner: tuple[Statement, ...], env: dict[str, int]) -> None:
        for s in inner:
            match s:
                case Let(var=var, value=value):
                    found.append((var.name, _at(value, env)))
                case For(var=var, extent=extent, body=more):
                    for trip in range(_at(extent, env)):
                        run(more, {**env, var.name: trip})
                case If(condition=condition, body=more):
                    if _at(condition, env):
                        run(more, env)
                case Region(body=more):
                    run(more, env)
                case _:
                    raise AssertionError(s)

    run(body, {})
    return found


def _at(value: Any, env: dict[str, int]) -> int:
    return int(evaluate(as_expr(value), env))  # pyright: ignore[reportArgumentType]


FIRST = Region("first", (), "", None, "first", "a")


@pytest.mark.parametrize("stages", [2, 3, 4, 7])
def test_each_chunk_is_started_finished_and_computed_once(stages: int) -> None:
    found = values(run_ahead((FIRST, mark(as_expr(7), "between"), loop(mark(as_expr(K)))), {"a": pipe(stages)}))
    for kind, first in (("start", 0), ("finish", 50), ("out", 0)):
        assert [n for name, n in found if name == kind] == [first + c for c in range(5)]
    place = {event: i for i, event in enumerate(found)}
    for c in range(5):
        assert place["start", c] < place["finish", c + 50] < place["out", c]
        if c + stages - 1 < 5:  # a slot is filled again when its chunk was computed, and not a trip later
            assert place["out", c] > place["start", c + stages - 1]
        if c + stages < 5:
            assert place["out", c] < place["start", c + stages]
    filled = min(stages - 1, 5)
    assert found.index(("between", 7)) == 2 * filled  # the mark says where the first slots are filled


def test_registers_say_which_slot() -> None:
    body = run_ahead((FIRST, loop(mark(as_expr(SLOT)), copies=(as_expr(SLOT), ANY))), {"a": pipe(3, slot=SLOT)})
    found = values(body)
    assert [n for name, n in found if name == "start"] == [n for name, n in found if name == "out"] == [0, 1, 2, 0, 1]


def test_slots_of_a_layer_follow_on_those_of_the_one_before() -> None:
    layer, all_, number = Var("layer", 2), Var("any chunk", 10), Var("layer", 2) * 5 + K
    copied = loop(mark(number), copies=(as_expr(all_), all_ + 50))
    body = (FIRST, For(layer, as_expr(2), (copied,), kind="layers"))
    found = values(run_ahead(body, {"a": pipe(3, chunk=all_, number=number, every=as_expr(10))}))
    assert [n for name, n in found if name == "start"] == list(range(10))
    assert found.index(("start", 6)) < found.index(("out", 4)) < found.index(("start", 7))


def nested(between: tuple[Statement, ...] = (), flows: bool = True) -> tuple[tuple[Statement, ...], dict[str, Pipe]]:
    """Give a pipeline of registers, of 2 steps and 2 slots, inside one of 5 chunks and 3 slots."""
    step, any_step, slot = Var("i", 2), Var("any step", 2), Var("any register", 2)
    inner = loop(mark(K * 10 + step), name="b", copies=(K * 10 + any_step, as_expr(slot)), var=step)
    unit = Region("unit", (Region("first", (), "", None, "first", "b"), inner))
    pipes = {"a": pipe(3), "b": pipe(2, chunk=any_step, number=step, every=as_expr(2), slot=slot, flows=flows)}
    return (FIRST, loop(*between, unit)), pipes


def test_registers_are_fetched_across_chunks() -> None:
    body = run_ahead(*nested())
    found = values(body)
    computed = [10 * k + i for k in range(5) for i in range(2)]
    assert [n for name, n in found if name == "out"] == computed
    fetched = [
        n for i, (name, n) in enumerate(found) if name == "start" and found[i + 1] in (("finish", 0), ("finish", 1))
    ]
    assert sorted(fetched) == computed
    # The first fragment of a chunk is fetched ahead of the last step of the chunk before.
    place = [i for i, (name, n) in enumerate(found) if (name, n) in (("start", 10), ("out", 1))]
    assert [found[i] for i in place] == [("start", 10), ("out", 1)]


@pytest.mark.parametrize("why", ["more is computed", "drained"])
def test_loops_stay_two_where_they_must(why: str) -> None:
    body, pipes = nested((mark(as_expr(1), "more"),)) if why == "more is computed" else nested(flows=False)
    found = values(run_ahead(body, pipes))
    place = [i for i, (name, n) in enumerate(found) if (name, n) in (("start", 10), ("out", 1))]
    assert [found[i] for i in place] == [("out", 1), ("start", 10)]


def test_what_has_no_pipeline_stays() -> None:
    body = (mark(as_expr(1)), If(ne(K, 0), (If(lt(K, 3), (mark(as_expr(K)),)),)))
    assert run_ahead(body, {}) is body
