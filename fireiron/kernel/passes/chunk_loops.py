"""Visiting the loops over chunks of splits with online() or skew(), wherever they stand in a kernel's statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import attrs

from fireiron.algebra.expr import Var
from fireiron.base.errors import FireironError
from fireiron.kernel.ir.statements import For, If, Region, Statement
from fireiron.language.decompositions import Split

Body: TypeAlias = tuple[Statement, ...]
Nested = TypeVar("Nested", bound=For | If | Region)
Loops: TypeAlias = Mapping[Var, tuple[Split, str]]  # the split and the links above it, by the loop's variable


def of_loops(body: Body, loops: Loops, change: Callable[[For, Split], Body]) -> Body:
    """Apply a change to loops over chunks; statements that fill rings for these loops stay as they are.

    Raises:
        FireironError: what `change` raises, located at the split.
    """
    if not loops:
        return body
    out: list[Statement] = []
    for s in body:
        match s:
            case For(var=var, body=inner) if var in loops:
                link, path = loops[var]
                try:
                    out += change(_with_body(s, of_loops(inner, loops, change)), link)
                except FireironError as error:
                    raise error.located(link.link, path) from None
            case Region(kind="fill"):
                out.append(s)
            case For(body=inner) | If(body=inner) | Region(body=inner):
                out.append(_with_body(s, of_loops(inner, loops, change)))
            case _:
                out.append(s)
    return tuple(out)


def _with_body(s: Nested, body: Body) -> Nested:
    same = len(body) == len(s.body) and all(a is b for a, b in zip(body, s.body, strict=True))
    return s if same else attrs.evolve(s, body=body)
