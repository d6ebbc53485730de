"""How windows walk along the sides of an array: where the first one begins, the step to the next one, their reach."""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import as_int, evaluate, free
from fireiron.language.steps import Program


@attrs.frozen
class Walk:
    """Hold how windows walk along one side of an array.

    Args:
        first: where the first window begins.
        last: where the last one does, counted from the side's last element.
        step: elements from one window to the next.
        reach: elements from a window's first tap to its last; negative where taps go back.
    """

    first: int
    last: int
    step: int
    reach: int


def walks(program: Program, step: str, array: str, lines: bool = False) -> dict[str, Walk] | None:
    """Find how a fold's windows walk along each side of an array, all its dimensions but the first and the last.

    Args:
        program: whose windows.
        step: the fold over windows.
        array: that it reads by windows.
        lines: whether its last dimension is a side too, of columns and channels.

    Returns:
        A walk for each of the result's dims; None where index maps do not say it side by side, or sizes are not known.

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
