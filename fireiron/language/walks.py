"""How windows (of a convolution or pooling) move along the sides of an array: first place, step, and reach."""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import as_int, evaluate, free
from fireiron.language.steps import Program


@attrs.frozen
class Walk:
    """Hold how windows move along one side of an array.

    Args:
        first: the coordinate of the first window's first element; negative for padding.
        last: the coordinate of the last window's first element, relative to the side's last element.
        step: elements from one window to the next.
        reach: elements from a window's first tap to its last; negative where taps go back.
    """

    first: int
    last: int
    step: int
    reach: int


def walks(program: Program, step: str, array: str, lines: bool = False) -> dict[str, Walk] | None:
    """Find how a fold's windows move along each side of an array; sides are all dimensions but the first and the last.

    Args:
        program: the program with the fold.
        step: name of the fold over windows.
        array: name of the array that the fold reads by windows.
        lines: whether the last dimension is a side too (columns and channels fused).

    Returns:
        A walk for each of the result's dims; None where one index map reads several sides, or sizes are not known.

    Example:
        >>> from fireiron import tensor
        >>> from fireiron.schedules.conv import max_pool2d
        >>> program = max_pool2d(tensor(4, 112, 112, 64), 3, 2, 1).computed
        >>> walks(program, program.steps[0].name, "x")["q"]
        Walk(first=-1, last=-2, step=2, reach=2)
    """
    fold = next(s for s in program.steps if s.name == step)
    ref = next(r for r in fold.reads if r.name == array)
    sizes = {d.name: None if d.extent is None else as_int(d.extent) for d in fold.dims}
    extents = {d: n for d, n in sizes.items() if n is not None}
    kept, over = {d.name for d in fold.kept}, {d.name for d in fold.over}
    found: dict[str, Walk] = {}
    sides = slice(1, None if lines else -1)
    for e, side in zip(ref.index[sides], ref.shape[sides], strict=True):
        dims = {leaf.name for leaf in free(e)}
        taps, pixels = dims & over, dims & kept
        if len(pixels) != 1 or not dims <= {*extents} or not isinstance(side, int):
            return None
        (pixel,) = pixels
        zero, ends = dict.fromkeys(dims, 0), {d: extents[d] - 1 for d in taps}
        points: tuple[dict[str, int], ...] = ({}, {pixel: 1}, {pixel: extents[pixel] - 1}, ends)
        first, then, last, tap = (int(evaluate(e, zero | point)) for point in points)
        if (last - first) != (then - first) * (extents[pixel] - 1):
            return None
        found[pixel] = Walk(first, last - (side - 1), then - first, tap - first)
    return found
