"""Where the windows of a convolution read: sides, strides, padding and dilation as index maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from typing import cast as cast_type

from fireiron import FireironError, Value, dim, extent, index

Sizes: TypeAlias = int | Sequence[int]
Pads: TypeAlias = int | Sequence[int] | Sequence[tuple[int, int]]


def places(inner: str, taps: str, outer: str, stride: Sizes, pad: Pads, dilation: Sizes) -> list[Value]:
    """Give where the windows of a convolution read along each side."""
    rank = len(inner)
    found: list[Value] = []
    for axis, (i, t, o) in enumerate(zip(inner, taps, outer, strict=True)):
        step, apart, (before, behind) = one(stride, axis, rank), one(dilation, axis, rank), pair(pad, axis, rank)
        whole("stride", step, 1)
        whole("dilation", apart, 1)
        reach = (extent(t) - 1) * apart + 1
        left = extent(i) + before + behind - reach
        if isinstance(left, int) and left < 0:
            raise FireironError(
                "conv-window",
                f"windows of {reach} along {t} are larger than {i}: {extent(i)}, padded by {before} and {behind}",
                fix="pad more, or give filters that fit",
            )
        found.append(step * dim(o, left // step + 1) + apart * index(t) - before)
    return found


def one(sizes: Sizes, axis: int, rank: int) -> int:
    """Give the number for one side."""
    if isinstance(sizes, int):
        return sizes
    if len(sizes) != rank:
        raise FireironError(
            "conv-sizes",
            f"{tuple(sizes)} are {len(sizes)} numbers for {rank} sides",
            fix="give one number for each side",
        )
    return sizes[axis]


def pair(sizes: Pads, axis: int, rank: int) -> tuple[int, int]:
    """Give the padding before and behind one side."""
    if not isinstance(sizes, int) and len(sizes) == rank and not isinstance(sizes[axis], int):
        before, behind = cast_type("tuple[int, int]", sizes[axis])
    else:
        before = behind = one(cast_type("Sizes", sizes), axis, rank)
    whole("padding", min(before, behind), 0)
    return before, behind


def whole(what: str, number: int, least: int) -> None:
    if number < least:
        raise FireironError("conv-sizes", f"a {what} of {number}", fix=f"give {least} or more")
