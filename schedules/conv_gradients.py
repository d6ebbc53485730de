"""Gradients of convolutions: of images as convolutions of stride 1, of filters as folds over pixels.

The gradient of images at stride 1 is `conv.conv2d_transposed`, which the schedules of `conv` take. At larger strides it
is one such program for each residue of a pixel's place, on views of the arrays: no product with a zero is computed.
"""

from __future__ import annotations

from itertools import product
from math import prod

import attrs

from fireiron import (
    FR,
    SH,
    Block,
    FireironError,
    ProgramChain,
    Schedule,
    StepChain,
    Tensor,
    Value,
    Warp,
    Warpgroup,
    cp_async,
    dim,
    einsum,
    ldmatrix,
    machine,
    preset,
    program,
    tensor,
    tma,
)
from fireiron.schedules._pixels import box_of, spread_lines
from fireiron.schedules._windows import Pads, Sizes, one, pair, places, whole
from fireiron.schedules.conv import conv2d_transposed


@program(y="n p q k", x="n h w c")
def conv2d_filter_gradient(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the gradient of `conv2d`'s filters: products of y's pixels and windows of x, summed over all pixels.

    Args:
        y: the gradient of the convolution's result.
        x: its images.
        taps: rows and columns of a filter.
        stride, pad, dilation: of the convolution.
    """
    for axis, tap in enumerate("rs"):
        dim(tap, one(taps, axis, 2))
    rows, columns = places("hw", "rs", "pq", stride, pad, dilation)
    return einsum("npqk,npqrsc->krsc", y, x[:, rows, columns])


@attrs.frozen
class Residue:
    """Hold the part of a gradient of images that one program computes: every stride-th row and column.

    Args:
        pixels: of the images' gradient, as slices of rows and of columns.
        taps: of the filters that reach these pixels, likewise.
        spec: the program of y and these taps; None where no tap reaches them, and the gradient is 0.
    """

    pixels: tuple[slice, slice]
    taps: tuple[slice, slice]
    spec: ProgramChain | None


def data_gradients(y: Tensor, f: Tensor, x: Tensor, stride: Sizes = 1, pad: Pads = 0) -> tuple[Residue, ...]:
    """Part the gradient of `conv2d`'s images into programs of stride 1, one for each residue of a pixel's place.

    Call each schedule with y, `f[:, *taps]` and `out=dx[:, *pixels]`: views, no copies.

    Args:
        y: describes the gradient of the convolution's result.
        f: describes its filters.
        x: describes the gradient of its images.
        stride, pad: of the convolution.

    Raises:
        FireironError: `conv-sizes`.

    Example:
        >>> from fireiron import tensor
        >>> y, f, x = tensor(1, 4, 4, 8), tensor(8, 3, 3, 8, name="f"), tensor(1, 8, 8, 8)
        >>> for part in data_gradients(y, f, x, stride=2, pad=1):
        ...     print(part.pixels[0].start, part.pixels[1].start, part.spec.residual)
        0 0 Program(1, 4, 4, 8, 1, 1, 8)(GL, GL, GL)(Kernel)
        0 1 Program(1, 4, 4, 8, 1, 2, 8)(GL, GL, GL)(Kernel)
        1 0 Program(1, 4, 4, 8, 2, 1, 8)(GL, GL, GL)(Kernel)
        1 1 Program(1, 4, 4, 8, 2, 2, 8)(GL, GL, GL)(Kernel)
    """
    sides = [_residues(axis, y, f, x, stride, pad) for axis in range(2)]
    found: list[Residue] = []
    for rows, columns in product(*sides):
        pixels, taps = (rows.pixels, columns.pixels), (rows.taps, columns.taps)
        spec = None
        if rows.count and columns.count:
            pads, more = ((rows.pad, 0), (columns.pad, 0)), (rows.more, columns.more)
            spec = conv2d_transposed(y, _part(f, taps), pad=pads, more=more, out=_part(x, pixels))
        found.append(Residue(pixels, taps, spec))
    return tuple(found)


@attrs.frozen
class _Side:
    """Hold one residue of one side of the images.

    Args:
        pixels: of the side.
        taps: that reach them.
        count: of these taps.
        pad: pixels of padding ahead of the first one, in steps of the stride.
        more: pixels behind the last window, which the convolution left unread.
    """

    pixels: slice
    taps: slice
    count: int
    pad: int
    more: int


def _residues(axis: int, y: Tensor, f: Tensor, x: Tensor, stride: Sizes, pad: Pads) -> list[_Side]:
    """List the residues of one side that have pixels."""
    step, (before, _) = one(stride, axis, 2), pair(pad, axis, 2)
    whole("stride", step, 1)
    sizes = [t.shape[axis + 1] for t in (y, f, x)]
    if not all(isinstance(n, int) for n in sizes):
        raise FireironError("conv-sizes", f"sides of {sizes} pixels", fix="give sides as numbers")
    out, reach, size = (int(str(n)) for n in sizes)
    found: list[_Side] = []
    for first in range(step):
        tap, place = (first + before) % step, (first + before) // step
        pixels, taps = slice(first, None, step), slice(tap, None, step)
        held, count = len(range(size)[pixels]), len(range(reach)[taps])
        if held:
            found.append(_Side(pixels, taps, count, place, held - (out - 1 + count - place)))
    return found


def _part(t: Tensor, sides: tuple[slice, slice]) -> Tensor:
    """Describe a view of an array: some of its rows and columns."""
    shape, strides = list(t.shape), list(t.strides)
    for axis, side in enumerate(sides, 1):
        size = shape[axis]
        assert isinstance(size, int)
        shape[axis], strides[axis] = len(range(size)[side]), strides[axis] * (side.step or 1)
    return tensor(*shape, dtype=t.dtype, strides=tuple(strides), name=t.name)


@preset
def filters_mma(
    spec: ProgramChain, filters: int = 64, channels: int = 64, pixels: int = 32, stages: int = 3,
    ways: int | None = None,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of a convolution's filters by mma.sync, from sm_80 on: pixels are folded.

    Args:
        spec: `conv2d_filter_gradient` of 16-bit floats.
        filters, channels: of a block's tile, at one tap.
        pixels: of a chunk, a multiple of 16.
        stages: chunks in shared memory.
        ways: blocks that share a tile, each with a part of the images, whose sums meet in order; by default as many as
            fill an A100 twice.
    """
    chain, box = _at_one_tap(spec, filters, channels, pixels, ways, 2 * machine("sm_80").sms)
    chain = chain.split(None, **box).pipeline(stages)
    for role in ("y", "x"):
        chain = chain.load(role, SH, cp_async()).swizzle(spread_lines(filters if role == "y" else channels))

    def by_fragments(f: StepChain) -> Schedule:
        f = f.split(16).unroll().load("A", FR, ldmatrix()).load("B", FR, ldmatrix())
        return f.tile(16, 8).unroll().done()

    return chain.tile(k=filters // 2, c=channels // 2).to(Warp).each(product=by_fragments)


@preset
def filters_wgmma(
    spec: ProgramChain, filters: int | None = None, channels: int | None = None, pixels: int = 64, stages: int = 4,
    ways: int | None = None,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of a convolution's filters for Hopper: bulk copies, wgmma with both operands transposed.

    Args:
        spec: `conv2d_filter_gradient` of 16-bit floats, channels and filters in multiples of 8.
        filters, channels: of a block's tile, at one tap: 64 or 128 each by default.
        pixels: of a chunk, a multiple of 16.
        stages: chunks in shared memory.
        ways: blocks that share a tile, each with a part of the images, whose sums meet in order; by default as many as
            fill an H200 once.
    """
    extents = spec.residual.extents
    filters, channels = (
        n or (64 if isinstance(size := extents[d], int) and size <= 64 else 128)
        for n, d in ((filters, "k"), (channels, "c"))
    )
    chain, box = _at_one_tap(spec, filters, channels, pixels, ways, machine("sm_90a").sms)
    chain = chain.split(None, **box).pipeline(stages, inflight=1).specialize()
    chain = chain.load("y", SH, tma()).load("x", SH, tma())
    return chain.tile(k=64).to(Warpgroup).each(product=lambda f: f.split(16).unroll().done("wgmma"))


def _at_one_tap(
    spec: ProgramChain, filters: int, channels: int, pixels: int, ways: int | None, sms: int
) -> tuple[ProgramChain, dict[str, int]]:
    """Tile filters and channels at one tap, share out images where tiles are few, and choose a box of pixels."""
    extents = spec.residual.extents
    tiles = prod(
        -(-n // size) for d, size in (("k", filters), ("c", channels), ("r", 1), ("s", 1))
        if isinstance(n := extents[d], int)
    )  # fmt: skip
    images = extents["n"]
    most = images if isinstance(images, int) else 1
    ways = ways or max(1, min(most, sms // tiles))
    chain = spec.tile(k=filters, r=1, s=1, c=channels).to(Block).epilog(memory=FR)
    chain = chain.split("n", ways=ways).parallel(Block) if ways > 1 else chain
    return chain, box_of(chain, ("n", "p", "q"), pixels)
