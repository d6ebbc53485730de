"""Gradients of convolutions: of images as convolutions of stride 1, of filters as folds over pixels.

Pixels whose positions have the same remainder by the stride (a residue) are computed by one program of stride 1, on
views of the arrays, with the schedules of `conv`. So no products with zeros are computed.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod

import attrs

from fireiron import (
    FR,
    RF,
    SH,
    Block,
    FireironError,
    Memory,
    ProgramChain,
    Schedule,
    Tensor,
    Thread,
    Value,
    Warp,
    Warpgroup,
    conform,
    dim,
    einsum,
    in_order,
    index,
    machine,
    preset,
    program,
    space,
    tensor,
    tma,
)
from fireiron.schedules._pixels import box_of, by_lines, spread_lines, tile_extent, whole_boxes
from fireiron.schedules._tensor_cores import by_fragments
from fireiron.schedules._windows import Pads, Sizes, one, outputs, pair, places, whole
from fireiron.schedules.depthwise_gradients import RESIDUES as DEPTHWISE_RESIDUES


@program(y="n q k", x="n w c")
def conv1d_filter_gradient(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the gradient of `conv1d`'s filters, as `conv2d_filter_gradient` does."""
    return _filter_gradient("w", "s", "q", y, x, taps, stride, pad, dilation)


DTYPE = "f16"  # default element type on the command line


@program(y="n p q k", x="n h w c")
def conv2d_filter_gradient(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the gradient of `conv2d`'s filters: products of y's pixels and windows of x, summed over all pixels.

    Args:
        y: the gradient of the convolution's result.
        x: the convolution's images.
        taps: rows and columns of a filter.
        stride, pad, dilation: stride, padding and dilation of the convolution.
    """
    return _filter_gradient("hw", "rs", "pq", y, x, taps, stride, pad, dilation)


@program(y="n o p q k", x="n d h w c")
def conv3d_filter_gradient(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the gradient of `conv3d`'s filters, as `conv2d_filter_gradient` does."""
    return _filter_gradient("dhw", "trs", "opq", y, x, taps, stride, pad, dilation)


@program(y="n q g k", x="n w g c")
def conv1d_filter_gradient_grouped(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the gradient of `conv1d_grouped`'s filters, as `conv2d_filter_gradient` does."""
    return _filter_gradient("w", "s", "q", y, x, taps, stride, pad, dilation, "g")


@program(y="n p q g k", x="n h w g c")
def conv2d_filter_gradient_grouped(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the gradient of `conv2d_grouped`'s filters, as `conv2d_filter_gradient` does."""
    return _filter_gradient("hw", "rs", "pq", y, x, taps, stride, pad, dilation, "g")


@program(y="n o p q g k", x="n d h w g c")
def conv3d_filter_gradient_grouped(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the gradient of `conv3d_grouped`'s filters, as `conv2d_filter_gradient` does."""
    return _filter_gradient("dhw", "trs", "opq", y, x, taps, stride, pad, dilation, "g")


def _filter_gradient(
    inner: str, taps: str, outer: str, y: Value, x: Value, sizes: Sizes, stride: Sizes, pad: Pads, dilation: Sizes,
    groups: str = "",
) -> Value:  # fmt: skip
    """Sum products of y's pixels and windows of x."""
    for axis, tap in enumerate(taps):
        dim(tap, one(sizes, axis, len(taps)))
    read = places(inner, taps, outer, stride, pad, dilation)
    return einsum(f"n{outer}{groups}k,n{outer}{taps}{groups}c->{groups}k{taps}c", y, x[(slice(None), *read)])


@program(y="n q k", f="k s c", bias="c")
def conv1d_residue(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute a part of the gradient of `conv1d`'s lines, as `conv2d_residue` does."""
    return _residue("w", "s", "q", y, f, bias, size, place, dilation)


@program(y="n p q k", f="k r s c", bias="c")
def conv2d_residue(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the part of the gradient of `conv2d`'s images that holds every stride-th row and column of them.

    x[n, h, w, c] = sum over r, s, k of y[n, h + place - r * dilation, ...] * f[k, r, s, c].

    Args:
        y: the gradient of the convolution's result.
        f: the filters' taps that reach these pixels.
        bias: a value for each channel, which is added in a transposed convolution.
        size: rows and columns of the part.
        place: row and column of y that the first row and column of the part meet at the first tap.
        dilation: rows and columns of y from one tap to the next.
    """
    return _residue("hw", "rs", "pq", y, f, bias, size, place, dilation)


@program(y="n o p q k", f="k t r s c", bias="c")
def conv3d_residue(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute a part of the gradient of `conv3d`'s volumes, as `conv2d_residue` does."""
    return _residue("dhw", "trs", "opq", y, f, bias, size, place, dilation)


@program(y="n q g k", f="g k s c", bias="g c")
def conv1d_residue_grouped(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute a part of the gradient of `conv1d_grouped`'s lines, as `conv2d_residue` does."""
    return _residue("w", "s", "q", y, f, bias, size, place, dilation, "g")


@program(y="n p q g k", f="g k r s c", bias="g c")
def conv2d_residue_grouped(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute a part of the gradient of `conv2d_grouped`'s images, as `conv2d_residue` does."""
    return _residue("hw", "rs", "pq", y, f, bias, size, place, dilation, "g")


@program(y="n o p q g k", f="g k t r s c", bias="g c")
def conv3d_residue_grouped(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute a part of the gradient of `conv3d_grouped`'s volumes, as `conv2d_residue` does."""
    return _residue("dhw", "trs", "opq", y, f, bias, size, place, dilation, "g")


def _residue(
    inner: str, taps: str, outer: str, y: Value, f: Value, bias: Value | None, size: Sizes, place: Sizes,
    dilation: Sizes, groups: str = "",
) -> Value:  # fmt: skip
    """Sum products of y and filters, whose taps are visited backwards."""
    rank = len(inner)
    read = [
        dim(i, one(size, axis, rank)) + one(place, axis, rank) - one(dilation, axis, rank) * index(tap)
        for axis, (i, tap) in enumerate(zip(inner, taps, strict=True))
    ]
    x = einsum(f"n{inner}{taps}{groups}k,{groups}k{taps}c->n{inner}{groups}c", y[(slice(None), *read)], f)
    return x if bias is None else x + bias


SHARED = 226 * 1024  # bytes of a block on Hopper, less those of barriers
# By the number of sides: the gradient of filters, and a part of that of images.
FILTER_GRADIENTS = {1: conv1d_filter_gradient, 2: conv2d_filter_gradient, 3: conv3d_filter_gradient}
GROUPED_FILTER_GRADIENTS = {
    1: conv1d_filter_gradient_grouped, 2: conv2d_filter_gradient_grouped, 3: conv3d_filter_gradient_grouped
}  # fmt: skip
RESIDUES = {1: conv1d_residue, 2: conv2d_residue, 3: conv3d_residue}
GROUPED_RESIDUES = {1: conv1d_residue_grouped, 2: conv2d_residue_grouped, 3: conv3d_residue_grouped}


@attrs.frozen
class Residue:
    """Hold the part of a gradient of images that one program computes: every stride-th row and column.

    Args:
        pixels: the part of the images' gradient, as slices of rows and of columns.
        taps: the filters' taps that reach these pixels, as slices.
        spec: the program, of y and these taps; None where no tap reaches the pixels, whose gradient is then 0, or the
            bias.
    """

    pixels: tuple[slice, ...]
    taps: tuple[slice, ...]
    spec: ProgramChain | None


def data_gradients(
    y: Tensor, f: Tensor, x: Tensor, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1, arch: str | None = None,
    bias: Tensor | None = None, grouped: bool = False, depthwise: bool = False,
) -> tuple[Residue, ...]:  # fmt: skip
    """Divide the gradient of a convolution's images into programs of stride 1, one for each residue.

    Call each schedule with y, `f[:, *taps]` (with groups `f[:, :, *taps]`), the bias if there is one, and `out=dx[:,
    *pixels]`. The slices are views, not copies.

    Args:
        y: a description of the gradient of the convolution's result.
        f: a description of the filters.
        x: a description of the gradient of the images, which have one to three sides.
        stride, pad, dilation: stride, padding and dilation of the convolution.
        arch: as a program takes it.
        bias: a description of the bias of a transposed convolution, which is added to each channel of x.
        grouped: whether arrays have a dim of groups: before the channels in y and x, and first in f and bias.
        depthwise: whether each channel has one filter of its own, so that f is (K, taps..., 1).

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
    rank, ahead = len(x.shape) - 2 - grouped, 1 + grouped
    for axis in range(rank):
        side, taps, made = x.shape[axis + 1], f.shape[axis + ahead], y.shape[axis + 1]
        sizes = one(stride, axis, rank), one(dilation, axis, rank), pair(pad, axis, rank)
        wanted = outputs("f", "x", side, taps, *sizes)
        if isinstance(wanted, int) and isinstance(made, int) and wanted != made:
            raise FireironError(
                "conv-sizes",
                f"y has {made} pixels along side {axis}, and windows of {taps} over {side} pixels give {wanted}",
                fix="describe y, f and x of one convolution, with its stride, padding and dilation",
            )
    found: list[Residue] = []
    for sides in product(
        *(_residues(axis, rank, f.shape[axis + ahead], x, stride, pad, dilation) for axis in range(rank))
    ):
        pixels, taps = tuple(side.pixels for side in sides), tuple(side.taps for side in sides)
        spec = None
        if all(side.count for side in sides):
            sizes, first, apart = zip(*((side.size, side.place, side.apart) for side in sides), strict=True)
            given = (y, _part(f, taps, ahead)) if bias is None else (y, _part(f, taps, ahead), bias)
            known = DEPTHWISE_RESIDUES if depthwise else GROUPED_RESIDUES if grouped else RESIDUES
            spec = known[rank](*given, size=sizes, place=first, dilation=apart, out=_part(x, pixels), arch=arch)
        found.append(Residue(pixels, taps, spec))
    return tuple(found)


@attrs.frozen
class _Side:
    """Hold one residue of one side of the images.

    Args:
        pixels: slice of the side's pixels.
        taps: slice of the taps that reach these pixels.
        size: number of these pixels.
        count: number of these taps.
        place: index in y that the first pixel meets at the first of these taps.
        apart: pixels of y from one of these taps to the next.
    """

    pixels: slice
    taps: slice
    size: int
    count: int
    place: int
    apart: int


def _residues(axis: int, rank: int, taps: object, x: Tensor, stride: Sizes, pad: Pads, dilation: Sizes) -> list[_Side]:
    """List the residues of one side that have pixels."""
    step, apart, (before, _) = one(stride, axis, rank), one(dilation, axis, rank), pair(pad, axis, rank)
    whole("stride", step, 1)
    whole("dilation", apart, 1)
    sizes = [taps, x.shape[axis + 1]]
    if not all(isinstance(n, int) for n in sizes):
        raise FireironError("conv-sizes", f"sides of {sizes} pixels", fix="give sides as numbers")
    reach, size = (int(str(n)) for n in sizes)
    period = step // gcd(step, apart)  # distance of the taps that reach one residue
    found: list[_Side] = []
    for first in range(step):
        pixels = slice(first, None, step)
        held = len(range(size)[pixels])
        tap = next((r for r in range(period) if (first + before - r * apart) % step == 0), None)
        taps = slice(0, 0) if tap is None else slice(tap, None, period)
        count, place = len(range(reach)[taps]), (first + before - (tap or 0) * apart) // step
        if held:
            found.append(_Side(pixels, taps, held, count, place, apart * period // step))
    return found


def _part(t: Tensor, sides: tuple[slice, ...], ahead: int = 1) -> Tensor:
    """Describe a view of an array: slices of its sides, which come after `ahead` other dims."""
    shape, strides = list(t.shape), list(t.strides)
    for axis, side in enumerate(sides, ahead):
        size = shape[axis]
        assert isinstance(size, int)
        shape[axis], strides[axis] = len(range(size)[side]), strides[axis] * (side.step or 1)
    return tensor(*shape, dtype=t.dtype, strides=tuple(strides), name=t.name)


@preset
@space(filters=(16, 32, 64), channels=(16, 32, 64), pixels=(4, 8, 16), ways=(1, 2, 4, 8, 16))
def filters_simt(
    spec: ProgramChain, filters: int = 64, channels: int = 32, pixels: int = 8, ways: int | None = None
) -> Schedule:
    """Schedule the gradient of a convolution's filters for CUDA cores: pixels are folded.

    Args:
        spec: a gradient of filters, of any element type.
        filters, channels: numbers of filters and channels of a block's tile, at one tap.
        pixels: number of pixels of a chunk.
        ways: as in `filters_mma`.
    """
    w = _gradient_of(spec)
    extents = spec.residual.extents
    filters, channels = tile_extent(extents[w.filter], filters), tile_extent(extents[w.channel], channels)
    chain, box = _at_one_tap(spec, w, filters, channels, pixels, ways, 2 * machine("sm_80").sms, RF)
    chain = chain.split(None, **box).load(w.gradient, SH).load(w.images, SH)
    chain = chain.tile(**{w.filter: gcd(4, filters), w.channel: gcd(4, channels)}).to(Thread)
    for d in w.pixels:
        chain = chain.split(None, **{d: 1})
    return chain.load(w.gradient, RF, conform()).load(w.images, RF, conform()).done()


@preset
@space(
    "sm_80", filters=(32, 64, 128), channels=(32, 64, 128), pixels=(16, 32, 64), stages=(2, 3, 4), ways=(1, 2, 4, 8, 16)
)
def filters_mma(
    spec: ProgramChain, filters: int = 64, channels: int = 64, pixels: int = 32, stages: int = 3,
    ways: int | None = None,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of a convolution's filters by mma.sync, from sm_80 on: pixels are folded.

    Args:
        spec: `conv2d_filter_gradient` of 16-bit floats.
        filters, channels: numbers of filters and channels of a block's tile, at one tap.
        pixels: number of pixels of a chunk, a multiple of 16.
        stages: number of chunks in shared memory.
        ways: number of blocks that share a tile, each with a part of the images; their sums are added in order. By
            default as many as fill an A100 twice.
    """
    w = _gradient_of(spec)
    chain, box = _at_one_tap(spec, w, filters, channels, pixels, ways, 2 * machine("sm_80").sms)
    chain = chain.split(None, **box).pipeline(stages)
    for role, columns in ((w.gradient, filters), (w.images, channels)):
        chain = chain.load(role, SH, by_lines(chain, role)).swizzle(spread_lines(columns))

    chain = chain.tile(**{w.filter: filters // 2, w.channel: channels // 2}).to(Warp)
    return chain.each(**{w.step: by_fragments})


@preset
@space("sm_90", filters=(64, 128), channels=(64, 128), pixels=(32, 48, 64, 96, 128), ways=(1, 2, 3, 4, 6, 8, 16))
def filters_wgmma(
    spec: ProgramChain, filters: int | None = None, channels: int | None = None, pixels: int | None = None,
    stages: int | None = None, ways: int | None = None, shared: bool | None = None,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of a convolution's filters for Hopper: bulk copies, wgmma with both operands transposed.

    Args:
        spec: a gradient of filters of 16-bit floats, channels and filters in multiples of 8.
        filters, channels: numbers of filters and channels of a block's tile, at one tap; multiples of 64.
        pixels: number of pixels of a chunk, a multiple of 16.
        stages: number of chunks in shared memory; by default as many as fit, at most 6.
        ways: number of blocks that share a tile, each with a part of the images; their sums are added in order.
            Arguments that are not given are chosen by a model of clocks on an H200.
        shared: whether all blocks run at once, and the blocks of a tile wait for each other, each adding a share of the
            tile. False: the last block of a tile adds all parts. None: True if sizes are known. On an H200 this raised
            the speed over 12 layers from 0.88 to 1.03 of cuDNN's.
    """
    w = _gradient_of(spec)
    shared = all(isinstance(n, int) for n in spec.residual.extents.values()) if shared is None else shared
    share = _share(spec, w, filters, channels, pixels, ways, shared)
    filters, channels = share.filters, share.channels
    tile = {**dict.fromkeys(w.batch, 1), w.filter: filters, **dict.fromkeys(w.taps, 1), w.channel: channels}
    box = dict(zip(w.pixels, share.box, strict=True))
    stages = stages or max(2, min(6, SHARED // (2 * prod(share.box) * (filters + channels))))
    chain = spec.tile(**tile).to(Block).epilog(memory=FR)
    if share.ways > 1:
        chain = chain.split(w.pixels[0], ways=share.ways).parallel(Block, in_order(shared=shared))
    chain = chain.split(None, **box).pipeline(stages, inflight=1).specialize()
    chain = chain.load(w.gradient, SH, tma()).load(w.images, SH, tma())
    chain = chain.tile(**{w.filter: 64}).to(Warpgroup)
    return chain.each(**{w.step: lambda f: f.split(16).unroll().done("wgmma")})


@attrs.frozen
class _Share:
    """Hold a gradient's tile, and how its pixels are divided among blocks and chunks.

    Args:
        filters, channels: numbers of filters and channels of a block's tile.
        ways: number of blocks that share a tile.
        box: extents of a chunk's box of pixels, images first.
    """

    filters: int
    channels: int
    ways: int
    box: tuple[int, ...]


MULTIPLY_ADDS = 2048  # multiply-adds of 16-bit floats in a clock of an SM of Hopper
# Fitted to 8 timings of layers of ResNet-50 and AKG on an H200, with an error of 4 % (root mean square).
L2_RATE = 48.0  # bytes in a clock that an SM receives from the L2 cache while all SMs load
HANDED = 141.0  # bytes in a clock that shared memory stores, and that instructions read from it
# Clocks of a chunk beside its products, of a tile, and to increment a tile's counter.
CHUNK, TILE, MEETING = 20.0, 1500.0, 500.0
SUMS = 37.0  # bytes of other blocks' sums read in a clock


def _clocks(share: _Share, tiles: int, trips: int, shared: bool) -> float:
    """Estimate the clocks of a gradient of filters.

    Args:
        share: the tile, and the division of pixels.
        tiles: number of tiles of filters, channels and taps.
        trips: number of chunks of a block.
        shared: whether each block of a tile adds a share of the sums.
    """
    rows, columns, volume = share.filters, share.channels, prod(share.box)
    moved = 2 * volume * (rows + columns)
    handed = (moved + 2 * volume * (rows // 64) * (64 + columns)) / HANDED
    chunk = CHUNK + max(rows * columns * volume / MULTIPLY_ADDS, moved / L2_RATE, handed)
    readers = max(n for n in range(1, share.ways + 1) if columns // 8 % n == 0) if shared else 1
    meeting = share.ways / readers * 4 * rows * columns / SUMS + MEETING if share.ways > 1 else 0.0
    return -(-tiles * share.ways // machine("sm_90a").sms) * (trips * chunk + TILE) + meeting


def _share(
    spec: ProgramChain, w: _Gradient, filters: int | None, channels: int | None, pixels: int | None, ways: int | None,
    shared: bool,
) -> _Share:  # fmt: skip
    """Choose a tile, the number of blocks that share it, and a chunk's box of pixels, by a model of clocks."""
    extents = spec.residual.extents
    sizes = [n if isinstance(n := extents[d], int) else 64 for d in w.pixels]
    taps = prod(n for d in (*w.batch, *w.taps) if isinstance(n := extents[d], int))
    wanted = (pixels,) if pixels else tuple(range(32, 257, 16))
    found: list[tuple[float, int, _Share]] = []
    for rows, columns in product(_widths(extents[w.filter], filters), _widths(extents[w.channel], channels)):
        held = zip((extents[w.filter], extents[w.channel]), (rows, columns), strict=True)
        tiles = taps * prod(-(-n // size) for n, size in held if isinstance(n, int))
        waves = 1 if shared else 2
        most = max(1, min(sizes[0], waves * machine("sm_90a").sms // tiles))
        for count in (ways,) if ways else range(1, most + 1):
            part = -(-sizes[0] // count)
            for box, trips in whole_boxes((part, *sizes[1:]), wanted):
                if 6 * prod(box) * (rows + columns) <= SHARED:  # three chunks
                    share = _Share(rows, columns, -(-sizes[0] // part), box)
                    found.append((_clocks(share, tiles, trips, shared), len(found), share))
    if not found:
        raise FireironError(
            "conv-sizes",
            f"no box of {pixels} pixels cuts {sizes[0]} images in {ways} parts",
            fix="give a multiple of 16 pixels, or leave pixels and ways out",
        )
    return min(found)[2]


def _widths(extent: object, given: int | None) -> tuple[int, ...]:
    """List the possible extents of a tile along a dim; for wider tiles NVRTC 13.0 serialises wgmma."""
    if given:
        return (given,)
    size = extent if isinstance(extent, int) else 128
    return tuple(n for n in (64, 128) if n < size + 64)


@attrs.frozen
class _Gradient:
    """Name the parts of a program whose product folds the pixels of two arrays.

    Args:
        step: the product.
        batch: dims that both arrays and the result have (groups); a block takes one index of each.
        pixels: folded dims.
        filter: the dim that only the first array has.
        taps: dims of taps.
        channel: the last dim of the second array.
        gradient, images: the two arrays: the gradient of the result, and the images.
    """

    step: str
    batch: tuple[str, ...]
    pixels: tuple[str, ...]
    filter: str
    taps: tuple[str, ...]
    channel: str
    gradient: str
    images: str


def _gradient_of(spec: ProgramChain) -> _Gradient:
    """Find the product of a gradient and windows.

    Raises:
        FireironError: `conv-product` for a program without such a product.
    """
    step = next((s for s in spec.computed.steps if s.is_product), None)
    dims = [] if step is None else [{d.name for d in ref.dims} for ref in step.reads[:2]]
    left, both = (dims[0], dims[0] & dims[1]) if dims else (set[str](), set[str]())
    batch = () if step is None else tuple(d.name for d in step.kept if d.name in both)
    kept = [] if step is None else [d.name for d in step.kept if d.name not in both]
    if step is None or len(kept) < 2 or kept[0] not in left or any(d in left for d in kept[1:]):
        raise FireironError(
            "conv-product",
            f"{spec.computed.name} folds no product of a gradient's pixels and windows of images",
            fix="give conv2d_filter_gradient(...), or one of its kin",
        )
    first, second = (ref.name for ref in step.reads)
    pixels = tuple(d.name for d in step.over)
    return _Gradient(step.name, batch, pixels, kept[0], tuple(kept[1:-1]), kept[-1], first, second)


def _at_one_tap(
    spec: ProgramChain, w: _Gradient, filters: int, channels: int, pixels: int, ways: int | None, sms: int,
    memory: Memory = FR,
) -> tuple[ProgramChain, dict[str, int]]:  # fmt: skip
    """Tile filters and channels at one tap, divide images among blocks if tiles are few, and choose a box of pixels."""
    extents = spec.residual.extents
    tile = {**dict.fromkeys(w.batch, 1), w.filter: filters, **dict.fromkeys(w.taps, 1), w.channel: channels}
    tiles = prod(-(-n // size) for d, size in tile.items() if isinstance(n := extents[d], int))
    images = extents[w.pixels[0]]
    most = images if isinstance(images, int) else 1
    ways = ways or max(1, min(most, sms // tiles))
    chain = spec.tile(**tile).to(Block).epilog(memory=memory)
    chain = chain.split(w.pixels[0], ways=ways).parallel(Block) if ways > 1 else chain
    return chain, box_of(chain, w.pixels, pixels)
