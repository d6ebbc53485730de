"""Convolutions of few channels: columns and channels are one dim, and where windows begin along it."""

from __future__ import annotations

from collections.abc import Callable

from fireiron import FireironError, ProgramChain, Value, cast, dim, einsum, extent, index, walks, where
from fireiron.schedules._pixels import Window
from fireiron.schedules._windows import Pads, Sizes, followed, one, outputs, pair, places, whole

TILE, PAD = 64, 8  # filters of a tile; elements of padding between their rows
KEPT = 64 * 1024  # most bytes of filters that stay in shared memory, beside two tiles of images
STEP = 16  # elements of an instruction's folded dim, for 16-bit floats


def by_rows(
    x: Value, f: Value, bias: Value | None, residual: Value | None, stride: Sizes, pad: Pads,
    op: Callable[[Value], Value] | None, scale: Value | None, channels: int, lead: int | None,
) -> Value:  # fmt: skip
    """Fold a filter's columns and channels as one dim; the arguments are those of `conv.conv2d_packed`."""
    whole("channels", channels, 1)
    for name, lines in (("l", extent("l")), ("m", extent("m"))):
        if isinstance(lines, int) and lines % channels:
            raise FireironError(
                "conv-sizes",
                f"{lines} elements along {name} are no whole number of pixels of {channels} channels",
                fix="give channels= of the images, which filters have too",
            )
    strides = [one(stride, axis, 2) for axis in range(2)]
    pads = [pair(pad, axis, 2) for axis in range(2)]
    lines = (pads[0], (pads[1][0] * channels, pads[1][1] * channels))
    if lead is None:
        read = places("hl", "rm", "pq", (strides[0], strides[1] * channels), lines, 1)
        product = einsum("n p q r m, k r m -> n p q k", x[(slice(None), *read)], f)
        return followed(product, scale, bias, residual, op)
    whole("lead", lead, 0)
    (row,) = places("h", "r", "p", strides[0], pads[:1], 1)
    columns = outputs("m", "l", extent("l"), extent("m"), strides[1] * channels, 1, lines[1])
    tap = dim("j", -(-(lead + extent("m")) // STEP) * STEP) - lead
    read = x[:, row, strides[1] * channels * dim("q", columns) + tap - lines[1][0]]
    inside = (index("j") >= lead) & (index("j") < lead + extent("m"))
    product = einsum("n p q r j, k r j -> n p q k", cast(where(inside, read, 0), x.dtype), f[:, :, tap])
    return followed(product, scale, bias, residual, op)


def lead_of(filters: int, rows: int, columns: int, stride: Sizes, pad: Pads, channels: int) -> int | None:
    """Choose the lead of `conv2d_packed`; None where shared memory does not hold all filters.

    A lead of 1 lets windows begin at even elements, if the padding has an odd number of elements. If the distance of
    windows is odd, every second window begins at an odd element with each lead.

    Args:
        filters: number of filters.
        rows, columns: size of a filter.
        stride, pad, channels: as in `conv2d_packed`.

    Example:
        >>> lead_of(64, 7, 7, stride=2, pad=3, channels=3), lead_of(64, 3, 3, stride=1, pad=1, channels=3)
        (1, 0)
        >>> lead_of(96, 11, 11, stride=4, pad=2, channels=3) is None
        True
    """
    lead = pair(pad, 1, 2)[0] * channels % 2 if one(stride, 1, 2) * channels % 2 == 0 else 0
    fit = filters <= TILE and kept(TILE, rows, -(-(lead + columns * channels) // STEP) * STEP)
    return lead if fit else None


def kept(filters: int, rows: int, depth: int) -> bool:
    """Say whether shared memory holds all filters.

    Args:
        filters: number of filters.
        rows: rows of a filter.
        depth: folded elements of a row.
    """
    return 2 * filters * rows * (depth + PAD) <= KEPT


def begin_even(spec: ProgramChain, w: Window) -> bool:
    """Say whether windows begin at even elements of images, so that copies of 4 bytes can load them."""
    held, found = spec.residual.operand(w.images), walks(spec.computed, w.step, w.images, lines=True)
    assert held is not None
    pitches = all(isinstance(n, int) and n % 2 == 0 for n in held.tensor.strides[:-1])
    line = None if found is None else found.get(w.pixels[-1])
    return pitches and line is not None and line.first % 2 == 0 and line.step % 2 == 0
