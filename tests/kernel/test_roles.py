"""Roles are projections of one body: each call of it stands in exactly one role, and brings the names that it needs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fireiron.algebra.expr import Expr, Var, as_expr, free, lt
from fireiron.kernel.ir.statements import (
    Advance,
    Call,
    Compute,
    Cursor,
    For,
    If,
    Let,
    Region,
    Role,
    Roles,
    walk,
    within,
)
from fireiron.kernel.lower.kernel import Passed, lower
from fireiron.kernel.passes.roles import Crews, computes, fills, part
from tests.mutate.cases import CASES

ROLES = (
    "hopper",
    "hopper turns",
    "hopper groups",
    "hopper stream_k",
    "two sums",
    "mlp",
    "attention, wgmma",
    "conv, wgmma",
)


def parted(schedule: Any) -> Passed:
    """Give what stands before and behind the pass that parts roles."""
    found: list[Passed] = []
    lower(schedule.program, schedule.links, "kernel", told=found.append)
    (one,) = [p for p in found if p.name == "roles"]
    return one


@pytest.mark.parametrize("name", ROLES)
def test_each_call_stands_in_one_role(name: str) -> None:
    passed = parted(CASES[name]())
    calls, after = ([s for s in walk(body) if isinstance(s, Call | Compute)] for body in (passed.before, passed.after))
    assert not any(isinstance(s, Roles) for s in walk(passed.before))
    assert Counter(map(id, calls)) == Counter(map(id, after))  # none is lowered again, none is lost
    filling = [id(s) for s, around in within(passed.before) if isinstance(s, Call) and _fills(around)]
    (roles,) = [s for s in passed.after if isinstance(s, Roles)]
    load = next(r for r in roles.roles if r.name == "load")
    assert {id(s) for s in walk(load.body) if isinstance(s, Call)} == set(filling)


def _fills(around: tuple[Any, ...]) -> bool:
    return any(isinstance(s, Region) and s.kind == "fill" for s in around)


RING = Cursor("ring", 2)
TILE, K, THREADS = Var("tile", 8), Var("k", 4), Var("threads", 32)


def advance(by: Expr) -> Advance:
    return Advance(RING, by)


def test_names_go_to_the_role_that_needs_them() -> None:
    fill = Region("fill", (advance(TILE),), kind="fill")
    body = (Let(TILE, as_expr(3)), Let(THREADS, as_expr(5)), For(K, as_expr(4), (fill, advance(THREADS))))
    assert fills(body) == (Let(TILE, as_expr(3)), For(K, as_expr(4), (advance(TILE),)))
    assert computes(body) == (Let(THREADS, as_expr(5)), For(K, as_expr(4), (advance(THREADS),)))


def test_what_stands_for_fills_alone_is_left_out() -> None:
    body = (If(lt(TILE, 3), (For(K, as_expr(4), (Region("fill", (advance(K),), kind="fill"),)),)), advance(TILE))
    assert computes(body) == (advance(TILE),)
    assert fills(body) == (If(lt(TILE, 3), (For(K, as_expr(4), (advance(K),)),)),)


def test_one_thread_fills() -> None:
    names = (Let(TILE, as_expr(3)), Let(THREADS, as_expr(5)))
    body = (Region("fill", (advance(TILE),), kind="fill"), advance(THREADS))
    (roles,) = part(names, body, Crews(128, True, 256, (24, 240), (RING,), (advance(as_expr(1)),)))
    assert isinstance(roles, Roles)
    load, math = roles.roles
    assert (load.first, load.threads, load.registers, math.first, math.threads, math.registers) == (
        0, 128, 24, 128, 256, 240,
    )  # fmt: skip
    assert _names(load) == ["tile"]
    assert _names(math) == ["threads"]
    (alone,) = [s for s in load.body if isinstance(s, If)]
    assert alone.body == (advance(TILE),)
    assert {str(x) for x in free(alone.condition)} == {"thread"}
    assert [s for s in math.body if isinstance(s, Advance)] == [advance(as_expr(1)), advance(THREADS)]


def _names(role: Role) -> list[str]:
    return [s.var.name for s in role.body if isinstance(s, Let)]
