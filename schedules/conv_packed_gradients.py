"""Gradients of convolutions of few channels, with one dim for columns and channels of images, and of filters.

On views (N, H, W C) and (K, R, S C) of the arrays these are the gradients of `conv.conv2d_packed`. The gradient of
images computes the pixels of all remainders by the stride as columns of one product, so that y is read once, and a
tile's windows share the pixels in shared memory.
"""

from __future__ import annotations

from math import prod

from fireiron import (
    FR,
    SH,
    Block,
    FireironError,
    ProgramChain,
    RowMajor,
    Schedule,
    StepChain,
    Value,
    Warp,
    cp_async,
    dim,
    einsum,
    extent,
    ldmatrix,
    machine,
    preset,
    program,
    space,
    staged,
    through_shared,
)
from fireiron.schedules._pixels import spread_lines, tile_extent
from fireiron.schedules._tensor_cores import by_fragments
from fireiron.schedules._windows import Pads, Sizes, one, outputs, pair, whole

STEP = 16  # elements of an instruction's folded dim
THREADS, STAGED = 128, 32  # threads of a block; most elements that a thread holds while it copies
WARPS = 11  # warps of an SM for gradients of filters: on an H200 the stem of ResNet-50 takes 80 us, with 4 warps 116 us
DTYPE = "f16"  # default element type on the command line


EXTENTS = {  # default extents on the command line: whole pixels of 3 channels
    "conv2d_packed_data_gradient": {"r": 3, "l": 9, "k": 16},
    "conv2d_packed_filter_gradient": {"l": 12, "k": 16},
}


@program(y="n p q k", f="k r l")
def conv2d_packed_data_gradient(
    y: Value, f: Value, stride: Sizes = 1, pad: Pads = 0, channels: int = 3
) -> Value:  # fmt: skip
    """Compute the gradient of `conv2d_packed`'s images, x[n, h, i, w, m]: row h * stride + i, and in it w and m.

    The dim m has the columns and channels between two windows. On a view (N, H / stride, stride, W / stride, stride *
    C) of the images, whose sides are multiples of the strides, this is the gradient of `conv2d`, except for NaN and
    infinity: taps beyond a filter are multiplied as zeros, so that these values of y spread to up to stride - 1 more
    rows and columns.

    Args:
        y: the gradient of the convolution's result.
        f: the convolution's filters.
        stride, pad: stride and padding of the convolution, whose dilation is 1.
        channels: number of channels of a pixel.

    Raises:
        FireironError: `conv-sizes`, `conv-window`.
    """
    _whole_pixels(channels)
    reads: list[Value] = []
    held: list[Value] = []
    taps = [extent("r"), extent("l") // channels]
    for axis, (outer, near, visited) in enumerate(zip("hw", "im", "uv", strict=True)):
        step, (before, behind), reach = one(stride, axis, 2), pair(pad, axis, 2), taps[axis]
        whole("stride", step, 1)
        # Sides that are multiples of the stride follow from y: one of `step` neighbours that give as many windows.
        least = (extent("pq"[axis]) - 1) * step + reach - before - behind
        count = (least + step - 1) // step
        if isinstance(count, int) and count < 1:
            raise FireironError(
                "conv-window",
                f"padding of {before} and {behind} leaves {least} pixels along {outer}",
                fix="pad less: what is padded is cut off from the gradient",
            )
        # Window p reads row h * step + i at tap (h - p) * step + i + before: visit v is p = h - v + first.
        first = -(-before // step)
        visits = (reach - 1 - before + step * first) // step + 1
        unit = channels if axis else 1
        visit = dim(visited, visits)
        reads.append(dim(outer, count) - visit + first)
        held.append(step * unit * visit + dim(near, step * unit) - unit * (step * first - before))
    return einsum("n h w u v k, k u v i m -> n h i w m", y[(slice(None), *reads)], f[(slice(None), *held)])


@program(y="n p q k", x="n h l")
def conv2d_packed_filter_gradient(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, channels: int = 3
) -> Value:
    """Compute the gradient of `conv2d_packed`'s filters, f[k, r, m]: products of y's pixels and windows of x.

    Args:
        y: the gradient of the convolution's result.
        x: the convolution's images.
        taps: rows and columns of a filter.
        stride, pad: stride and padding of the convolution, whose dilation is 1.
        channels: number of channels of a pixel.

    Raises:
        FireironError: `conv-sizes`, `conv-window`.
    """
    _whole_pixels(channels)
    read: list[Value] = []
    for axis, (outer, inner, tap) in enumerate(zip("pq", "hw", "rm", strict=True)):
        step, reach, pads = one(stride, axis, 2), one(taps, axis, 2), pair(pad, axis, 2)
        unit = channels if axis else 1
        size = outputs(tap, inner, extent("hl"[axis]) // unit, reach, step, 1, pads)
        read.append(unit * step * dim(outer, size) + dim(tap, unit * reach) - unit * pads[0])
    return einsum("n p q r m, n p q k -> k r m", x[(slice(None), *read)], y)


def _whole_pixels(channels: int) -> None:
    """Refuse lines that do not hold a whole number of pixels."""
    whole("channels", channels, 1)
    lines = extent("l")
    if isinstance(lines, int) and lines % channels:
        raise FireironError(
            "conv-sizes",
            f"{lines} elements along l are no whole number of pixels of {channels} channels",
            fix="give channels= of the images, which filters have too",
        )


@preset
@space("sm_80", rows=(4, 8, 16), columns=(8, 16, 32), depth=(16, 32, 64), stages=(2, 3), halo=(True, False))
def images_mma(
    spec: ProgramChain, rows: int | None = None, columns: int = 16, depth: int | None = None, stages: int = 2,
    halo: bool | None = None,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of images of few channels by mma.sync, from sm_80 on.

    Rows of the product are the pixels of a box of y; columns are the rows, columns and channels of the images between
    two windows. Asynchronous copies load boxes of y with their halo, from which instructions read the window of each
    tap.

    Args:
        spec: `conv2d_packed_data_gradient` of 16-bit floats.
        rows: number of rows of a block's box, a multiple of 4, since each of four warps has a quarter. By default 16 if
            y has 64 channels or more and the product at most 32 columns, which took 0.61 of the time of 8 rows on an
            H200; else 8.
        columns: number of columns of a block's box, a power of two.
        depth: number of filters of a chunk, a multiple of 16; by default at most 64, as registers allow.
        stages: number of chunks in shared memory.
        halo: whether a chunk has all taps along a row instead of one; by default if registers hold the filters.

    Raises:
        FireironError: `conv-product` for another program.
    """
    e = spec.residual.extents
    if not {"h", "w", "u", "v", "i", "m", "k"} <= set(e):
        raise FireironError(
            "conv-product",
            f"{spec.computed.name} is no gradient of images of few channels",
            fix="give conv2d_packed_data_gradient(...)",
        )
    between, lines = _size(e["m"], 8), _size(held.tensor.shape[-1] if (held := spec.residual.operand("f")) else 0, 0)
    m, near = max(8, 1 << (between - 1).bit_length()), _size(e["i"], 1)
    if rows is None:
        rows = 16 if _size(e["k"], 1) >= 64 and near * m <= 32 else 8
    if halo is None:
        halo = STEP * near * (lines + m) <= STAGED * THREADS
    if depth is None:
        each = near * (lines + m if halo else m)
        fits = (n for n in (64, 32) if _size(e["k"], 1) % n == 0 and n * each <= STAGED * THREADS)
        depth = next(fits, STEP)
    block = {"n": 1, "h": rows, "i": e["i"], "w": columns, "m": m}
    chain = spec.tile(**block).to(Block).epilog(memory=FR, store=through_shared(pad=0, reuse=True))
    chain = chain.split(None, u=1, **({} if halo else {"v": 1}), k=depth).pipeline(stages)
    chain = chain.load("y", SH, cp_async()).storage_layout(RowMajor).swizzle(spread_lines(depth))
    chain = chain.load("f", SH, staged())
    chain = chain.split(None, v=1) if halo else chain

    def multiplied(y: StepChain) -> Schedule:
        return y.split(STEP).unroll().load("A", FR, ldmatrix()).load("B", FR).tile(16, 8).unroll().done()

    warp = {**block, "h": max(1, rows // 4)}
    return chain.tile(**warp).to(Warp).each(product=multiplied)


@preset
@space("sm_80", filters=(16, 32, 64), rows=(1, 2, 4), pixels=(32, 64, 112, 128), stages=(2, 3), ways=(1, 8, 16, 32, 64))
def filters_mma(
    spec: ProgramChain, filters: int | None = None, rows: int | None = None, pixels: int | None = None,
    stages: int = 2, ways: int | None = None,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of filters of few channels by mma.sync, from sm_80 on: pixels are folded.

    A chunk is a part of a row of y, with the parts of x's rows that its windows read, from which each thread gathers
    fragments.

    Args:
        spec: `conv2d_packed_filter_gradient` of 16-bit floats.
        filters: number of filters of a block's tile; by default 64, or fewer if there are fewer.
        rows: number of filter rows of a block's tile; one or two warps compute each. By default 1, or 2 where pixels do
            not give enough blocks.
        pixels: number of pixels of a chunk, a multiple of 16; by default a row of y, at most 112.
        stages: number of chunks in shared memory.
        ways: number of blocks that share a tile, each with a part of y's rows, or of the images if there are more of
            them; their sums are added in order. By default as many as give an H200 enough warps.

    Raises:
        FireironError: `conv-product` for another program.
    """
    e = spec.residual.extents
    if not {"n", "p", "q", "k", "r", "m"} <= set(e):
        raise FireironError(
            "conv-product",
            f"{spec.computed.name} is no gradient of filters of few channels",
            fix="give conv2d_packed_filter_gradient(...)",
        )
    columns, taps = _size(e["q"], 64), _size(e["r"], 1)
    filters = filters or max(STEP, tile_extent(e["k"], 64))
    m = -(-n // STEP) * STEP if isinstance(n := e["m"], int) else 32
    along = max(("p", "n"), key=lambda d: _size(e[d], 1))
    wanted = WARPS * machine("sm_90a").sms
    if rows is None:
        rows = 1 if _warps(1, filters) * _tiles(e, {"k": filters, "r": 1, "m": m}) * _size(e[along], 1) >= wanted else 2
        rows = min(rows, taps)
    if pixels is None:
        lines = _size(held.tensor.shape[-1] if (held := spec.residual.operand("x")) else 0, 0)
        most = STAGED * THREADS // 2 * columns // max(1, rows * lines)  # rows whose windows registers hold
        pixels = max(STEP, min(112, most // STEP * STEP, -(-columns // STEP) * STEP))
    tile = {"k": filters, "r": rows, "m": m}
    ways = ways or _ways(_size(e[along], 1), -(-wanted // (_warps(rows, filters) * _tiles(e, tile))))
    chain = spec.tile(**tile).to(Block).epilog(memory=FR)
    chain = chain.split(along, ways=ways).parallel(Block) if ways > 1 else chain
    chain = chain.split(None, n=1, p=1, q=pixels).pipeline(stages)
    chain = chain.load("x", SH, staged()).load("y", SH, cp_async()).swizzle(spread_lines(filters))

    chain = chain.tile(k=filters // _apart(rows, filters), r=1, m=m).to(Warp)
    return chain.each(product=lambda y: by_fragments(y, "B"))


def _apart(rows: int, filters: int) -> int:
    """Return the number of warps that share a row of filters."""
    return 2 if rows <= 2 and filters >= 32 else 1


def _warps(rows: int, filters: int) -> int:
    return rows * _apart(rows, filters)


def _size(extent: object, otherwise: int) -> int:
    return extent if isinstance(extent, int) else otherwise


def _tiles(extents: dict[str, object], tile: dict[str, int]) -> int:
    return prod(-(-n // size) for d, size in tile.items() if isinstance(n := extents[d], int))


def _ways(lines: int, wanted: int) -> int:
    """Choose the number of blocks that share a tile: at least `wanted`, if lines suffice, with equal shares."""
    return -(-lines // max(1, lines // max(1, wanted)))
