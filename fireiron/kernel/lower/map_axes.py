"""The axes of a tensor map: those of the caller's array, of which fused dims are several."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, as_expr
from fireiron.base.errors import DecompositionError
from fireiron.kernel.lower.context import Context
from fireiron.language.atom import Atom
from fireiron.language.fuse import parts_of
from fireiron.language.tensor import Tensor


@attrs.frozen
class MapAxes:
    """Hold where the dimensions of a tensor are among the axes of the caller's array.

    Args:
        axes: for each dimension, the axis, or the innermost of several.
        counts: for each dimension, the number of axes.
        rank: number of axes of the array.
    """

    axes: tuple[int, ...]
    counts: tuple[int, ...]
    rank: int

    def merged(self, order: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of axes of some dimensions; () for one each."""
        counts = tuple(self.counts[d] for d in order)
        return counts if max(counts) > 1 else ()

    def origin(self, coordinates: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return a coordinate for each axis of the array from one for each dimension of the tensor."""
        found = [as_expr(0)] * self.rank
        for axis, coordinate in zip(self.axes, coordinates, strict=True):
            found[axis] = coordinate
        return tuple(found)


def map_axes(tensor: Tensor, atom: Atom, context: Context) -> MapAxes:
    """Find a tensor's dimensions among the axes of the caller's array.

    Raises:
        DecompositionError: `bulk-fused` where fused dims are no neighbours in the array's order.
    """
    given = next((t for t in context.spec.given if t.name == tensor.name), tensor)
    parts = parts_of(tensor, given)
    axes = [[given.storage.index(d) for d in part] for part in parts]
    if any(run != [*range(run[0], run[0] + len(run))] for run in axes):
        raise DecompositionError(
            "bulk-fused",
            f"{atom.name} takes fused dims as one axis of {given}, and calls give an array with another dim "
            "between them",
            fix="load and store this tensor by vector() or cp_async()",
        )
    return MapAxes(tuple(run[-1] for run in axes), tuple(map(len, axes)), len(given.shape))
