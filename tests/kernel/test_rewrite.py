"""Values put in the place of variables, in statements of every kind."""

from __future__ import annotations

import attrs

from fireiron import matmul
from fireiron.algebra.expr import Var, as_expr
from fireiron.base.link import Link
from fireiron.base.place import Place
from fireiron.kernel.ir.rewrite import replaced, rewrite
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Ask,
    Await,
    Barrier,
    Call,
    Cursor,
    Fence,
    For,
    Region,
    Role,
    Roles,
    walk,
)
from fireiron.schedules import hopper
from fireiron.schedules.hopper import Plan


def test_statements_of_roles_are_rewritten():
    at, full, ring = Var("at", 4), Barrier("full", 4, 1, 0), Cursor("ring", 4)
    inner = (Await(full, at, at % 2), Arrive(full, at, 128, peer=at), Advance(ring, at), Fence("proxy.async"))
    (roles,) = replaced((Roles((Role("load", 0, 128, 0, (ring,), inner),)),), {at: as_expr(3)})
    assert isinstance(roles, Roles)
    three = as_expr(3)
    assert roles.roles[0].body == (
        Await(full, three, as_expr(1)), Arrive(full, three, 128, peer=three), Advance(ring, three), inner[3],
    )  # fmt: skip


def test_lines_that_are_asked_for_are_rewritten():
    at = Var("at", 4)
    kernel = hopper.cooperative(matmul(512, 64, 320, dtype="bf16", arch="sm_90", layout="TN"), Plan(128, 64)).lowered()
    asked = next(s for s in walk(kernel.body) if isinstance(s, Ask))
    (found,) = replaced((attrs.evolve(asked, view=attrs.evolve(asked.view, offset=at * 64)),), {at: as_expr(3)})
    assert isinstance(found, Ask)
    assert found.view.offset == as_expr(192)


def test_bulk_copies_and_products_are_rewritten():
    plan = Plan(m=128, n=64, stages=3, cluster=(2, 1))
    kernel = hopper.cooperative(matmul(512, 64, 320, dtype="bf16", arch="sm_90", layout="TN"), plan).lowered()
    assert replaced(kernel.body, {}) == kernel.body
    calls = [s for s in walk(kernel.body) if isinstance(s, Call)]
    load = next(s for s in calls if s.peers is not None)
    math = next(s for s in calls if s.accumulate is not None)
    assert load.signal is not None
    slot, other = Var("slot", 3), Var("k", 5)
    found = replaced(
        (Call(load.atom, load.views, map=load.map, signal=(load.signal[0], slot), peers=slot),
         Call(math.atom, math.views, accumulate=other)),
        {slot: as_expr(2), other: as_expr(1)},
    )  # fmt: skip
    copy, product = found
    assert isinstance(copy, Call)
    assert isinstance(product, Call)
    assert copy.signal == (load.signal[0], as_expr(2))
    assert copy.peers == as_expr(2)
    assert product.accumulate is None


def test_what_stands_around_keeps_all_its_fields() -> None:
    link, call = Link(Place("a.py", 1)), Advance(Cursor("ring", 2), as_expr(1))
    loop = For(Var("i", 4), as_expr(4), (call,), True, 2, True, "chunks", True)
    region = Region("title", (loop,), "path", link, "load", "a_sh", 7)
    other = Advance(Cursor("ring", 2), as_expr(2))
    (found,) = rewrite((region,), lambda s: other if s is call else s)
    (inner,) = found.body
    assert inner.body == (other,)
    for old, new in ((loop, inner), (region, found)):
        fields = [f.name for f in attrs.fields(type(old)) if f.name != "body"]
        assert [getattr(old, name) for name in fields] == [getattr(new, name) for name in fields]
        assert all(getattr(old, f.name) != f.default for f in attrs.fields(type(old)))
