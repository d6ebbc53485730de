"""Factors that are computed from sums: lanes exchange elements, from the layout of sums to that of factors.

A step computes such a factor in registers of its own, which hold the columns that the thread has of the sum. Ahead of
the products, lanes exchange words between these registers and the factor's.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import as_expr, as_int
from fireiron.atoms.table import regrouping
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import Call, Region
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.fragment import fragment_view
from fireiron.kernel.lower.registers import loop, vector
from fireiron.kernel.lower.window import Storage, Window
from fireiron.language.atom import Atom, Operand


def regroup(operand: Operand, window: Window, state: State, context: Context, user: str) -> None:
    """Make the registers in which a factor is computed in the layout of sums, where an atom needs another layout."""
    storage = window.storage
    found = regrouping(operand) if storage.of_sums else None
    if found is None:
        return
    atom, laid = found
    if storage.regrouped is None:
        name = context.name(f"{storage.name}_summed")
        storage.regrouped = attrs.evolve(
            storage, name=name, ownership=None, size=as_expr(0), of_sums=False, partials=[]
        )
        storage.regrouping = atom
        context.storages[name] = storage.regrouped
    held = attrs.evolve(window, storage=storage.regrouped)
    fragment_view(attrs.evolve(operand, layout=laid), held, state, context, f"{user} (done)")


def exchanged(atom: Atom, src: Storage, dst: Storage, path: str, link: Link | None, context: Context) -> Body:
    """Exchange a factor between lanes, from the registers in which it was computed to those that products read."""
    words = atom.operand("src").registers
    count = as_int(src.size)
    assert count is not None and count % words == 0, "an atom takes whole words"
    views = [buffer_of(storage) for storage in (src, dst)]
    body = loop(
        context,
        "r",
        count // words,
        lambda r: (Call(atom, tuple(vector(x, r * words, words) for x in views), link=link),),
    )
    return (Region(f"{src.name} to {dst.name}: exchanged between lanes", body, path, link, "load", dst.name),)
