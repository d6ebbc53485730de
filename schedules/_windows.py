"""Index maps of the windows of a convolution, from sides, strides, padding and dilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from typing import cast as cast_type

from fireiron import FireironError, Value, dim, extent, index

Sizes: TypeAlias = int | Sequence[int]
Pads: TypeAlias = int | Sequence[int] | Sequence[tuple[int, int]]


def places(inner: str, taps: str, outer: str, stride: Sizes, pad: Pads, dilation: Sizes) -> list[Value]:
    """Return, for each side, the index that the windows of a convolution read."""
    rank = len(inner)
    found: list[Value] = []
    for axis, (i, t, o) in enumerate(zip(inner, taps, outer, strict=True)):
        step, apart, (before, behind) = one(stride, axis, rank), one(dilation, axis, rank), pair(pad, axis, rank)
        size = outputs(t, i, extent(i), extent(t), step, apart, (before, behind))
        found.append(step * dim(o, size) + apart * index(t) - before)
    return found


def outputs(tap: str, inner: str, size: Any, taps: Any, step: int, apart: int, pads: tuple[int, int]) -> Any:
    """Return the number of results along a side.

    Args:
        tap, inner: names of the dims of taps and of the side.
        size: pixels of the side.
        taps: number of taps of a filter along the side.
        step: pixels from one result to the next.
        apart: pixels from one tap to the next.
        pads: zeros before and behind the side.
    """
    whole("stride", step, 1)
    whole("dilation", apart, 1)
    reach = (taps - 1) * apart + 1
    left = size + pads[0] + pads[1] - reach
    if isinstance(left, int) and left < 0:
        raise FireironError(
            "conv-window",
            f"windows of {reach} along {tap} are larger than {inner}: {size}, padded by {pads[0]} and {pads[1]}",
            fix="pad more, or give filters that fit",
        )
    return left // step + 1


def one(sizes: Sizes, axis: int, rank: int) -> int:
    """Return the number for one side."""
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
    """Return the padding before and behind one side; a negative number behind leaves out the last pixels."""
    if not isinstance(sizes, int) and len(sizes) == rank and not isinstance(sizes[axis], int):
        before, behind = cast_type("tuple[int, int]", sizes[axis])
    else:
        before = behind = one(cast_type("Sizes", sizes), axis, rank)
    whole("padding", before, 0)
    return before, behind


def whole(what: str, number: int, least: int) -> None:
    if number < least:
        raise FireironError("conv-sizes", f"a {what} of {number}", fix=f"give {least} or more")


def followed(
    y: Value, scale: Value | None, bias: Value | None, residual: Value | None, op: Callable[[Value], Value] | None
) -> Value:
    """Apply scale, bias, residual and op to a convolution.

    Raises:
        FireironError: `bad-op` where the op fails.
    """
    y = y if scale is None else y * scale
    y = y if bias is None else y + bias
    y = y if residual is None else y + residual
    return applied(op, y)


def applied(op: Callable[[Value], Value] | None, y: Value) -> Value:
    """Apply an op.

    Raises:
        FireironError: `bad-op` where it fails.
    """
    try:
        return y if op is None else op(y)
    except FireironError:
        raise
    except Exception as error:
        raise FireironError(
            "bad-op", f"op={op!r} fails: {error}", fix="give a function of one expression: relu"
        ) from error
