"""Rewriting statements: one lowered body stands at several places, with other values of its variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never, cast

import attrs

from fireiron.algebra.expr import Expr, Var, and_, as_int, free, substitute
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Ask,
    Await,
    Binding,
    Call,
    Commit,
    Compute,
    CountIn,
    Fence,
    FindGroup,
    For,
    If,
    InitBarriers,
    Let,
    Lower,
    Micro,
    Prefetch,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    View,
    Wait,
)
from fireiron.language.atom import Atom
from fireiron.language.levels import Level

Body = tuple[Statement, ...]


def replaced(body: Body, values: Mapping[Var, Expr]) -> Body:
    """Put values in the place of variables; what is never run is left out."""
    known = dict(values)

    def one(e: Expr) -> Expr:
        return substitute(e, known)

    def condition(e: Expr | None) -> Expr | None:
        if e is None:
            return None
        found = one(e)
        return None if as_int(found) == 1 else found

    def maybe(e: Expr | None) -> Expr | None:
        return None if e is None else one(e)

    def view(v: View) -> View:
        origin = tuple(one(x) for x in v.origin)
        return attrs.evolve(v, offset=one(v.offset), slot=maybe(v.slot), origin=origin, peer=maybe(v.peer))

    out: list[Statement] = []
    for s in body:
        match s:
            case For(extent=extent, body=inner):
                out.append(attrs.evolve(s, extent=one(extent), body=replaced(inner, known)))
            case If(inside, inner):
                holds, rest = one(inside), replaced(inner, known)
                truth = as_int(holds)
                out.extend(rest if truth == 1 else () if truth == 0 else (If(holds, rest),))
            case Region(body=inner):
                out.append(attrs.evolve(s, body=replaced(inner, known)))
            case Call():
                changed = attrs.evolve(
                    s,
                    views=tuple(view(v) for v in s.views),
                    read=condition(s.read),
                    write=condition(s.write),
                    lane=maybe(s.lane),
                    accumulate=condition(s.accumulate),
                    signal=None if s.signal is None else (s.signal[0], one(s.signal[1])),
                    peers=maybe(s.peers),
                )
                out.append(changed)
            case Compute():
                inputs = tuple(view(v) for v in s.inputs)
                out.append(attrs.evolve(s, dst=view(s.dst), inputs=inputs, write=condition(s.write)))
            case Micro():
                bindings = tuple(Binding(b.name, one(b.value)) for b in s.bindings)
                views = tuple(view(v) for v in s.views)
                out.append(attrs.evolve(s, views=views, bindings=bindings, write=condition(s.write)))
            case Let(value=value):
                out.append(attrs.evolve(s, value=one(value)))
            case CountIn():
                out.append(attrs.evolve(s, counter=view(s.counter), count=one(s.count)))
            case Raise(flag=flag) | Lower(flag=flag):
                out.append(attrs.evolve(s, flag=view(flag)))
            case FindGroup():
                out.append(attrs.evolve(s, ends=view(s.ends), item=one(s.item)))
            case Await():
                out.append(attrs.evolve(s, slot=one(s.slot), parity=one(s.parity)))
            case Arrive():
                out.append(attrs.evolve(s, slot=one(s.slot), peer=maybe(s.peer)))
            case Advance():
                out.append(attrs.evolve(s, by=one(s.by)))
            case Ask():
                out.append(attrs.evolve(s, view=view(s.view)))
            case Roles(roles=roles):
                out.append(Roles(tuple(attrs.evolve(role, body=replaced(role.body, known)) for role in roles)))
            case Commit() | Wait() | Sync() | InitBarriers() | Fence() | Prefetch() | Turn():
                out.append(s)
            case _ as never:
                assert_never(never)
    return tuple(out)


def without(body: Body, drop: Callable[[Statement], bool]) -> Body:
    """Leave out statements, wherever they stand."""
    out: list[Statement] = []
    for s in body:
        match s:
            case _ if drop(s):
                continue
            case For(body=inner) | If(body=inner) | Region(body=inner):
                out.append(attrs.evolve(s, body=without(inner, drop)))
            case _:
                out.append(s)
    return tuple(out)


def masked(body: Body, present: Expr, able: Callable[[Call], bool]) -> Body | None:
    """Let atoms carry a condition themselves, so that no branch parts what stands around; None where one cannot."""
    out: list[Statement] = []
    for s in body:
        match s:
            case For(body=inner) | If(body=inner) | Region(body=inner):
                found = masked(inner, present, able)
                if found is None:
                    return None
                out.append(attrs.evolve(s, body=found))
            case Call() if able(s):
                out.append(attrs.evolve(s, write=present if s.write is None else and_(s.write, present)))
            case _:
                return None
    return tuple(out)


def mentions(body: object, var: Var) -> bool:
    """Say whether statements, or parts of them, say a variable's name."""
    match body:
        case Expr():
            return var in free(body)
        case tuple():
            return any(mentions(part, var) for part in cast("tuple[object, ...]", body))
        case Atom() | Link() | Level():
            return False
        case _:
            return attrs.has(type(body)) and any(mentions(getattr(body, f.name), var) for f in attrs.fields(type(body)))
