"""Bulk copies of a convolution's windows: runs of pixels across rows and images, by a tensor map in im2col mode.

Such a map visits the pixels of the images row by row and image by image (every n-th pixel for a stride of n). A copy
starts at any pixel, takes a number of consecutive pixels, and reads each at one offset: that of a filter's tap. So one
copy loads what one tap reads for a tile of results. The lowering proves that an index map has this form by evaluating
it at every point.
"""

from __future__ import annotations

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Var, as_expr, evaluate, free, simplest, substitute
from fireiron.algebra.layout import Layout
from fireiron.atoms.table import box_move
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Binding, Call, TensorMap, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.map_axes import map_axes
from fireiron.kernel.lower.window import Axis, Window
from fireiron.language.atom import Atom
from fireiron.language.tensor import Tensor

MOST_PIXELS, MOST_CHANNELS, MOST_STEP = 1024, 256, 8
# By the rank of the tensor: bits of a corner of the box, with a sign, and of an offset, without.
BITS = {3: (16, 16), 4: (8, 8), 5: (5, 5)}


@attrs.frozen
class Side:
    """Hold how a run of pixels moves along one dimension of a tensor.

    Args:
        first: the smallest coordinate of a pixel at the first tap.
        last: the largest coordinate of a pixel at the first tap.
        step: distance from one pixel to the next.
        start: the coordinate at which a tile's run begins.
        offset: offset of the tap from the pixel.
    """

    first: int
    last: int
    step: int
    start: Expr
    offset: Expr


def windows_read(window: Window, tensor: Tensor, atom: Atom) -> tuple[Axis, Axis, tuple[Side, ...]]:
    """Split the elements that points read into runs of pixels.

    Returns:
        The axis of channels, the axis of pixels, and the sides of the tensor that a run crosses, innermost first.

    Raises:
        DecompositionError: `bulk-windows` where an index map has another form.
    """
    reading = window.storage.reading
    assert reading is not None
    order = tuple(reversed(tensor.storage))
    axes = dict(zip(reading.dims, window.axes, strict=True))
    channel, *sides, images = (reading.index[d] for d in order)
    runs = [d for d, axis in axes.items() if axis.size != 1 and d != channel]
    if not isinstance(channel, Var) or channel not in axes or len(runs) != 1 or len(tensor.shape) not in BITS:
        raise _refused(
            atom, tensor, "a window has one run of pixels, and the contiguous dimension is one dim of its own"
        )
    (run,) = runs
    pixels, taps = axes[run], {d: axis.offset for d, axis in axes.items() if d not in (run, channel)}
    total, nothing = run.extent, dict.fromkeys(taps, as_expr(0))
    if (
        not isinstance(simplest(as_expr(total or 0)), int)
        or not isinstance(pixels.size, int)
        or pixels.steps is not None
    ):
        raise _refused(atom, tensor, "the number of pixels is not known")
    point = np.arange(int(simplest(as_expr(total or 0))))  # pyright: ignore[reportArgumentType]
    found: list[Side] = []
    weight, carry = 1, as_expr(0)
    for e, d in zip((*sides, images), order[1:], strict=True):
        base = as_expr(substitute(e, nothing))
        offset = as_expr(substitute(e, taps)) - as_expr(substitute(e, nothing))
        if run in free(offset) or free(base) - {run}:
            raise _refused(atom, tensor, f"{e} is no coordinate of a pixel and an offset of a tap")
        at = np.broadcast_to(np.asarray(evaluate(base, {run.name: point})), len(point))
        places = np.unique(at)
        step = int(places[1] - places[0]) if len(places) > 1 else 1
        last = d == order[-1]
        number = point // weight if last else point // weight % len(places)
        if (
            not np.array_equal(at, places[0] + step * number)
            or not 1 <= step <= MOST_STEP
            or (last and simplest(offset) != 0)
        ):
            raise _refused(atom, tensor, f"{e} does not count pixels row by row, or by a step above {MOST_STEP}")
        weight *= len(places)
        start = as_expr(simplest(as_expr(substitute(base, {run: pixels.offset})) + carry * step))
        carry = as_expr(0)
        most, first, span = start.range[1], int(places[0]), step * len(places)
        if not last and (most is None or most >= first + span):  # a run behind the last pixel begins in no image
            carry, start = (start - first) // span, (start - first) % span + first
        back = 0 if last else min(0, offset.range[0] or 0)  # a map's offsets count from the first tap in memory
        found.append(Side(int(places[0]) + back, int(places[-1]) + back, step, start + back, offset - back))
    if found[-1].first != 0 or found[-1].step != 1:
        raise _refused(atom, tensor, f"{images} does not count images from 0 on")
    return axes[channel], pixels, tuple(found)


def lower_windows(atom: Atom, state: State, context: Context, shared: tuple[Window, Window, Expr | None]) -> Body:
    """Lower a load of windows.

    Args:
        atom: the bulk copy of boxes.
        state: the Move's lowering state.
        context: the kernel's facts.
        shared: the windows of the source and the buffer (of this block's part, where blocks of a cluster share the
            load), and the mask of these blocks.

    Raises:
        DecompositionError: `bulk-windows`, `bulk-storage`, `bulk-fused`.
    """
    far, near, mask = shared
    tensor = far.storage.tensor
    assert tensor is not None
    channels, pixels, sides = windows_read(far, tensor, atom)
    order = tuple(reversed(tensor.storage))
    span = max(o.span for o in atom.operands)
    size, count, nbytes = channels.size, pixels.size, tensor.dtype.nbytes
    assert isinstance(size, int) and isinstance(count, int)
    bits, offset_bits = BITS[len(tensor.shape)]
    extents = [tensor.shape[d] for d in order[1:-1]]
    if not all(isinstance(n, int) for n in extents):
        raise _refused(atom, tensor, "the sides of the images are not known")
    lower = tuple(side.first for side in sides[:-1])
    upper = tuple(side.last - (n - 1) for side, n in zip(sides, extents, strict=False) if isinstance(n, int))
    reach = [bound for side in sides[:-1] for bound in (side.offset.range)]
    if (
        count > MOST_PIXELS or size > MOST_CHANNELS or channels.steps is not None
        or not all(-(1 << bits - 1) <= corner < 1 << bits - 1 for corner in (*lower, *upper))
        or not all(bound is not None and 0 <= bound < 1 << offset_bits for bound in reach)
    ):  # fmt: skip
        raise _refused(
            atom,
            tensor,
            f"{count} pixels of {size} channels, with corners {lower} and {upper}, exceed what a map holds",
        )
    wide = box_move(True, len(tensor.shape), span, atom.hint, multicast=mask is not None, windows=True)
    assert wide is not None
    steps = (1, *(side.step for side in sides))
    box = (size, count, *(1,) * (len(tensor.shape) - 2))
    key, mapped = (tensor.name, box, span, (*steps, *lower, *upper), order), map_axes(tensor, atom, context)
    if key not in context.maps:
        axes, merged = tuple(mapped.axes[d] for d in order), mapped.merged(order)
        name = context.name(f"{tensor.name}_map")
        context.maps[key] = TensorMap(name, buffer_of(far.storage), axes, box, span, steps, lower, upper, merged)
    starts = dict(zip(order, (channels.offset, *(side.start for side in sides)), strict=True))
    far_view = View(
        buffer_of(far.storage), far.base() + far.linear(), Layout((size, count), (1, tensor.strides[order[1]])),
        far.slot, origin=mapped.origin([starts[d] for d in range(len(order))]),
    )  # fmt: skip
    lines = _lines(near, size, count, span // nbytes or size, atom)
    near_view = View(
        buffer_of(near.storage), near.base() + near.linear(), lines, near.slot, swizzle=near.storage.swizzle
    )
    offsets = tuple(Binding(f"offset{i}", side.offset) for i, side in enumerate(sides[:-1]))
    call = Call(
        wide, (far_view, near_view), map=context.maps[key], signal=context.signal, peers=mask, link=state.link,
        bindings=offsets,
    )  # fmt: skip
    return (call,)


def _lines(near: Window, channels: int, pixels: int, pitch: int, atom: Atom) -> Layout:
    """Return the steps of a run's elements in shared memory; check that rows are consecutive, as copies write them."""
    steps = [(axis.size, near.steps_along(i)) for i, axis in enumerate(near.axes) if axis.size != 1]
    found = sorted((str(size), "" if along is None else str(along.stride)) for size, along in steps)
    if found != sorted((str(size), str(stride)) for size, stride in ((channels, 1), (pixels, pitch)) if size != 1):
        raise DecompositionError(
            "bulk-storage",
            f"{atom.name} writes adjacent rows of {pitch} elements, unlike the layout of {near.storage.name}",
            fix="let tma() choose the buffer's layout: no pad, swizzle or storage_layout on this load",
        )
    return Layout((channels, pixels), (1, pitch))


def _refused(atom: Atom, tensor: Tensor, why: str) -> DecompositionError:
    return DecompositionError(
        "bulk-windows",
        f"the elements of {tensor} at a tile's points are no run of pixels that {atom.name} copies: {why}",
        fix="load by cp_async()",
    )
