"""Bulk loads above a ring: the role that loads starts them once for a block, ahead of the ring's.

An mbarrier counts their bytes; `passes/rings.py` announces these, and awaits them.
"""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.expr import as_expr
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Barrier
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.move import lower_copy, open_load
from fireiron.kernel.lower.storage import holds_boxes
from fireiron.language.decompositions import Decomposition, Load, Split
from fireiron.language.levels import SH, Block
from fireiron.language.residual import apply


def loads_once(link: Load, rest: Sequence[Decomposition], state: State, context: Context) -> bool:
    """Say whether the role that loads fills a buffer once for the block: a bulk copy above a specialised split."""
    below = any(isinstance(x, Split) and x.specialised is not None for x in rest)
    return below and link.memory == SH and holds_boxes(link, ()) and state.level == Block and not context.persistent


def lower_load_once(link: Load, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur) -> Body:
    """Lower a bulk load above a specialised split, for the role that is being lowered."""
    if context.role == "load":
        storage, barrier = context.once[link.role]
        context.signal = (barrier, as_expr(0))
        alone = evolve(state, position=as_expr(0), width=1)  # one thread starts every bulk copy
        copy = lower_copy(link, alone, storage, None, context, recur)
        context.signal = None
        return (*copy.start, *copy.finish, *recur(rest, evolve(state, residual=apply(link, state.residual)), context))
    inner = open_load(link, state, context)
    storage = inner.windows[link.role].storage
    storage.guarded = True
    barrier = Barrier(context.name(f"{storage.name}_full"), 1, 1)
    context.barriers.append(barrier)
    context.once[link.role] = (storage, barrier)
    return recur(rest, inner, context)
