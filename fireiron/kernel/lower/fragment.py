"""Fragments: the registers and threads that hold an operand of a warp's atom, by the atom's thread-value layout.

The layout's thread modes become functions of the lane, its register modes become unrolled loops; both are added to the
coordinates. So ownership, stores and epilogs treat a fragment like any other register tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, Var, as_expr, substitute
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import View
from fireiron.kernel.lower.context import Context, State, register_view
from fireiron.kernel.lower.window import Axis, Window
from fireiron.language.atom import Operand


def fragment_view(operand: Operand, window: Window, state: State, context: Context, user: str) -> View:
    """Return the view of one operand of a warp's atom: each thread's registers, in the instruction's order.

    Raises:
        DecompositionError: `ownership-conflict` where the tensor's registers hold other elements; `fragment-order`
                where they hold these in another order; `opaque-fragment`.
    """
    assert state.position is not None
    rows = operand.shape[0]
    dims = [axis.dim.lower() for axis in window.axes[-2:]]
    local = parts_of(operand.layout[0], rows, digits_of(operand.layout[0], state.position))
    digits: list[Var] = []
    for extent, stride in leaves_of(operand.layout[1]):
        digits.append(context.variable(dims[0] if stride < rows else dims[1], extent))
    held = parts_of(operand.layout[1], rows, tuple(digits))
    row, column = (thread + register for thread, register in zip(local, held, strict=True))
    axes = list(window.axes)
    for i, shift in along_axes(axes, row, column):
        axes[i] = at(axes[i], shift)
    loops = tuple(
        RegisterLoop(v, as_expr(n), unrolled=True)
        for v, (n, _) in zip(digits, leaves_of(operand.layout[1]), strict=True)
    )
    inside = attrs.evolve(state, loops=(*state.loops, *reversed(loops)))
    view = register_view(context, attrs.evolve(window, axes=tuple(axes)), inside, user, operand.opaque)
    first = substitute(view.offset, {v: as_expr(0) for v in digits})
    wanted, weight = first, 1
    for v, (extent, _) in zip(digits, leaves_of(operand.layout[1]), strict=True):
        wanted, weight = wanted + v * weight, weight * extent
    if view.offset != wanted:
        raise DecompositionError(
            "fragment-order",
            f"{user} takes {operand.registers} registers of {window.storage.name} in the order {operand.layout[1]}, "
            f"which {window.storage.ownership.owner if window.storage.ownership else 'its owner'} does not give",
            fix="load the operand again for this atom",
        )
    count = operand.registers
    return attrs.evolve(view, offset=first, layout=Layout(count, 1) if count > 1 else Layout(1, 0))


def leaves_of(layout: Layout) -> list[tuple[int, int]]:
    """List the modes with an extent above 1, fastest first."""
    return [(int(n), int(s)) for n, s in layout.leaves if n != 1]  # pyright: ignore[reportArgumentType]


def digits_of(layout: Layout, index: Expr) -> tuple[Expr, ...]:
    """Compute the index along each mode of a layout from a flat index."""
    out: list[Expr] = []
    weight = 1
    for extent, _ in leaves_of(layout):
        out.append(index // weight % extent)
        weight *= extent
    return tuple(out)


def parts_of(layout: Layout, rows: int, digits: tuple[Expr, ...]) -> tuple[Expr, Expr]:
    """Split a layout of steps in row + rows * column into a layout of steps along rows and one along columns."""
    row, column = as_expr(0), as_expr(0)
    for digit, (extent, stride) in zip(digits, leaves_of(layout), strict=True):
        assert extent * stride <= rows or stride % rows == 0, "a mode of a fragment steps along one dimension"
        row = row + digit * (stride if stride < rows else 0)
        column = column + digit * (stride // rows)
    return row, column


def along_axes(axes: Sequence[Axis], row: Expr, column: Expr) -> list[tuple[int, Expr]]:
    """Return the index of a matrix's element along each axis; all axes longer than 1, but the last axis, are its rows.

    Args:
        axes: axes of a window, the last with the matrix's columns.
        row, column: the element's place in the matrix.
    """
    last = len(axes) - 1
    first = next((i for i, axis in enumerate(axes[:-1]) if axis.size != 1), last - 1)
    found = [(last, column)]
    for i in range(last - 1, first, -1):
        size = as_expr(axes[i].size)
        found.append((i, row % size))
        row = row // size
    return [(first, row), *reversed(found)]


def at(axis: Axis, local: Expr) -> Axis:
    """Narrow an axis to one element."""
    bounds = tuple(
        attrs.evolve(b, offset=b.offset + (local if b.steps is None else b.steps(local)), steps=None)
        for b in axis.bounds
    )
    return Axis(axis.dim, 1, axis.at(local), None, bounds)
