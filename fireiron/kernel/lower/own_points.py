"""The points of a thread, from a register tensor's ownership.

A register tensor's ownership says which elements a thread holds. Where a step reads the tensor, the thread computes the
points of these elements: the axes of all windows are narrowed to them. Loops and conditions that axes cannot express
stay around the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from fireiron.algebra.expr import Expr, and_, as_expr, free, substitute
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import For, If
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.move import owned_steps, sort_loops
from fireiron.kernel.lower.window import Axis, Window
from fireiron.language.levels import Thread

Wrap = Callable[[Body], Body]


@attrs.frozen
class Points:
    """Hold the points that a thread owns.

    Args:
        state: the lowering state in which windows have only the thread's points.
        loops: loops over points at irregular distances.
        guards: the conditions that the thread has any points.
    """

    state: State
    loops: tuple[RegisterLoop, ...]
    guards: tuple[Expr, ...]

    def around(self, body: Body) -> Body:
        """Put the loops and guards around the points' code."""
        if self.guards:
            body = (If(and_(*self.guards), body),)
        for loop in reversed(self.loops):
            body = (For(loop.var, loop.trips, body, unroll=True),)
        return body

    def first(self, dim: str, points: str) -> Expr:
        """Return the coordinate of the thread's first point along a dim."""
        axis = self.state.windows[points].axis(dim)
        assert axis is not None
        return substitute(axis.offset, {loop.var: as_expr(0) for loop in self.loops})


def own_points(owner: Window, dims: Sequence[str], state: State, context: Context) -> Points:
    """Narrow the state to the elements of a register tensor that each thread holds, along some dims.

    Args:
        owner: the window of the register tensor at this place; its ownership is known.
        dims: the dims to narrow; the tensor's other dims are ignored.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.

    Raises:
        DecompositionError: `own-strided` where a strided tile stands above; `opaque-fragment`.
    """
    storage = owner.storage
    ownership = storage.ownership
    assert ownership is not None
    ownership.agree("", storage.name, f"a step over {', '.join(dims)}")
    held, written = ownership.access, ownership.written
    fresh = {
        loop.var: context.variable(loop.var.name, extent) for loop, extent in zip(held.loops, held.extents, strict=True)
    }
    chosen = [i for i, axis in enumerate(owner.axes) if axis.dim in dims]
    # Axes that are left out have no loop: a loop over them alone is fixed at its first value.
    coordinates = tuple(substitute(written.coordinates[i], fresh) for i in chosen)
    limits = tuple(
        evolve(x, axis=chosen.index(x.axis), offset=substitute(x.offset, fresh))
        for x in written.limits
        if x.axis in chosen
    )
    guards = tuple(g for g in (substitute(g, fresh) for g in written.guards) if g not in state.guards)
    used = {v for e in (*coordinates, *(x.offset for x in limits), *guards) for v in free(e)}
    loops_of = [(fresh[x.var], n) for x, n in zip(held.loops, held.extents, strict=True) if fresh[x.var] in used]
    coordinates, limits, regular, irregular = sort_loops(coordinates, limits, guards, loops_of)
    moved: dict[str, Axis] = {}
    for place, i in enumerate(chosen):
        mine = owner.axes[i]
        if mine.steps is not None:
            raise DecompositionError(
                "own-strided",
                f"the points of {storage.name} along {mine.dim} lie in chunks of a strided tile",
                fix="tile by plain sizes above a step that threads share",
            )
        along = [(var, extent, steps[place]) for var, extent, steps in regular if steps[place]]
        layout, bounds = owned_steps(held.elements[i], along, [x for x in limits if x.axis == place])
        at = substitute(coordinates[place], {var: as_expr(0) for var, _, _ in along}) - mine.offset
        moved[mine.dim] = Axis(mine.dim, layout.size, at, layout, tuple(bounds))
    windows = {role: _descended(window, moved) for role, window in state.windows.items()}
    sizes = tuple((dim, moved[dim].size if dim in moved else size) for dim, size in state.residual.sizes)
    loops = tuple(RegisterLoop(v, as_expr(n), unrolled=True) for v, n in irregular)
    inside = evolve(
        state,
        residual=evolve(state.residual, level=Thread, sizes=sizes),
        windows=windows,
        loops=(*state.loops, *loops),
        guards=(*state.guards, *guards),
        position=as_expr(0),
        width=1,
    )
    return Points(inside, loops, guards)


def _descended(window: Window, moved: dict[str, Axis]) -> Window:
    axes: list[Axis] = []
    for axis in window.axes:
        to = moved.get(axis.dim)
        if to is None or axis.size == 1:
            axes.append(axis)
            continue
        if axis.steps is not None:
            raise DecompositionError(
                "own-strided",
                f"the points of {window.storage.name} along {axis.dim} lie in chunks of a strided tile",
                fix="tile by plain sizes above a step that threads share",
            )
        outer = tuple(evolve(b, offset=b.offset + to.offset, steps=to.layout) for b in axis.bounds)
        axes.append(Axis(axis.dim, to.size, axis.offset + to.offset, to.layout, (*outer, *to.bounds)))
    return evolve(window, axes=tuple(axes))


__all__ = ["Points", "own_points"]
