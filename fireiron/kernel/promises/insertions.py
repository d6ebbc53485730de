"""Insertions: whether a pass has only inserted statements of some kinds, and kept all others in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import attrs

from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Advance, Await, For, If, Region, Roles, Statement

Body = tuple[Statement, ...]


def moved(before: Body, after: Body, kinds: tuple[type[Statement], ...]) -> Iterator[str]:
    """Describe the first statement that a pass changed, moved or removed; it may only insert those of `kinds`."""
    old, new = bare(before, kinds), bare(after, kinds)
    if old != new:
        yield f"it changes {_difference(old, new)}, and may only insert {', '.join(k.__name__ for k in kinds)}"


def bare(body: Body, kinds: tuple[type[Statement], ...]) -> Body:
    """Remove statements of some kinds, and conditions and regions that are empty without them."""

    def one(s: Statement) -> Statement | Body:
        if isinstance(s, kinds):
            return ()
        match s:
            case For(kind="slots", body=inner) if all(isinstance(x, Await | Advance) for x in inner) and Await in kinds:
                return ()
            case For(body=()) | If(body=()) | Region(body=()):
                return ()
            case _:
                return s

    return rewrite(body, one)


def _difference(old: Body, new: Body) -> str:
    """Describe the innermost statement in which two bodies first differ."""
    for a, b in zip_longest(old, new):
        if a == b:
            continue
        if isinstance(a, For | If | Region) and isinstance(b, For | If | Region) and _head(a) == _head(b):
            return _difference(a.body, b.body)
        if isinstance(a, Roles) and isinstance(b, Roles) and len(a.roles) == len(b.roles):
            for mine, theirs in zip(a.roles, b.roles, strict=True):
                if mine.body != theirs.body:
                    return _difference(mine.body, theirs.body)
        changed = a or b
        return f"{type(changed).__name__}{f' {changed.title}' if isinstance(changed, Region) else ''}"
    return "nothing"


def _head(s: For | If | Region) -> Statement:
    return attrs.evolve(s, body=())
