"""Parts of online loops: units of a split above the loop fold separate chunks; after the loop states are combined.

Each unit's sums were computed with its own value (a maximum). First the units' values are combined, as any fold's parts
are. Then each unit multiplies its sums by the correction from its own value to the combined one, and the sums are
added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fireiron.algebra.expr import Expr
from fireiron.algebra.scalar import Arg
from fireiron.kernel.ir.statements import Compute, Region, View
from fireiron.kernel.lower.context import Body, Context, Recur, State, buffer_of
from fireiron.kernel.lower.folds.state import Open
from fireiron.kernel.lower.folds.threads import close
from fireiron.kernel.lower.online_folds import copied, corrected, factors, title_of
from fireiron.kernel.lower.registers import each_register
from fireiron.kernel.lower.step_results import closed
from fireiron.kernel.lower.window import POINTS, Storage


def places_apart(dims: Sequence[str], state: State) -> dict[str, Expr]:
    """Return the coordinates at which a loop's chunks start; they differ between units of splits above the loop."""
    return {a.dim: a.offset for a in state.windows[POINTS].axes if a.dim in dims}


def close_online(mine: Sequence[Open], state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Compute the results of an online loop's folds, each after the folds that it depends on.

    Args:
        mine: the folds, in the order of their steps.
        state: the lowering state after the loop.
        context: the kernel's facts.
        recur: a function that lowers the chains of Moves.
    """
    progress = state.progress
    assert progress is not None and progress.law is not None
    body: Body = ()
    parted = False  # whether units have values of their own
    for opened in mine:
        apart, opened.apart = opened.apart, {}
        fixed = corrected(opened.step, opened, state, context) if parted else ()
        if opened.step.name in progress.law.factors:
            met = _met(opened, apart, state, context)
            parted = parted or bool(met)
            if met:
                before = copied(opened, "before", context)
                moved, state = factors(opened, before, state, context)
                fixed = (*_assigned(before, opened, context), *fixed, *met, *moved)
        if fixed:
            title = f"{title_of(opened.step)}: units meet"
            body += (Region(title, fixed, state.path, state.link),)
        made, state = closed(opened, state, context, recur)
        body += made
    return body, state


def _met(opened: Open, apart: Mapping[str, Expr], state: State, context: Context) -> Body:
    """Fold a value over the units above a loop, where each thread of a unit has the unit's whole value."""
    places, opened.whole = opened.places, False
    opened.places = {dim: apart.get(dim, place) for dim, place in places.items()}
    body = close(opened, state, context)
    opened.places, opened.whole = places, True
    return body


def _assigned(to: Storage, opened: Open, context: Context) -> Body:
    (held, *_) = opened.storages
    tree = Arg(0, held.dtype)
    return each_register(
        held, context, lambda r: (Compute(View(buffer_of(to), r), tree, (View(buffer_of(held), r),), link=opened.link),)
    )
