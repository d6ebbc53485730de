"""Which threads hold parts of one value, computed from the coordinates of their points.

Threads that hold the same points (replicas) are not folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Symbol, Var, as_expr, evaluate, free, substitute
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.ownership import fit
from fireiron.kernel.ir.statements import THREAD
from fireiron.kernel.lower.context import Context
from fireiron.kernel.lower.folds.state import Open
from fireiron.language.levels import Warp
from fireiron.language.maps import elements

LANES = Warp.size or 32


@attrs.frozen(eq=False)
class Table:
    """Number the places of threads' points: equal numbers mean equal places.

    Args:
        kept: for each thread, the number of its place along the step's kept dims.
        over: for each thread, the number of its place along the folded dims.
        busy: for each thread, whether it has any points; others hold the fold's identity, which changes no result.
    """

    kept: Any
    over: Any
    busy: Any

    @property
    def one_a_warp(self) -> bool:
        """Say whether all lanes of a warp fold parts of one value; the first lane then holds the value."""
        if len(self.kept) % LANES:
            return False
        kept, busy = self.kept.reshape(-1, LANES), self.busy.reshape(-1, LANES)
        return bool((kept == kept[:, :1]).all() and (busy[:, 0] == busy.any(axis=1)).all())


def replicas(table: Table) -> tuple[int, Expr, Expr]:
    """Number the different states of a warp's lanes, and the lanes that hold the same state.

    Returns:
        The number of different states, the number of this lane's state, and the number of this lane among the lanes
        that hold it. Where lanes lie irregularly, each lane counts as a state.
    """
    lane = Var(THREAD, len(table.kept)) % LANES
    if table.one_a_warp:
        return 1, as_expr(0), lane
    every = LANES, lane, as_expr(0)
    if len(table.kept) % LANES or not table.busy.all():
        return every
    warps = table.kept.reshape(-1, LANES)
    first = (warps[:, :, None] == warps[:, None, :]).argmax(axis=2)  # the first lane with the same state
    if (first != first[0]).any():
        return every
    owners, states, counts = np.unique(first[0], return_inverse=True, return_counts=True)
    numbers = np.array([(states[:i] == states[i]).sum() for i in range(LANES)])
    found, number = fit(states.astype(np.int64)), fit(numbers.astype(np.int64))
    if found is None or number is None or (counts != counts[0]).any():
        return every
    return len(owners), as_expr(found(lane)), as_expr(number(lane))


def tabulated(opened: Open, threads: int, context: Context) -> Table:
    """Evaluate the places of all threads, at index 0 of blocks and loops, which shift all places equally."""

    def evaluated(e: Expr) -> Any:
        e = context.expanded(e)
        e = substitute(e, dict.fromkeys(elements(e), 0))  # array elements at a loop's start shift all places equally
        # Symbolic sizes have their largest value here; with 0 all chunks would start at one place.
        env: dict[str, Any] = {v.name: v.range[1] if isinstance(v, Symbol) else 0 for v in free(e)}
        env[THREAD] = np.arange(threads)
        return np.broadcast_to(np.asarray(evaluate(e, env)), (threads,))

    def numbered(places: Sequence[Expr]) -> Any:
        if not places:
            return np.zeros(threads, np.int64)
        rows = np.stack([evaluated(place) for place in places])
        return np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)

    busy = np.ones(threads, bool)
    for guard in opened.guards:
        busy = busy & (evaluated(guard) != 0)
    kept, over = ([opened.places[d.name] for d in dims] for dims in (opened.step.kept, opened.step.over))
    return Table(numbered([*kept, *opened.apart.values()]), numbered(over), busy)


def seated(opened: Open, table: Table) -> tuple[int, int, Expr, Expr]:
    """Divide the warps of a block into groups; the warps of a group hold parts of the same values.

    Returns the number of groups, the number of warps in each, this thread's group, and the index of its warp in the
    group.

    Raises:
        DecompositionError: `fold-warps` where groups differ in size, lie irregularly, or lack a part.
    """
    threads = len(table.kept)
    keys: list[tuple[int, int]] = []
    for first in range(0, threads, LANES):
        lanes = np.arange(first, min(first + LANES, threads))
        busy = lanes[table.busy[lanes]]
        if len(busy):
            keys.append((int(table.kept[busy[0]]), int(table.over[busy[0]])))
        else:  # an idle warp follows the warps of the group before it
            keys.append((keys[-1][0] if keys else 0, -1 - first))
    copies = [keys[:w].count(key) for w, key in enumerate(keys)]  # replicas form separate groups
    groups: list[tuple[int, int]] = []
    seats: list[int] = []
    for w, (value, _) in enumerate(keys):
        group = (value, copies[w])
        seats.append(groups.count(group))
        groups.append(group)
    ways = max(seats) + 1
    names = list(dict.fromkeys(groups))
    if any(groups.count(name) != ways for name in names):
        raise _unequal(opened)
    group_of, seat_of = (fit(np.array(t, dtype=np.int64)) for t in ([names.index(g) for g in groups], seats))
    if group_of is None or seat_of is None:
        raise _unequal(opened)
    _require_met(opened, table, np.array([names.index(g) for g in groups]))
    warp = Var(THREAD, threads) // LANES
    group, seat = (as_expr(layout(warp)) if layout.size > 1 else as_expr(0) for layout in (group_of, seat_of))
    return len(names), ways, group, seat


def _require_met(opened: Open, table: Table, groups: Any) -> None:
    """Raise an error for groups of warps where a part of a value is missing, or lies in other lanes.

    Raises:
        DecompositionError: `fold-warps`.
    """
    thread = np.flatnonzero(table.busy)
    kept, over, group = table.kept[thread], table.over[thread], groups[thread // LANES]
    seats = np.unique(np.stack((group, thread % LANES, kept)), axis=1)
    of_lane = np.unique(seats[:2], axis=1, return_counts=True)[1]
    values, parts = np.unique(np.unique(np.stack((kept, over)), axis=1)[0], return_counts=True)
    held = np.unique(np.stack((group, kept, over)), axis=1)
    mine, found = np.unique(held[:2], axis=1, return_counts=True)
    if (of_lane > 1).any() or (found < parts[np.searchsorted(values, mine[1])]).any():
        dims = ", ".join(d.name for d in opened.step.over)
        raise DecompositionError(
            "fold-warps",
            f"several warps hold parts of {opened.step.name} along {dims}, each in other lanes",
            fix="give whole warps to each value: parallel(Warp) along the folded dims, or tiles of 32 threads",
            link=opened.link,
        )


def _unequal(opened: Open) -> DecompositionError:
    return DecompositionError(
        "fold-warps",
        f"warps hold parts of {opened.step.name} in groups of different sizes",
        fix="give each value the same number of warps",
        link=opened.link,
    )
