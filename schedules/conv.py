"""Convolutions and pooling as programs of index maps, and schedules for CUDA cores and tensor cores.

Arrays have channels last: (N, H, W, C), and (K, R, S, C) for filters. For channels first, give arrays with such
strides, and `channels_first=True` for the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any

import attrs

from fireiron import (
    FR,
    RF,
    SH,
    SRC,
    Block,
    Cluster,
    FireironError,
    MoveChain,
    ProgramChain,
    Schedule,
    StepChain,
    Strategy,
    Thread,
    Value,
    Warp,
    Warpgroup,
    cast,
    conform,
    cp_async,
    dim,
    einsum,
    extent,
    fuse,
    index,
    ldmatrix,
    preset,
    program,
    space,
    staged,
    through_shared,
    tma,
    vector,
    walks,
    where,
)
from fireiron.schedules._convolved import Before, convolved, grouped, largest, mean_of
from fireiron.schedules._lanes import dealt
from fireiron.schedules._pixel_clocks import (
    MOST_BESIDE,
    Tiles,
    pad_of,
    ranked,
    share_pixels,
    span_of,
    swizzled,
)
from fireiron.schedules._pixels import (
    COPIERS,
    RUN,
    WARPGROUP,
    Window,
    box_of,
    brought,
    bulk_takes,
    copied_span,
    least_side,
    lies_across,
    part_of,
    refuse_cut,
    spread_lines,
    tile_extent,
    window_of,
)
from fireiron.schedules._tensor_cores import by_fragments
from fireiron.schedules._windows import Pads, Sizes, followed, one, outputs, pair, places, whole

TILE, PAD = 64, 8  # for few channels: filters of a tile; elements of padding between their rows
KEPT = 64 * 1024  # for few channels: most bytes of filters that stay in shared memory, beside two tiles of images
STEP = 16  # elements of an instruction's folded dim, for 16-bit floats
SPANS = (32, 64, 128)  # bytes of a row that a bulk copy writes with a swizzle
FEW_CHUNKS = 8  # of a 1x1 convolution whose residual is copied: 1.31, 1.23, 1.18, 1.00 and 1.08 with 1, 2, 4, 8 and 8
MOST_REGISTERS, QUAD = 255, 4  # of a thread; lanes that share the rows of a fragment
AHEAD_NBYTES = 448  # most bytes of images that a thread reads ahead: 112 registers, beside what it folds


@program(x="n w channel", f="k s c", bias="k", residual="n q k", scale="k", gain="channel", shift="channel")
def conv1d(
    x: Value, f: Value, bias: Value | None = None, residual: Value | None = None, stride: Sizes = 1, pad: Pads = 0,
    dilation: Sizes = 1, groups: int = 1, op: Callable[[Value], Value] | None = None, channels_first: bool = False,
    scale: Value | None = None, gain: Value | None = None, shift: Value | None = None,
    before: Callable[[Value], Value] | None = None,
) -> Value:  # fmt: skip
    """Convolve lines: y[n, q, k] = sum over s, c of x[n, q * stride + s * dilation - pad, c] * f[k, s, c]."""
    return convolved(
        "w", "s", "q", x, f, bias, residual, stride, pad, dilation, groups, op, channels_first, scale,
        Before(gain, shift, before),
    )  # fmt: skip


@program(x="n h w channel", f="k r s c", bias="k", residual="n p q k", scale="k", gain="channel", shift="channel")
def conv2d(
    x: Value, f: Value, bias: Value | None = None, residual: Value | None = None, stride: Sizes = 1, pad: Pads = 0,
    dilation: Sizes = 1, groups: int = 1, op: Callable[[Value], Value] | None = None, channels_first: bool = False,
    scale: Value | None = None, gain: Value | None = None, shift: Value | None = None,
    before: Callable[[Value], Value] | None = None,
) -> Value:  # fmt: skip
    """Convolve images.

    Args:
        x: images.
        f: filters; with groups, each has its group's channels only.
        bias: a value for each channel, which is added.
        residual: array of the result's shape, which is added.
        stride: pixels from one output to the next, one number or one for each side.
        pad: rows and columns of zeros around: one number, one for each side, or pairs (before, behind).
        dilation: pixels from one tap of a filter to the next.
        groups: number of parts of the channels, each convolved with its own filters; the number of channels for a
            depthwise convolution.
        op: function that is applied last, such as `relu`.
        channels_first: whether the output is N K P Q.
        scale: a factor for each channel, applied before the bias, as in a batch norm.
        gain, shift, before: the images are replaced by before(x * gain + shift), for a batch norm and relu before the
            convolution; padding stays 0.
    """
    return convolved(
        "hw", "rs", "pq", x, f, bias, residual, stride, pad, dilation, groups, op, channels_first, scale,
        Before(gain, shift, before),
    )  # fmt: skip


@program(x="n d h w channel", f="k t r s c", bias="k", residual="n o p q k", scale="k", gain="channel", shift="channel")
def conv3d(
    x: Value, f: Value, bias: Value | None = None, residual: Value | None = None, stride: Sizes = 1, pad: Pads = 0,
    dilation: Sizes = 1, groups: int = 1, op: Callable[[Value], Value] | None = None, channels_first: bool = False,
    scale: Value | None = None, gain: Value | None = None, shift: Value | None = None,
    before: Callable[[Value], Value] | None = None,
) -> Value:  # fmt: skip
    """Convolve volumes, as `conv2d` does images."""
    return convolved(
        "dhw", "trs", "opq", x, f, bias, residual, stride, pad, dilation, groups, op, channels_first, scale,
        Before(gain, shift, before),
    )  # fmt: skip


@program(x="n h l", f="k r m", bias="k", residual="n p q k", scale="k")
def conv2d_packed(
    x: Value, f: Value, bias: Value | None = None, residual: Value | None = None, stride: Sizes = 1, pad: Pads = 0,
    op: Callable[[Value], Value] | None = None, scale: Value | None = None, channels: int = 3, lead: int | None = None,
) -> Value:  # fmt: skip
    """Convolve images of few channels, with one dim for columns and channels of images, and of filters.

    On views (N, H, W C) and (K, R, S C) of the arrays this is `conv2d`. A filter's columns and channels, which are
    contiguous in both arrays, are folded as one dim, so that an instruction's K is full.

    Args:
        x: images.
        f: filters.
        bias, residual, stride, pad, op, scale: as in `conv2d`.
        channels: number of channels of a pixel.
        lead: number of zeros before each row of a filter; further zeros behind make the row a multiple of 16. `lead_of`
            returns a lead with which windows begin at even elements, so that elements are gathered in pairs.
    """
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
    fit = filters <= TILE and _kept(TILE, rows, -(-(lead + columns * channels) // STEP) * STEP)
    return lead if fit else None


def _kept(filters: int, rows: int, depth: int) -> bool:
    """Say whether shared memory holds all filters of few channels."""
    return 2 * filters * rows * (depth + PAD) <= KEPT


@program(x="n w g c", f="g k s c", bias="g k", residual="n q g k", scale="g k")
def conv1d_grouped(
    x: Value, f: Value, bias: Value | None = None, residual: Value | None = None, stride: Sizes = 1, pad: Pads = 0,
    dilation: Sizes = 1, op: Callable[[Value], Value] | None = None, scale: Value | None = None,
) -> Value:  # fmt: skip
    """Convolve groups of channels of lines, as `conv2d_grouped` does those of images."""
    return grouped("w", "s", "q", x, f, bias, residual, stride, pad, dilation, op, scale)


@program(x="n h w g c", f="g k r s c", bias="g k", residual="n p q g k", scale="g k")
def conv2d_grouped(
    x: Value, f: Value, bias: Value | None = None, residual: Value | None = None, stride: Sizes = 1, pad: Pads = 0,
    dilation: Sizes = 1, op: Callable[[Value], Value] | None = None, scale: Value | None = None,
) -> Value:  # fmt: skip
    """Convolve groups of channels, which are a dim g; on views of the arrays this is conv2d with `groups=`.

    A tile then has channels of one group, so that tensor cores multiply them.

    Args:
        x: images.
        f: filters of each group.
        bias, residual: added to the result.
        stride, pad, dilation, op, scale: as in `conv2d`.
    """
    return grouped("hw", "rs", "pq", x, f, bias, residual, stride, pad, dilation, op, scale)


@program(x="n d h w g c", f="g k t r s c", bias="g k", residual="n o p q g k", scale="g k")
def conv3d_grouped(
    x: Value, f: Value, bias: Value | None = None, residual: Value | None = None, stride: Sizes = 1, pad: Pads = 0,
    dilation: Sizes = 1, op: Callable[[Value], Value] | None = None, scale: Value | None = None,
) -> Value:  # fmt: skip
    """Convolve groups of channels of volumes, as `conv2d_grouped` does those of images.

    With groups, volumes have six dims, one more than a tensor map, so threads copy them.
    """
    return grouped("dhw", "trs", "opq", x, f, bias, residual, stride, pad, dilation, op, scale)


EXTENTS = {
    "conv2d_packed": {"l": 24, "m": 9}
}  # default extents on the command line: columns of whole pixels of 3 channels


@program(y="n p q k", f="k r s c")
def conv2d_transposed(y: Value, f: Value, stride: Sizes = 1, pad: Pads = 0, more: Sizes = 0) -> Value:
    """Compute a transposed convolution: the gradient of the images of a `conv2d` whose result has y's shape.

    Args:
        y: images with K channels.
        f: the convolution's filters.
        stride: stride of the convolution.
        pad: padding of the convolution.
        more: rows and columns of x behind the last window, which the convolution would not read.
    """
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


@program(x="n w c")
def max_pool1d(x: Value, window: Sizes, stride: Sizes = 0, pad: Pads = 0, dilation: Sizes = 1) -> Value:
    """Take the largest value of each window of lines, as `max_pool2d` does of images."""
    return largest("w", "s", "q", x, window, stride, pad, dilation)


@program(x="n h w c")
def max_pool2d(x: Value, window: Sizes, stride: Sizes = 0, pad: Pads = 0, dilation: Sizes = 1) -> Value:
    """Take the largest value of each window; padding is ignored.

    Args:
        x: images.
        window: rows and columns of a window.
        stride: pixels from one window to the next; 0 for windows side by side.
        pad: rows and columns around: one number, one for each side, or pairs (before, behind); less than a window.
        dilation: pixels from one value of a window to the next.
    """
    return largest("hw", "rs", "pq", x, window, stride, pad, dilation)


@program(x="n d h w c")
def max_pool3d(x: Value, window: Sizes, stride: Sizes = 0, pad: Pads = 0, dilation: Sizes = 1) -> Value:
    """Take the largest value of each window of volumes, as `max_pool2d` does of images."""
    return largest("dhw", "trs", "opq", x, window, stride, pad, dilation)


@program(x="n w c")
def average_pool1d(
    x: Value, window: Sizes, stride: Sizes = 0, pad: Pads = 0, count_pad: bool = True, beyond: Sizes = 0
) -> Value:
    """Take the mean of each window of lines, as `average_pool2d` does of images."""
    return mean_of("w", "s", "q", x, window, stride, pad, count_pad, beyond)


@program(x="n h w c")
def average_pool2d(
    x: Value, window: Sizes, stride: Sizes = 0, pad: Pads = 0, count_pad: bool = True, beyond: Sizes = 0
) -> Value:
    """Take the mean of each window.

    Args:
        x: images.
        window, stride, pad: as in `max_pool2d`.
        count_pad: whether padding counts in the mean, as zeros.
        beyond: pixels behind the padding into which windows may reach; they never count.
    """
    return mean_of("hw", "rs", "pq", x, window, stride, pad, count_pad, beyond)


@program(x="n d h w c")
def average_pool3d(
    x: Value, window: Sizes, stride: Sizes = 0, pad: Pads = 0, count_pad: bool = True, beyond: Sizes = 0
) -> Value:
    """Take the mean of each window of volumes, as `average_pool2d` does of images."""
    return mean_of("dhw", "trs", "opq", x, window, stride, pad, count_pad, beyond)


@preset
@space(pixels=(16, 32, 64, 128), channels=(8, 16, 32, 64), depth=(4, 8, 16))
def simt(spec: ProgramChain, pixels: int = 64, channels: int = 32, depth: int = 8) -> Schedule:
    """Schedule a convolution or a pooling on CUDA cores; the pixels of a tile, with their halo, are in shared memory.

    Args:
        spec: a program of this module, or another program whose fold has the same dims.
        pixels: number of pixels of a block's tile, which lie in one image.
        channels: number of channels of a block's tile.
        depth: number of folded channels in shared memory at a time.

    Raises:
        FireironError: `conv-program` for another program.
    """
    fold = next((s for s in spec.computed.steps if s.fold is not None), None)
    kept, over = ([], []) if fold is None else ([d.name for d in dims] for dims in (fold.kept, fold.over))
    column = "k" if "k" in kept else "c"
    sides = [d for d in kept if d not in ("n", column)]
    if fold is None or not {"n", column} <= {*kept} or not sides:
        raise FireironError(
            "conv-program",
            f"conv.simt schedules folds that keep images n, their sides and channels, and {spec.computed.name} "
            f"{'folds nothing' if fold is None else 'keeps ' + (', '.join(kept) or 'no dim')}",
            fix="give a program of schedules.conv",
        )
    sizes = {d: n for d, n in spec.residual.extents.items() if isinstance(n, int)}
    block = {"n": 1, column: _channels(spec, column, channels), **_spread(sides, sizes, pixels)}
    last = sides[-1]
    thread = {d: 1 for d in block} | {column: gcd(4, block[column]), last: gcd(4, block[last])}
    chain = spec.tile(**block).to(Block).epilog(memory=RF)
    if "c" in over or "k" in over:
        inner = "c" if "c" in over else "k"
        chain = chain.split(None, **{inner: min(depth, sizes.get(inner, depth))})
    inputs = [o.role for o in spec.residual.operands if any(r.name == o.tensor.name for r in fold.reads)]
    for role in inputs:
        chain = chain.load(role, SH)
    chain = chain.tile(**thread).to(Thread)
    for d in over:
        chain = chain.split(None, **{d: 1})
    for operand in chain.residual.operands if fold.is_product else ():
        # Where a quotient says what a thread reads, that is no box: it is read in place.
        if operand.role in inputs and None not in [chain.residual.extents[d] for d in operand.dims]:
            chain = chain.load(operand.role, RF, conform())
    return chain.done()


@preset
@space(pixels=(1, 2, 4, 7, 8), threads=(64, 128, 256), most_taps=(1, 9, 25), rows=(1, 2))
def channelwise(
    spec: ProgramChain, pixels: int | None = None, threads: int = 128, most_taps: int = 9, rows: int = 1
) -> Schedule:
    """Schedule a fold over windows that keeps the images' channels, as depthwise convolutions and pooling do.

    Neighbouring lanes take neighbouring vectors of channels, of at most 16 bytes and 8 channels. A thread has a run of
    pixels along the last side. The thread reads each row of its windows, the run with its halo, once into registers;
    for several rows of results it reads all rows of windows first. Threads are distributed so that few lie outside the
    images. With several filters per channel, or channels that are not contiguous, elements are read one by one.

    Args:
        spec: a depthwise convolution or a pooling of this module, or a program whose fold has the same dims.
        pixels: number of pixels of a thread's run. By default 4, or 7 for windows with stride 1 if such runs reach less
            beyond the side, and for windows whose rows are read one at a time.
        threads: most threads of a block.
        rows: number of rows of a thread's results, along the side before the last, if all rows of windows are read
            first.
        most_taps: the most taps of windows that are read as a whole before the fold, if registers hold them; larger
            windows are read row by row.

    Raises:
        FireironError: `conv-program` for another program.
    """
    fold = next((s for s in spec.computed.steps if s.fold is not None), None)
    kept, over = ([], []) if fold is None else ([d.name for d in dims] for dims in (fold.kept, fold.over))
    reads = {} if fold is None else {ref.name: {d.name for d in ref.dims} for ref in fold.reads}
    images = next((name for name, dims in reads.items() if "n" in dims), "")
    column = next((d for d in ("k", "c") if d in kept and d in reads.get(images, ())), "")
    sides = [d for d in kept if d not in ("n", column)]
    if fold is None or not column or not sides or "n" not in kept:
        raise FireironError(
            "conv-program",
            f"conv.channelwise schedules folds over windows that keep the images' channels, and {spec.computed.name} "
            f"{'folds nothing' if fold is None else 'keeps ' + (', '.join(kept) or 'no dim')}",
            fix="give a depthwise convolution or a pooling of schedules.conv",
        )
    sizes = {d: n for d, n in spec.residual.extents.items() if isinstance(n, int)}
    nbytes = next(ref.dtype.nbytes for ref in fold.reads if ref.name == images)
    last, taps = sides[-1], [d for d in over if sizes.get(d) != 1]
    few = prod(sizes.get(d, 1) for d in taps) <= most_taps
    pixels = pixels or (_run(sizes.get(last), spec, fold.name, images) if few else 7)
    thread = {"n": 1, **dict.fromkeys(sides, 1)}
    thread |= {column: tile_extent(sizes.get(column), min(8, 16 // nbytes)), last: tile_extent(sizes.get(last), pixels)}
    if len(sides) > 1 and few:
        thread[sides[-2]] = tile_extent(sizes.get(sides[-2]), rows)
    units = {d: -(-sizes[d] // n) if d in sizes else None for d, n in thread.items()}
    counts = dealt(spec, fold.name, images, units, thread, column, threads)
    block = {d: n * counts[d] for d, n in thread.items()}
    beside = [name for name in reads if name != images]
    chain = spec.tile(**block).to(Block).epilog(memory=RF)
    for name in beside:
        chain = chain.load(name, SH)
    chain = chain.tile(**thread).to(Thread)
    ahead = prod(sizes.get(d, most_taps + 1) for d in taps) <= most_taps
    whole = any(thread[d] > 1 for d in sides[:-1])
    box = None if whole else _row_of_windows(chain, images, taps[:-1])
    if whole:
        chain = chain.load(images, RF, vector())
    if box is not None:
        ahead = ahead and box * prod(sizes.get(d, 1) for d in taps[:-1]) * nbytes <= AHEAD_NBYTES
    for d in taps[:-1]:
        chain = chain.split(None, **{d: 1})
        chain = chain.unroll() if ahead else chain
    if box is not None:
        chain = chain.load(images, RF, vector())
    if taps:
        chain = chain.split(None, **{taps[-1]: 1}).unroll()
    for name in beside:
        chain = chain.load(name, RF, vector())
    return chain.done()


def _run(side: int | None, spec: ProgramChain, step: str, images: str) -> int:
    """Choose the number of pixels of a thread's run along a side."""
    every = all(walk.step == 1 for walk in (walks(spec.computed, step, images) or {}).values())
    return 7 if side is not None and every and -(-side // 7) * 7 < -(-side // 4) * 4 else 4


def _row_of_windows(chain: ProgramChain, images: str, rows: Sequence[str]) -> int | None:
    """Return the number of elements in a row of a thread's windows, with the halo; None if indices have quotients."""
    for d in rows:
        chain = chain.split(None, **{d: 1})
    box = next(o.dims for o in chain.residual.operands if o.role == images)
    extents = [chain.residual.extents[d] for d in box]
    return prod(e for e in extents if isinstance(e, int)) if all(isinstance(e, int) for e in extents) else None


@preset
@space(
    "sm_80",
    pixels=(64, 128, 256),
    channels=(32, 64, 128),
    depth=(8, 16, 32, 64, 128),
    warp=((32, 32), (32, 64), (64, 32), (64, 64)),
    stages=(2, 3, 4),
)
def mma(
    spec: ProgramChain, pixels: int | None = None, channels: int | None = None, depth: int | None = None,
    warp: tuple[int, int] | None = None, stages: int = 3,
) -> Schedule:  # fmt: skip
    """Schedule a convolution for tensor cores by mma.sync, from sm_80 on: implicit GEMM.

    Rows of the product are the pixels of a box, columns are filters, and one loop visits all taps and channels.
    Asynchronous copies load, for each chunk, the box shifted by a tap, with zeros outside the images. Arrays with
    channels first are transposed through registers. A function before the convolution (gain, shift, before) is applied
    to fragments in registers.

    Args:
        spec: a program of this module without `groups=`, of a type that mma.sync multiplies, or `conv2d_grouped`.
        pixels: number of pixels of a block's tile, a power of two.
        channels: number of filters of a block's tile.
        depth: number of channels of a chunk, a multiple of 32 bytes.
        warp: numbers of pixels and of filters of a warp.
        stages: number of chunks in shared memory.
    """
    w = window_of(spec)
    extents = spec.residual.extents
    filters, whole = extents[w.column], extents[w.depth]
    turned = any(lies_across(spec, role) for role in (w.images, w.filters))
    if channels is None:
        narrow = turned or w.computed or (isinstance(filters, int) and filters <= 64)
        channels = 64 if narrow else 128
    step = 32 // w.nbytes  # channels of an instruction
    if depth is None:  # transposed arrays are copied through registers
        wanted = (2 * step,) if turned else (4 * step, 2 * step)
        depth = next((n for n in wanted if isinstance(whole, int) and whole % n == 0), step)
    if depth % step:
        raise FireironError(
            "conv-tile",
            f"depth={depth} is no multiple of {step} channels, the 32 bytes that an instruction takes",
            fix=f"give a multiple of {step}, or leave depth out",
        )
    pixels = pixels or 128
    rows, columns = warp or (64 if channels > 64 else 32, min(64, channels))
    box = box_of(spec, w.pixels, pixels, pixels // rows)
    chain = spec.tile(**dict.fromkeys(w.batch, 1), **box, **{w.column: channels}).to(Block)
    store = None if w.across else through_shared(pad=max(8, 16 // w.stored), reuse=True)
    chain = chain.epilog(memory=FR, store=store)
    chain = chain.split(None, **dict.fromkeys(w.taps, 1), **{w.depth: depth}).pipeline(stages)
    for role in (w.images, w.filters):
        chain = brought(chain, role, depth, w.nbytes)
    for role in w.beside:
        chain = chain.load(role, SH, staged())

    def multiplied(y: StepChain) -> Schedule:
        y = y.split(step).unroll()
        if w.computed:  # threads compute the fragments of images
            return y.load("B", FR, ldmatrix()).tile(16, 8).unroll().done()
        y = y.pipeline(2).load("A", FR, ldmatrix()).load("B", FR, ldmatrix())
        return y.tile(16, 8).unroll().done()

    return chain.tile(**part_of(box, pixels // rows), **{w.column: columns}).to(Warp).each(**{w.step: multiplied})


@preset
@space("sm_80", pixels=(64, 128, 256), channels=(32, 64, 128), depth=(16, 32, 48, 64), stages=(2, 3, 4))
def packed(
    spec: ProgramChain, pixels: int = 128, channels: int | None = None, depth: int | None = None,
    stages: int | None = None, warp: int | None = None,
) -> Schedule:  # fmt: skip
    """Schedule a convolution of few channels for tensor cores by mma.sync, from sm_80 on.

    The box of pixels that a chunk's windows read is in shared memory once. Each thread gathers the fragments of its
    windows from there, with zeros behind the last channel. Filters are loaded as in `mma`. If the program has a lead,
    blocks loop over tiles, all filters stay in shared memory, and the next tile's pixels are loaded during this tile.

    Args:
        spec: `conv2d_packed` of 16-bit floats.
        pixels: number of pixels of a block's tile, a power of two.
        channels: number of filters of a block's tile.
        depth: folded elements of a chunk, a multiple of 16; by default all columns and channels of a filter's row.
        stages: number of chunks in shared memory, 2 by default; with a lead, number of tiles, 3 by default.
        warp: number of pixels of a warp; by default 32, or 64 for tiles of more than 64 filters.
    """
    w = window_of(spec)
    filters, whole = spec.residual.extents[w.column], spec.residual.extents[w.depth]
    if channels is None:
        few = 32 if w.computed and isinstance(filters, int) and filters <= 32 else TILE
        channels = few if isinstance(filters, int) and filters <= TILE else 128
    if depth is None:
        depth = min(64, -(-whole // STEP) * STEP) if isinstance(whole, int) else 32
    rows, columns = warp or (64 if channels > 64 else 32), min(64, channels)
    box = box_of(spec, w.pixels, pixels, pixels // rows)
    chain = spec.tile(**dict.fromkeys(w.batch, 1), **box, **{w.column: channels}).to(Block)
    chunk = {**dict.fromkeys(w.taps, 1), w.depth: depth}
    alone = isinstance(filters, int) and filters <= channels  # whether all tiles have the same filters
    lines = [n for d in w.taps if isinstance(n := spec.residual.extents[d], int)]
    if w.computed and alone and _kept(channels, prod(lines), depth):
        chain = chain.persistent().pipeline(stages or 3).epilog(memory=FR, store=through_shared(pad=8))
        chain = chain.load(w.images, SH, cp_async() if _begin_even(spec, w) else staged())
        chain = chain.load(w.filters, SH, staged()).pad(PAD).split(None, **chunk)
    else:
        chain = (
            chain.epilog(memory=FR, store=through_shared(pad=8, reuse=True)).split(None, **chunk).pipeline(stages or 2)
        )
        chain = chain.load(w.images, SH, staged()).load(w.filters, SH, staged()).pad(PAD)

    chain = chain.tile(**part_of(box, pixels // rows), **{w.column: columns}).to(Warp)
    return chain.each(**{w.step: lambda y: by_fragments(y, "B")})


def _begin_even(spec: ProgramChain, w: Window) -> bool:
    """Say whether windows begin at even elements of images, so that copies of 4 bytes can load them."""
    held, found = spec.residual.operand(w.images), walks(spec.computed, w.step, w.images, lines=True)
    assert held is not None
    pitches = all(isinstance(n, int) and n % 2 == 0 for n in held.tensor.strides[:-1])
    line = None if found is None else found.get(w.pixels[-1])
    return pitches and line is not None and line.first % 2 == 0 and line.step % 2 == 0


def plans(spec: ProgramChain) -> list[Tiles]:
    """List the tiles of `wgmma` for a convolution by modelled time, the fastest first.

    Args:
        spec: as in `wgmma`, whose `plan` may be one of these tiles.
    """
    return ranked(spec, window_of(spec))


@preset
@space("sm_90", plan=plans)
def wgmma(
    spec: ProgramChain, pixels: int | None = None, channels: int | None = None, stages: int | None = None,
    cluster: int | None = None, groups: int | None = None, persistent: bool | None = None, ways: int | None = None,
    runs: bool | None = None, span: int | None = None, plan: Tiles | None = None, dependent: bool = False,
    early: str | Sequence[str] | None = None, copied: str | Sequence[str] | None = None,
) -> Schedule:  # fmt: skip
    """Schedule a convolution for Hopper: boxes or runs of pixels by bulk copies, wgmma, roles, persistent blocks.

    A tile is a box of pixels, which a tensor map of the images cuts out, with zeros outside and every second pixel for
    a stride of 2; or a run of pixels across rows and images, by a tensor map in im2col mode. Arrays that tensor maps
    cannot describe, such as those with channels first or an odd number of channels, are copied by the threads of two
    warpgroups, which transpose if channels are not contiguous. Arguments that are not given are chosen by the model of
    `_pixel_clocks`.

    Args:
        spec: a program of this module without `groups=`, of a type that wgmma multiplies, or `conv2d_grouped`; with
            bulk copies, strides of at most 4.
        pixels: number of pixels of a block's tile, at least 64 for each warpgroup.
        channels: number of filters of a block's tile, at most 256.
        stages: number of chunks in shared memory; by default as many as fit, at most 8.
        cluster: number of blocks of a cluster, which share loads of pixels if there are several tiles of filters, else
            loads of filters.
        groups: number of warpgroups that compute.
        persistent: whether blocks loop over tiles, so that loads of the next tile overlap with stores.
        ways: number of blocks that share a tile, each with a part of the folded channels; their sums are added in
            order. Such blocks are not persistent.
        runs: whether a tile is a run of pixels across rows and images, which are fused to one dim then
            (`fireiron.fuse`).
        span: bytes of a chunk's rows of channels: 32, 64 or 128. By default the number that channels fill best, if the
            registers of copying threads hold it.
        plan: one of `plans`, for arguments that are not given; by default the first plan that agrees with the given
            ones.
        dependent: whether the kernel may begin before the launch before it in the stream has ended; useful for several
            short kernels, such as those of a gradient's residues.
        early: names of arrays, read after the products, that threads load before them; by default biases and scales,
            and residuals if a tile has several chunks.
        copied: names of arrays with the result's dims (a residual) whose tiles bulk copies load to shared memory, two
            for a block that loops over tiles. By default residuals of 1x1 convolutions of few channels, if there is
            room and `early` is not given.

    Raises:
        FireironError: `conv-product`, `conv-tile`, `fuse-dims`; `conv-cut` for chunks that would hold channels of two
            groups.
    """
    w = window_of(spec)
    copying = not all(bulk_takes(spec, role) for role in (w.images, w.filters))
    given = {
        name: x
        for name, x in (
            ("pixels", pixels), ("channels", channels), ("cluster", cluster), ("groups", groups),
            ("persistent", persistent), ("ways", ways), ("runs", runs), ("span", span),
        )
        if x is not None
    }  # fmt: skip
    wanted = _beside_few(spec, w) if copied is None and early is None else copied or ()
    wanted = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    plan = attrs.evolve(plan or _plan(spec, w, given, wanted), **given)
    plan = attrs.evolve(plan, persistent=plan.persistent and plan.ways == 1)
    if copied is None and not (plan.persistent and _has_room(spec, w, wanted, plan)):
        wanted = ()
    if plan.runs:
        spec = fuse(spec, **{RUN: " ".join(w.pixels)})
        w = window_of(spec)
    pixels, channels, groups, cluster = plan.pixels, plan.channels, plan.groups, plan.cluster
    filters = spec.residual.extents[w.column]
    if copying and pixels * channels > groups * MOST_BESIDE * WARPGROUP:
        raise FireironError(
            "conv-tile",
            f"tiles of {pixels}x{channels} give a thread {pixels * channels // (groups * WARPGROUP)} sums, and beside "
            f"threads that copy it has registers for {MOST_BESIDE}",
            fix="use smaller tiles, or arrays that bulk copies take: channels last, lines at multiples of 16 bytes",
        )
    box = box_of(spec, w.pixels, pixels, groups, least_side(spec, w))
    span = plan.span or min(span_of(spec, w, plan.ways), copied_span(spec, w, pixels, channels))
    if span not in SPANS:
        raise FireironError(
            "conv-tile",
            f"span={span} is no number of bytes that bulk copies spread over banks",
            fix=f"give {', '.join(map(str, SPANS))}, or leave span out",
        )
    depth = span // w.nbytes
    refuse_cut(spec, w, depth)
    tile = {**dict.fromkeys(w.batch, 1), **box, w.column: channels}
    if cluster > 1:
        along = w.column if share_pixels(filters, channels, cluster) else _longest(spec, box)
        chain = spec.tile(**_times(tile, along, cluster)).to(Cluster)
    else:
        chain = spec.tile(**tile).to(Block)
    chain = chain.persistent() if plan.persistent else chain
    chain = chain.dependent() if dependent else chain
    chain = chain if cluster == 1 else chain.tile(**tile).to(Block)
    early = _early(spec, w, depth) if early is None and plan.ways == 1 else early or ()
    early = (early,) if isinstance(early, str) else tuple(early)
    kept = _kept_beside(spec, wanted, plan)
    panel = plan.panel(span, w.stored, kept)
    chain = chain.epilog(
        memory=FR, store=_by_panels(w, panel, channels), early=[name for name in early if name not in wanted]
    )
    for name in wanted:
        chain = chain.load(name, SH, tma(_span(spec, w, name, SPANS[-1], channels)))
    chain = chain.split(w.depth, ways=plan.ways).parallel(Block) if plan.ways > 1 else chain
    chain = chain.split(None, **dict.fromkeys(w.taps, 1), **{w.depth: depth})
    deep = stages or max(2, plan.stages(span, w.stored, kept))
    chain = chain.pipeline(deep, inflight=int(not (w.computed or copying)))
    chain = chain.specialize(producers=COPIERS if copying else 1, registers=_registers(groups, copying))
    for role, row in ((w.images, span), (w.filters, _span(spec, w, w.filters, span, channels))):
        by_bulk = bulk_takes(spec, role)
        chain = chain.load(role, SH, tma(row)) if by_bulk else brought(chain, role, depth, w.nbytes, waits=True)
    rows, columns = pixels // groups, channels

    def by_groups(y: StepChain) -> Schedule:
        y = y.split(32 // w.nbytes).unroll()
        return (y if rows == 64 else y.tile(64, columns).unroll()).done("wgmma")

    return chain.tile(**part_of(box, groups)).to(Warpgroup).each(**{w.step: by_groups})


def _registers(groups: int, copying: bool) -> tuple[int, int] | None:
    """Return the register limits of a loading thread, which may hold copied data, and of a computing thread."""
    if copying:
        return {1: (80, 200), 2: (88, 168)}.get(groups)
    return {2: (24, 240), 3: (32, 160)}.get(groups)


def _most_registers(groups: int) -> int:
    """Return the registers of a computing thread."""
    limits = _registers(groups, copying=False)
    return MOST_REGISTERS if limits is None else limits[1]


def _held_at_once(spec: ProgramChain, w: Window, plan: Tiles) -> int:
    """Return the registers of a thread for its sums and for what is read after the products."""
    sums = plan.pixels * plan.channels // (plan.groups * WARPGROUP)
    folded = {ref.name for step in spec.computed.steps if step.fold is not None for ref in step.reads}
    given = {t.name for t in spec.computed.inputs} - folded
    total = sums
    for ref in {ref.name: ref for step in spec.computed.steps for ref in step.reads if ref.name in given}.values():
        dims = {d.name for d in ref.dims}
        # A quad of lanes shares the columns of a vector; what is loaded after the products, each of two rows has.
        columns = plan.channels // (QUAD if plan.ways == 1 else QUAD // 2) if w.column in dims else 1
        total += (sums if dims.intersection(w.pixels) else columns) * ref.dtype.nbytes // 4
    return total


def _early(spec: ProgramChain, w: Window, depth: int) -> tuple[str, ...]:
    """Choose the arrays to load before the products: vectors, and residuals if a tile has several chunks."""
    folded = {ref.name for step in spec.computed.steps if step.fold is not None for ref in step.reads}
    read = [ref for step in spec.computed.steps if step.fold is None for ref in step.reads]
    given = {t.name for t in spec.computed.inputs} - folded
    whole = spec.residual.extents[w.depth]
    short = isinstance(whole, int) and whole <= depth and all(spec.residual.extents[d] == 1 for d in w.taps)
    pixels = set(w.pixels)
    return tuple(
        dict.fromkeys(
            ref.name for ref in read if ref.name in given and not (short and pixels & {d.name for d in ref.dims})
        )
    )


def _by_panels(w: Window, columns: int, channels: int) -> Strategy:
    """Store `columns` columns of a tile at once, as whole lines through shared memory."""
    pad = 0 if w.across else pad_of(w.stored)  # lines of pixels are as many as a tile has channels
    if columns == channels:
        return through_shared(pad=pad)

    def store(move: MoveChain) -> Schedule:
        staged = move.tile(**{w.column: columns}).unroll().load(SRC, SH, conform())
        if swizzled(columns, channels, w.stored) and not w.across:
            return vector()(staged.swizzle(spread_lines(columns)))
        return vector()(staged.pad(pad))

    return store


def _plan(spec: ProgramChain, w: Window, given: dict[str, Any], copied: Sequence[str]) -> Tiles:
    """Choose the fastest tiles that agree with the given numbers and leave room for copied arrays, else usual sizes.

    Tiles with whose sums registers hold all that is read after the products come first.
    """
    found = ranked(spec, w)
    known = {name: x for name, x in given.items() if name != "span"}
    fits = [tiles for tiles in found if all(getattr(tiles, name) == x for name, x in known.items())]
    fits = [tiles for tiles in fits if _held_at_once(spec, w, tiles) <= _most_registers(tiles.groups)] or fits
    roomy = (tiles for tiles in fits if copied and _has_room(spec, w, copied, tiles))
    return next(roomy, next(iter(fits), Tiles()))


def _beside_few(spec: ProgramChain, w: Window) -> tuple[str, ...]:
    """List the residuals of a 1x1 convolution, if channels are so few that products do not hide their loads."""
    whole = spec.residual.extents[w.depth]
    few = isinstance(whole, int) and whole * w.nbytes <= FEW_CHUNKS * SPANS[-1]
    if not few or w.across or any(spec.residual.extents[d] != 1 for d in w.taps):
        return ()
    dims = {*w.pixels, w.column}
    read = [ref for step in spec.computed.steps if step.fold is None for ref in step.reads if ref.dims]
    given = {t.name for t in spec.computed.inputs}
    found = [ref.name for ref in read if ref.name in given and {d.name for d in ref.dims} >= dims]
    return tuple(name for name in dict.fromkeys(found) if bulk_takes(spec, name))


def _has_room(spec: ProgramChain, w: Window, copied: Sequence[str], tiles: Tiles) -> bool:
    """Say whether shared memory of a block has room for copied tiles of arrays, beside two chunks."""
    if tiles.runs or tiles.ways > 1:
        return False
    span = tiles.span or span_of(spec, w)
    return tiles.stages(span, w.stored, _kept_beside(spec, copied, tiles)) > 1


def _span(spec: ProgramChain, w: Window, role: str, span: int, channels: int) -> int:
    """Return the bytes of a buffer's rows: along the folded channels, or along columns if these are contiguous."""
    held = spec.residual.operand(role)
    assert held is not None
    return min(128, held.dtype.nbytes * channels) if held.dims[-1] == w.column else span


def _kept_beside(spec: ProgramChain, names: Sequence[str], plan: Tiles) -> int:
    """Return the bytes of shared memory for copied tiles of arrays: two of each if blocks loop over tiles."""
    found = (spec.residual.operand(name) for name in names)
    points = plan.pixels * plan.channels * (2 if plan.persistent else 1)
    return sum(points * held.dtype.nbytes for held in found if held is not None)


def _longest(spec: ProgramChain, box: dict[str, int]) -> str:
    """Return the dim of pixels with the most tiles."""
    extents = spec.residual.extents
    return max(box, key=lambda d: n // box[d] if isinstance(n := extents[d], int) else 0)


def _times(sizes: dict[str, int], dim: str, count: int) -> dict[str, int]:
    return {d: n * count if d == dim else n for d, n in sizes.items()}


def _channels(spec: ProgramChain, column: str, wanted: int) -> int:
    """Choose the channels of a block: whole groups, or a part of one group, so that its reads are a box."""
    most = tile_extent(spec.residual.extents[column], wanted)
    while most > 1 and None in spec.tile(**{column: most}).residual.extents.values():
        most //= 2
    return most


def _spread(sides: Sequence[str], sizes: dict[str, int], pixels: int) -> dict[str, int]:
    """Distribute a block's pixels among the sides of the image; the innermost side gets the most."""
    found: dict[str, int] = {}
    for i, side in enumerate(reversed(sides)):
        most = pixels if i == len(sides) - 1 else min(pixels, 16 if i == 0 else 4)
        found[side] = tile_extent(sizes.get(side), most)
        pixels //= found[side]
    return found
