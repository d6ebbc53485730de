"""Subscripts: elements of integer arrays that are used as indices become variables.

Each element is read once, before the outermost loop in which it stays the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import attrs

from fireiron.algebra.expr import Element, Expr, Var, and_, as_expr, free, ge, lt, operands, substitute
from fireiron.base.link import Link
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.rewrite import PLAIN, parts_of, replaced
from fireiron.kernel.ir.statements import (
    CountIn,
    Draw,
    Fetch,
    FindGroup,
    For,
    If,
    Let,
    Region,
    Roles,
    Statement,
    View,
    Vote,
    walk,
)
from fireiron.kernel.lower.context import buffer_of
from fireiron.kernel.lower.window import Storage

Body = tuple[Statement, ...]


def fetched(body: Body, arrays: Mapping[str, Storage], taken: Collection[str]) -> Body:
    """Insert reads of the elements that statements use as indices, and replace the elements by variables.

    Args:
        body: the statements.
        arrays: the kernel's tensors in global memory, by name.
        taken: names of the kernel.
    """
    if not elements_of(body):
        return body
    return _within(body, {}, arrays, Names(taken, body))


def _within(body: Body, known: Mapping[Element, Var], arrays: Mapping[str, Storage], names: Names) -> Body:
    out: list[Statement] = []
    known = dict(known)
    for statement in body:
        own = _bound((statement,))
        for element in elements_of(_outside(statement)):
            if element not in known and own.isdisjoint(free(element)):
                index = tuple(substitute(e, known) for e in element.index)
                out.append(_fetch(element, index, _link(statement), arrays, names))
                known[element] = cast(Fetch, out[-1]).var
        for now in replaced((statement,), known):
            match now:
                case For(body=inner) | If(body=inner) | Region(body=inner):
                    out.append(attrs.evolve(now, body=_within(inner, known, arrays, names)))
                case Roles(roles=roles):
                    parts = tuple(attrs.evolve(r, body=_within(r.body, known, arrays, names)) for r in roles)
                    out.append(attrs.evolve(now, roles=parts))
                case _:
                    out.append(now)
    return tuple(out)


def _outside(statement: Statement) -> object:
    """List the index elements of a statement that may be read before it: not those under a condition or in a role."""
    match statement:
        case If(condition=condition):
            return condition
        case Roles():
            return ()
        case For(extent=extent, body=body):
            return (extent, tuple(map(_outside, body)))
        case Region(body=body):
            return tuple(map(_outside, body))
        case _:
            return statement


def _bound(body: Body) -> set[Expr]:
    """List the variables that statements set."""
    found: set[Expr] = set()
    for s in walk(body):
        match s:
            case For(var=var) | Let(var=var) | CountIn(var=var) | Vote(var=var) | Draw(var=var):
                found.add(var)
            case FindGroup(groups=groups):
                found |= {groups.group, groups.first, groups.begin, groups.length, groups.sought}
            case _:
                pass
    return found


def _fetch(
    element: Element, index: tuple[Expr, ...], link: Link | None, arrays: Mapping[str, Storage], names: Names
) -> Fetch:
    storage = arrays[element.array]
    present = and_(*(and_(ge(e, 0), lt(e, as_expr(n))) for e, n in zip(index, element.shape, strict=True)))
    var = Var(names.name(f"{element.array}_at".lower()), element.extent, element.lower)
    return Fetch(var, View(buffer_of(storage), storage.address(index), origin=index), present, link)


def elements_of(part: object) -> list[Element]:
    """List the array elements that are indices in statements; an element in the index of another comes before it."""
    found: list[Element] = []
    _list_elements(part, found)
    return found


def _list_elements(part: object, found: list[Element]) -> None:
    if isinstance(part, Expr):
        for operand in operands(part):
            _list_elements(operand, found)
        if isinstance(part, Element):
            found.append(part)
        return
    for x in cast("tuple[object, ...]", part) if isinstance(part, tuple) else parts_of(part):
        if type(x) not in PLAIN:
            _list_elements(x, found)


def _link(statement: Statement) -> Link | None:
    """Return the link of a statement, or of a statement inside it."""
    found = (getattr(s, "link", None) for s in walk((statement,)))
    return next((link for link in found if link is not None), None)
