"""Folds over the lanes of a warp: by shuffles between lanes that differ in bits which only change the folded dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from fireiron.algebra.expr import Expr, Var, as_expr
from fireiron.atoms.table import exchange
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import THREAD, Call, View
from fireiron.kernel.lower.context import Body, Context, buffer_of
from fireiron.kernel.lower.folds.places import LANES, Table
from fireiron.kernel.lower.folds.state import Open, joined
from fireiron.kernel.lower.registers import each_register, temporary


def over_lanes(opened: Open, table: Table, context: Context) -> Body:
    """Fold over the lanes of a warp: for each bit of the lane number, lanes that differ in it are combined.

    Raises:
        DecompositionError: `fold-lanes` where the lanes that hold parts of one value do not differ by whole bits of the
        lane number.
    """
    threads = len(table.kept)
    every = np.arange(threads)
    bits: list[int] = []
    for bit in reversed(range((LANES - 1).bit_length())):
        other = every ^ (1 << bit)
        if (other >= threads).any():
            continue
        both = table.busy & table.busy[other]
        alike = (table.kept[other] == table.kept) & (table.over[other] != table.over)
        if both.any() and alike[both].all():
            bits.append(1 << bit)
    _explained(opened, table, bits)
    lane = Var(THREAD, threads) % LANES
    body: Body = ()
    for bit in bits:
        body += exchanged(opened, lane ^ bit, context)
    return body


def _explained(opened: Open, table: Table, bits: Sequence[int]) -> None:
    """Raise an error where lanes that share a value do not differ by whole bits of the lane number."""
    subsets: Any = np.zeros(1, np.int64)
    for bit in bits:
        subsets = np.concatenate((subsets, subsets ^ bit))
    every: Any = np.arange(len(table.kept))
    met: Any = every[:, None] ^ subsets[None, :]
    # Idle threads count as places of their own.
    over = cast(Any, np.where(table.busy, table.over, table.over.max() + 1 + every))
    places = cast(Any, np.sort(over[met], axis=1))
    once = bool((places[:, 1:] > places[:, :-1]).all())
    mine = every[table.busy]
    triples = np.unique(np.stack((mine // LANES, table.kept[mine], table.over[mine])), axis=1)
    pairs, parts = np.unique(triples[:2], axis=1, return_counts=True)
    most = {(int(w), int(k)): int(n) for (w, k), n in zip(pairs.T, parts, strict=True)}
    reached = table.busy[met].sum(axis=1)
    whole = all(reached[t] == most[int(t) // LANES, int(table.kept[t])] for t in mine)
    if not once or not whole:
        raise _irregular(opened)


def _irregular(opened: Open) -> DecompositionError:
    dims = ", ".join(d.name for d in opened.step.over)
    return DecompositionError(
        "fold-lanes",
        f"lanes hold parts of {opened.step.name} along {dims}, and their numbers do not differ by whole bits, "
        "as shuffles need",
        fix="give lanes a power of two of equal parts",
        link=opened.link,
    )


def exchanged(opened: Open, lane: Expr, context: Context) -> Body:
    """Combine every thread's state with that of another lane."""
    (storage, *_) = opened.storages
    others = [View(temporary("other", s.dtype, 1, context), as_expr(0)) for s in opened.storages]

    def of_register(r: Expr) -> Body:
        held = [View(buffer_of(s), r) for s in opened.storages]
        calls = tuple(
            Call(exchange(mine.buffer.dtype.nbytes), (mine, other), lane=lane, link=opened.link)
            for mine, other in zip(held, others, strict=True)
        )
        return (*calls, *joined(opened, held, others, context))

    return each_register(storage, context, of_register)
