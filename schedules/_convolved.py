"""The formulas of convolutions and pooling, for lines, images and volumes; dims are given as letters."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from math import prod
from operator import and_
from typing import Any

import attrs

from fireiron import (
    FireironError,
    Value,
    cast,
    dim,
    einsum,
    extent,
    index,
    maximum,
    minimum,
    outside,
    where,
)
from fireiron import max as _max
from fireiron import sum as _sum
from fireiron.schedules._windows import Pads, Sizes, applied, followed, one, pair, places, whole


@attrs.frozen
class Before:
    """Hold the function that is applied to images before a convolution: op(x * gain + shift).

    Args:
        gain, shift: arrays with a value for each channel.
        op: function that is applied last.
    """

    gain: Value | None
    shift: Value | None
    op: Callable[[Value], Value] | None

    def of(self, windows: Value, channel: Value, places: list[Value], sides: list[Any]) -> Value:
        """Apply the function to windows; pixels of padding are 0 after it.

        Args:
            windows: the elements of the images that a window reads.
            channel: index of the windows' channel.
            places: indices along the sides.
            sides: numbers of pixels of the sides.
        """
        if self.gain is None and self.shift is None and self.op is None:
            return windows
        kind = windows.dtype
        made = windows if self.gain is None else windows * self.gain[channel]
        made = made if self.shift is None else made + self.shift[channel]
        made = applied(self.op, made)
        inside = [test for place, side in zip(places, sides, strict=True) for test in (place >= 0, place < side)]
        return cast(where(reduce(and_, inside), made, 0), kind)


def convolved(
    inner: str, taps: str, outer: str, x: Value, f: Value, bias: Value | None, residual: Value | None, stride: Sizes,
    pad: Pads, dilation: Sizes, groups: int, op: Callable[[Value], Value] | None, channels_first: bool,
    scale: Value | None, ahead: Before,
) -> Value:  # fmt: skip
    """Convolve, and apply scale, bias, residual and op."""
    read = places(inner, taps, outer, stride, pad, dilation)
    channels, filters, part = extent("channel"), extent("k"), extent("c")
    known = isinstance(channels, int) and isinstance(filters, int) and isinstance(part, int)
    if groups < 1 or (known and (channels != part * groups or filters % groups)):
        raise FireironError(
            "conv-groups",
            f"{groups} groups do not fit {channels} channels and {filters} filters of {part} channels",
            fix="give filters of channels / groups, and a number of groups that divides channels and filters",
        )
    channel, named = index("c"), "c"
    if groups > 1:
        if not isinstance(filters, int):
            raise FireironError(
                "conv-groups", f"{groups} groups of {filters} filters", fix="give the number of filters as a number"
            )
        channel, named = index("k") // (filters // groups) * part + channel, "c k"
        if part == 1 and groups == filters:
            channel, named = index("k"), "k"
    left = f"n {' '.join(outer)} {' '.join(taps)} {named}"
    right = f"k {' '.join(taps)} c"
    out = f"n k {' '.join(outer)}" if channels_first else f"n {' '.join(outer)} k"
    sides = [extent(name) for name in inner]
    y = einsum(f"{left}, {right} -> {out}", ahead.of(x[(slice(None), *read, channel)], channel, read, sides), f)
    return followed(y, scale, bias, residual, op)


def grouped(
    inner: str, taps: str, outer: str, x: Value, f: Value, bias: Value | None, residual: Value | None, stride: Sizes,
    pad: Pads, dilation: Sizes, op: Callable[[Value], Value] | None, scale: Value | None,
) -> Value:  # fmt: skip
    """Convolve each group, and apply scale, bias, residual and op."""
    read = places(inner, taps, outer, stride, pad, dilation)
    kept, over = " ".join(outer), " ".join(taps)
    y = einsum(f"n {kept} {over} g c, g k {over} c -> n {kept} g k", x[(slice(None), *read)], f)
    return followed(y, scale, bias, residual, op)


def largest(
    inner: str, taps: str, outer: str, x: Value, window: Sizes, stride: Sizes, pad: Pads, dilation: Sizes
) -> Value:
    """Take the largest value of each window."""
    places, _ = windows(inner, taps, outer, window, stride, pad, dilation)
    least = -math.inf if x.dtype.kind == "float" else x.dtype.limits[0]
    return _max(outside(x, least)[(slice(None), *places)], " ".join(taps))


def mean_of(
    inner: str, taps: str, outer: str, x: Value, window: Sizes, stride: Sizes, pad: Pads, count_pad: bool, beyond: Sizes
) -> Value:
    """Take the mean of each window."""
    rank = len(inner)
    pads, more = [pair(pad, axis, rank) for axis in range(rank)], [one(beyond, axis, rank) for axis in range(rank)]
    for extra in more:
        whole("beyond", extra, 0)
    around = tuple((before, behind + extra) for (before, behind), extra in zip(pads, more, strict=True))
    places, sizes = windows(inner, taps, outer, window, stride, around, 1)
    total = _sum(x[(slice(None), *places)], " ".join(taps))
    if count_pad and not any(more):
        return total * (1.0 / prod(sizes))
    counts: list[Value] = []
    for axis, (side, out, tap) in enumerate(zip(inner, outer, sizes, strict=True)):
        before, behind = pads[axis]
        first = index(out) * (one(stride, axis, rank) or tap) - before
        if count_pad:
            counts.append(minimum(first + tap, extent(side) + behind) - first)
        else:
            counts.append(minimum(first + tap, extent(side)) - maximum(first, 0))
    return total / cast(prod(counts[1:], start=counts[0]), "f32")


def windows(
    inner: str, taps: str, outer: str, window: Sizes, stride: Sizes, pad: Pads, dilation: Sizes
) -> tuple[list[Value], list[int]]:
    """Return, for each side, the index that windows read, and the number of pixels of a window."""
    places: list[Value] = []
    sizes: list[int] = []
    for axis, (i, t, o) in enumerate(zip(inner, taps, outer, strict=True)):
        size, (before, behind) = one(window, axis, len(inner)), pair(pad, axis, len(inner))
        apart = one(dilation, axis, len(inner))
        whole("window", size, 1)
        whole("dilation", apart, 1)
        step = one(stride, axis, len(inner)) or size
        whole("stride", step, 1)
        reach = (size - 1) * apart + 1
        if max(before, behind) >= reach:
            raise FireironError(
                "conv-window",
                f"padding of {before} and {behind} around {i} leaves windows of {reach} wholly outside",
                fix=f"pad by less than {reach}",
            )
        left = extent(i) + before + behind - reach
        if isinstance(left, int) and left < 0:
            raise FireironError(
                "conv-window",
                f"windows of {reach} are larger than {i}: {extent(i)}, padded by {before} and {behind}",
                fix="pad more, or use smaller windows",
            )
        places.append(step * dim(o, left // step + 1) + apart * dim(t, size) - before)
        sizes.append(size)
    return places, sizes


def transposed(y: Value, f: Value, stride: Sizes, pad: Pads, more: Sizes) -> Value:
    """Compute a transposed convolution of images; the arguments are those of `conv.conv2d_transposed`."""
    places: list[Value] = []
    present: Value | None = None
    for axis, (out, inner, tap) in enumerate(zip("pq", "hw", "rs", strict=True)):
        step, (before, behind) = one(stride, axis, 2), pair(pad, axis, 2)
        whole("stride", step, 1)
        added = one(more, axis, 2)
        if added < 0:
            raise FireironError("conv-sizes", f"more={more} takes pixels away", fix="give 0 or more; pad= cuts off")
        size = (extent(out) - 1) * step + extent(tap) - before - behind + added
        if isinstance(size, int) and size < 1:
            raise FireironError(
                "conv-window",
                f"padding of {before} and {behind} leaves {size} pixels along {inner}",
                fix="pad less: what a transposed convolution pads is cut off from its result",
            )
        away = dim(inner, size) + before - index(tap)
        divides = away % step >= 1 if step > 1 else None
        places.append(away // step)
        present = present if divides is None else divides if present is None else present | divides
    read = y[:, places[0], places[1]]
    read = read if present is None else where(present, 0, read)
    return einsum("nhwrsk,krsc->nhwc", read, f)
