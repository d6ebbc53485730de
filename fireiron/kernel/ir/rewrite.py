"""Rewriting statements: replacing, removing and selecting them, and replacing their variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, assert_never, cast

import attrs

from fireiron.algebra.expr import Element, Expr, Var, and_, as_int, free, substitute
from fireiron.algebra.scalar import placed
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
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Prefetch,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    View,
    Vote,
    Wait,
    walk,
)
from fireiron.language.atom import Atom
from fireiron.language.levels import Level

Body = tuple[Statement, ...]
PLAIN = frozenset({str, int, bool, float, type(None)})  # types of what has no parts


def rewrite(body: Body, f: Callable[[Statement], Statement | Body]) -> Body:
    """Rewrite statements, inner ones before those around them.

    Args:
        body: the statements. Loops, conditions, regions and roles are kept, with rewritten bodies.
        f: f(statement) -> its replacements: the statement itself, another one, several, or none.

    Returns:
        The rewritten statements; `body` itself where nothing changes.
    """
    out: list[Statement] = []
    same = True
    for s in body:
        now = s
        # Constructed directly: attrs.evolve would take as long as the rest of this function.
        if isinstance(s, For):
            inner = rewrite(s.body, f)
            if inner is not s.body:
                now = For(s.var, s.extent, inner, s.unroll, s.together, s.pairs, s.kind, s.drawn)
        elif isinstance(s, If):
            inner = rewrite(s.body, f)
            now = s if inner is s.body else If(s.condition, inner)
        elif isinstance(s, Region):
            inner = rewrite(s.body, f)
            if inner is not s.body:
                now = Region(s.title, inner, s.path, s.link, s.kind, s.buffer, s.id)
        elif isinstance(s, Roles):
            bodies = [rewrite(role.body, f) for role in s.roles]
            if any(new is not role.body for new, role in zip(bodies, s.roles, strict=True)):
                now = Roles(tuple(attrs.evolve(r, body=new) for r, new in zip(s.roles, bodies, strict=True)))
        found = f(now)
        if isinstance(found, tuple):
            out.extend(found)
            same = False
        else:
            out.append(found)
            same = same and found is s
    return body if same else tuple(out)


def replaced(body: Body, values: Mapping[Var, Expr] | Mapping[Element, Var]) -> Body:
    """Replace variables, or elements, by values; statements that never run are removed."""
    known: dict[Expr, Expr] = dict[Expr, Expr](values.items())

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

    def statement(s: Statement) -> Statement | Body:
        match s:
            case For(extent=extent):
                found = one(extent)
                return s if found is extent else attrs.evolve(s, extent=found)
            case If(inside, inner):
                holds = one(inside)
                truth = as_int(holds)
                return inner if truth == 1 else () if truth == 0 else If(holds, inner)
            case Call():
                return attrs.evolve(
                    s,
                    views=tuple(view(v) for v in s.views),
                    read=condition(s.read),
                    write=condition(s.write),
                    lane=maybe(s.lane),
                    accumulate=condition(s.accumulate),
                    signal=None if s.signal is None else (s.signal[0], one(s.signal[1])),
                    peers=maybe(s.peers),
                )
            case Compute():
                inputs = tuple(view(v) for v in s.inputs)
                return attrs.evolve(
                    s, dst=view(s.dst), expr=placed(s.expr, known), inputs=inputs, write=condition(s.write)
                )
            case Micro():
                bindings = tuple(Binding(b.name, one(b.value)) for b in s.bindings)
                views = tuple(view(v) for v in s.views)
                return attrs.evolve(s, views=views, bindings=bindings, write=condition(s.write))
            case Let(value=value):
                return attrs.evolve(s, value=one(value))
            case CountIn() | Meet():
                return attrs.evolve(s, counter=view(s.counter), count=one(s.count))
            case Raise(flag=flag) | Lower(flag=flag):
                return attrs.evolve(s, flag=view(flag))
            case FindGroup():
                return attrs.evolve(s, ends=view(s.ends), item=one(s.item))
            case Fetch():
                return attrs.evolve(s, view=view(s.view), present=one(s.present))
            case Draw():
                return attrs.evolve(
                    s,
                    first=one(s.first),
                    units=one(s.units),
                    items=one(s.items),
                    counter=view(s.counter),
                    place=view(s.place),
                )
            case Leave(condition=ends):
                return attrs.evolve(s, condition=one(ends))
            case Vote():
                return attrs.evolve(s, flag=view(s.flag), present=one(s.present))
            case Await():
                return attrs.evolve(s, slot=one(s.slot), parity=one(s.parity))
            case Arrive():
                return attrs.evolve(s, slot=one(s.slot), peer=maybe(s.peer))
            case Advance():
                return attrs.evolve(s, by=one(s.by))
            case Ask():
                return attrs.evolve(s, view=view(s.view))
            case Roles() | Region() | Commit() | Wait() | Sync() | InitBarriers() | Fence() | Prefetch() | Turn():
                return s
            case _ as never:
                assert_never(never)

    return rewrite(body, statement)


def without(body: Body, drop: Callable[[Statement], bool]) -> Body:
    """Remove statements at any depth."""
    return rewrite(body, lambda s: () if drop(s) else s)


def reduced(body: Body, keeps: Callable[[Statement], bool]) -> Body:
    """Keep some statements with the loops, conditions, regions and roles around them.

    Args:
        body: the statements.
        keeps: whether a statement without a body is kept. A body in which only `Let` is left is removed.
    """
    out: list[Statement] = []
    for s in body:
        match s:
            case For(body=inner) | If(body=inner) | Region(body=inner):
                if inside := reduced(inner, keeps):
                    out.append(attrs.evolve(s, body=inside))
            case Roles(roles=roles):
                out.append(Roles(tuple(attrs.evolve(r, body=reduced(r.body, keeps)) for r in roles)))
            case _:
                if keeps(s):
                    out.append(s)
    return tuple(out) if any(not isinstance(s, Let) for s in out) else ()


def masked(body: Body, present: Expr, able: Callable[[Call], bool]) -> Body | None:
    """Make a condition the `write` of atoms, so that no branch is needed; None where an atom has no such condition."""

    def carries(s: Statement) -> Statement:
        if not isinstance(s, Call):
            return s
        return attrs.evolve(s, write=present if s.write is None else and_(s.write, present))

    held = all(isinstance(s, For | If | Region) or (isinstance(s, Call) and able(s)) for s in walk(body))
    return rewrite(body, carries) if held else None


def mentions(body: object, var: Var) -> bool:
    """Say whether statements, or parts of them, use a variable."""
    pending = [body]
    while pending:
        part = pending.pop()
        if type(part) in PLAIN:
            continue
        if isinstance(part, Expr):
            if var in free(part):
                return True
        else:
            pending += cast("tuple[object, ...]", part) if isinstance(part, tuple) else parts_of(part)
    return False


def parts_of(record: object) -> tuple[object, ...]:
    """List the values of a record's fields; nothing of atoms, links and levels, which hold no variables."""
    return _fields_of(type(record))(record)


@cache
def _fields_of(kind: type[Any]) -> Callable[[object], tuple[object, ...]]:
    names = () if issubclass(kind, (Atom, Link, Level)) or not attrs.has(kind) else tuple(attrs.fields_dict(kind))
    if not names:
        return lambda _: ()
    found = attrgetter(*names)
    return found if len(names) > 1 else lambda record: (found(record),)
