"""Groups of rows: each product has some rows of A and C. The kernel finds the tiles of each group at run time.

An array in global memory holds the end row of each group. The grid has the largest number of tiles that may be needed.
A block looks up the group and the tile of its number; the rows of that group are then an ordinary extent.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.expr import Expr, and_, as_expr, proves
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import FindGroup, Groups, View
from fireiron.kernel.lower.context import Context, State, buffer_of
from fireiron.kernel.lower.storage import tensor_window
from fireiron.kernel.lower.window import Axis, Cut, Window, cut
from fireiron.language.decompositions import Tile, Widest
from fireiron.language.specs import BATCH


@attrs.frozen
class OpenGroups:
    """Hold the result of cutting groups into tiles.

    Args:
        groups: the variables of the search.
        state: the lowering state in which the operands' rows are those of the found group.
        parts: the cuts of one group's dims.
    """

    groups: Groups
    state: State
    parts: dict[str, Cut]

    def find(self, item: Expr, context: Context) -> FindGroup:
        """Make the statement that finds the group of a work item."""
        groups = context.spec.groups
        assert groups is not None
        ends = tensor_window(groups, self.state, context)
        return FindGroup(self.groups, View(buffer_of(ends.storage), as_expr(0)), item)

    def numbers(self, inside: dict[str, Expr]) -> dict[str, Expr]:
        """Complete the numbers of a tile in its group."""
        return {BATCH: self.groups.group, **inside}


def refuse_unopened(state: State, context: Context, link: Link | None) -> None:
    """Raise an error for a part of a grouped product whose group is not known yet.

    Raises:
        DecompositionError: `group-tile`.
    """
    if context.spec.ragged is not None and state.reach is None and state.residual.kind == "MatMul":
        raise DecompositionError(
            "group-tile",
            f"the {context.spec.ragged} of {state.residual.short} depends on the group, and no tile above takes one",
            fix="tile one group at a time first: tile(m, n, batch=1).to(Block)",
            link=link,
        )


def open_groups(link: Tile, parts: dict[str, Cut], state: State, context: Context) -> OpenGroups | None:
    """Cut groups into tiles; None where the product has none.

    Raises:
        DecompositionError: `group-tile`.
    """
    spec = context.spec
    if spec.ragged is None or BATCH not in parts:
        return None
    assert not isinstance(link.sizes, Widest)
    ragged, sizes = spec.ragged, dict(link.sizes)
    size, total = parts[ragged].size, state.residual.extents[ragged]
    if parts[BATCH].size != 1 or not isinstance(size, int) or parts[ragged].inner.stride != 1:
        raise DecompositionError(
            "group-tile",
            f"a tile of {parts[BATCH].size} groups and {sizes[ragged]} along {ragged} does not lie in one group",
            fix="tile one group at a time, by plain extents: tile(m, n, batch=1)",
        )
    if isinstance(link.order, Layout):
        raise DecompositionError(
            "group-order",
            f"layout {link.order} needs the number of tiles, which the groups of a call decide",
            fix="use RowMajor, ColMajor, Grouped(n) or Hilbert(n)",
        )
    if link.share is not None:
        raise DecompositionError(
            "group-share",
            f"{link.share} divides the chunks of all tiles, and the groups of a call decide how many there are",
            fix="drop the shares of K: persistent(order)",
        )
    items = as_expr(1)
    for dim, part in parts.items():
        items = items * (1 if dim in (BATCH, ragged) else part.trips)
    name = context.name("group")
    context.names |= {f"{name}_{part}" for part in ("first", "begin", "rows")}
    assert total is not None
    groups = Groups(name, as_expr(parts[BATCH].trips), as_expr(total), size, items)

    def opened(windows: Mapping[str, Window]) -> dict[str, Window]:
        """Replace the rows of operands, and of tensors that their ops read, by the found group's rows."""
        row = Axis(ragged, groups.length, groups.begin)
        return {
            role: attrs.evolve(window, axes=tuple(row if a.dim == ragged else a for a in window.axes))
            for role, window in windows.items()
        }

    extents = tuple((dim, groups.length if dim == ragged else extent) for dim, extent in state.residual.sizes)
    reach = Axis(ragged, groups.length, as_expr(0))
    residual = attrs.evolve(state.residual, sizes=extents)
    inside = attrs.evolve(
        state, windows=opened(state.windows), whole=opened(state.whole), reach=reach, residual=residual
    )
    cuts = {dim: cut(size, groups.length) if dim == ragged else part for dim, part in parts.items() if dim != BATCH}
    return OpenGroups(groups, inside, {BATCH: parts[BATCH], **cuts})


def reached(state: State) -> Expr | None:
    """Return the condition that a unit's tile holds rows of the group; None if it always does."""
    if state.reach is None or state.residual.kind != "MatMul":
        return None
    condition = and_(*(bound.condition() for bound in state.reach.bounds))
    return None if proves(condition) else condition
