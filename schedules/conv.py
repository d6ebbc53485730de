"""Convolutions and pooling as programs of index maps, and schedules for CUDA cores and tensor cores.

Arrays have channels last: (N, H, W, C), and (K, R, S, C) for filters. For channels first, give arrays with such
strides, and `channels_first=True` for the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod

from fireiron import (
    FR,
    RF,
    SH,
    Block,
    Cluster,
    FireironError,
    ProgramChain,
    Schedule,
    StepChain,
    Thread,
    Value,
    Warp,
    Warpgroup,
    conform,
    cp_async,
    ldmatrix,
    preset,
    program,
    space,
    staged,
    through_shared,
    tma,
    vector,
)
from fireiron.schedules._convolved import Before, convolved, grouped, largest, mean_of, transposed
from fireiron.schedules._few_channels import PAD, STEP, TILE, begin_even, by_rows, kept
from fireiron.schedules._few_channels import lead_of as lead_of
from fireiron.schedules._hopper_convolutions import SPANS, chosen
from fireiron.schedules._lanes import dealt
from fireiron.schedules._pixel_clocks import ROWS, Tiles, ranked
from fireiron.schedules._pixels import (
    COPIERS,
    box_of,
    brought,
    bulk_takes,
    lies_across,
    part_of,
    tile_extent,
    window_of,
)
from fireiron.schedules._strips import MOST_OF_WINDOWS, Strip, apart, strips
from fireiron.schedules._tensor_cores import by_fragments
from fireiron.schedules._window_folds import (
    Fold,
    block_channels,
    box_of_windows,
    fold_of,
    is_dense,
    row_of_windows,
    run_of,
    spread,
)
from fireiron.schedules._windows import Pads, Sizes

STEPPED, STEPPED_NBYTES = 4, 8  # pixels of a thread, and bytes of its channels, where windows are apart
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
    return by_rows(x, f, bias, residual, stride, pad, op, scale, channels, lead)


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
    return transposed(y, f, stride, pad, more)


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
    fold = fold_of(spec, "conv.simt", kept_by_images=False)
    column, last = fold.column, fold.sides[-1]
    block = {"n": 1, column: block_channels(spec, column, channels), **spread(fold.sides, fold.sizes, pixels)}
    thread = {d: 1 for d in block} | {column: gcd(4, block[column]), last: gcd(4, block[last])}
    chain = spec.tile(**block).to(Block).epilog(memory=RF)
    inner = next((d for d in ("c", "k") if d in fold.over), None)
    if inner is not None:
        chain = chain.split(None, **{inner: min(depth, fold.sizes.get(inner, depth))})
    inputs = [o.role for o in spec.residual.operands if o.tensor.name in fold.reads]
    for role in inputs:
        chain = chain.load(role, SH)
    chain = chain.tile(**thread).to(Thread)
    for d in fold.over:
        chain = chain.split(None, **{d: 1})
    for operand in chain.residual.operands if fold.is_product else ():
        # Where a quotient says what a thread reads, that is no box: it is read in place.
        if operand.role in inputs and None not in [chain.residual.extents[d] for d in operand.dims]:
            chain = chain.load(operand.role, RF, conform())
    return chain.done()


@preset
@space(pixels=(1, 2, 4, 7, 8), threads=(64, 128, 256), most_taps=(1, 9, 25), rows=(1, 2, 4, 7), channels=(2, 4, 8))
def channelwise(
    spec: ProgramChain, pixels: int | None = None, threads: int = 128, most_taps: int | None = None,
    rows: int | None = None, channels: int | None = None, dependent: bool = False, shared: bool | None = None,
) -> Schedule:  # fmt: skip
    """Schedule a fold over windows that keeps the images' channels, as depthwise convolutions and pooling do.

    Neighbouring lanes take neighbouring vectors of channels. For a convolution, a thread computes a strip of results,
    several pixels of several rows: it reads the strip's windows, with their halo, and its channels' filters once into
    registers. Arguments that are not given are chosen by the model of `_strips`.

    For pooling, for windows with strides above 1, and where registers do not hold the windows, a thread has a run of
    pixels along the last side. The thread reads each row of its windows once into registers; for several rows of
    results it reads all rows of windows first. Threads are distributed so that few lie outside the images. With several
    filters per channel, or channels that are not contiguous, elements are read one by one.

    Args:
        spec: a depthwise convolution or a pooling of this module, or a program whose fold has the same dims.
        pixels: number of pixels of a thread's row of results. For runs by default 4, or 7 for windows with stride 1 if
            such runs reach less beyond the side, and for windows whose rows are read one at a time.
        threads: most threads of a block.
        most_taps: the most taps of windows that are read as a whole before the fold, if registers hold them; larger
            windows are read row by row. By default 9 for runs, and any number for strips.
        rows: number of rows of a thread's results, along the side before the last; for runs 1 by default, and where
            registers do not hold the windows of several rows.
        channels: number of channels of a thread; for runs by default 16 bytes of them, at most 8, or 8 bytes for
            windows with strides above 1.
        dependent: whether the kernel may begin before the launch before it in the stream has ended, as in `wgmma`.
        shared: for strips, whether a block copies its filters to shared memory, from which threads read them. By
            default where the taps of a filter do not lie together, so that threads would read them one by one.

    Raises:
        FireironError: `conv-program` for another program.
    """
    fold = fold_of(spec, "conv.channelwise", kept_by_images=True)
    taps = prod(fold.sizes.get(d, 1) for d in fold.over)
    held = strips(spec, fold, threads, rows, pixels, channels) if taps <= (most_taps or taps) else []
    if held:
        return by_strips(spec, fold, held[0], threads, dependent, shared)
    if fold.is_product and apart(spec, fold):
        pixels, channels = pixels or STEPPED, channels or max(1, STEPPED_NBYTES // fold.nbytes)
    return by_runs_of_rows(spec, fold, pixels, threads, most_taps or 9, rows or 1, channels, dependent)


def by_strips(
    spec: ProgramChain, fold: Fold, strip: Strip, threads: int, dependent: bool = False, shared: bool | None = None
) -> Schedule:
    """Schedule a fold whose threads hold the windows of a strip of results in registers.

    Args:
        spec: the program.
        fold: its fold over windows.
        strip: the results of a thread.
        threads: most threads of a block.
        dependent, shared: as in `channelwise`.
    """
    of_side = dict(zip(reversed(fold.sides), (strip.pixels, strip.rows), strict=False))
    thread = {"n": 1, **dict.fromkeys(fold.sides, 1), **of_side, fold.column: strip.channels}
    chain = spec.tile(**block_of(spec, fold, thread, threads)).to(Block)
    chain = (chain.dependent() if dependent else chain).epilog(memory=RF)
    held = {o.role: o.tensor for o in spec.residual.operands}
    if shared is None:
        shared = not all(is_dense(held[name]) for name in fold.beside)
    for name in fold.beside if shared else ():
        chain = chain.load(name, SH)
    chain = chain.tile(**thread).to(Thread)
    # Pixels arrive while a block copies its filters.
    for name in (fold.images, *fold.beside) if shared else (*fold.beside, fold.images):
        chain = chain.load(name, RF, vector())
    for d in fold.over:
        chain = chain.split(None, **{d: 1}).unroll() if fold.sizes.get(d) != 1 else chain
    return chain.done()


def by_runs_of_rows(
    spec: ProgramChain, fold: Fold, pixels: int | None, threads: int, most_taps: int, rows: int, channels: int | None,
    dependent: bool = False,
) -> Schedule:  # fmt: skip
    """Schedule a fold whose threads read the windows of a run of pixels row by row, or all rows of few taps first.

    Args:
        spec: the program.
        fold: its fold over windows.
        pixels, threads, most_taps, rows, channels, dependent: as in `channelwise`.
    """
    column, sides, sizes = fold.column, fold.sides, fold.sizes
    taps = [d for d in fold.over if sizes.get(d) != 1]
    few = prod(sizes.get(d, 1) for d in taps) <= most_taps
    pixels = pixels or (run_of(sizes.get(sides[-1]), spec, fold.step, fold.images) if few else 7)
    thread = {"n": 1, **dict.fromkeys(sides, 1)}
    thread[column] = tile_extent(sizes.get(column), channels or min(8, 16 // fold.nbytes))
    thread[sides[-1]] = tile_extent(sizes.get(sides[-1]), pixels)
    if len(sides) > 1 and few:
        thread[sides[-2]] = tile_extent(sizes.get(sides[-2]), rows)
        if box_of_windows(spec, fold, thread) * fold.nbytes > MOST_OF_WINDOWS * 4:
            thread[sides[-2]] = 1
    chain = spec.tile(**block_of(spec, fold, thread, threads)).to(Block)
    chain = (chain.dependent() if dependent else chain).epilog(memory=RF)
    for name in fold.beside:
        chain = chain.load(name, SH)
    chain = chain.tile(**thread).to(Thread)
    ahead = prod(sizes.get(d, most_taps + 1) for d in taps) <= most_taps
    whole = any(thread[d] > 1 for d in sides[:-1])
    box = None if whole else row_of_windows(chain, fold.images, taps[:-1])
    if whole:
        chain = chain.load(fold.images, RF, vector())
    if box is not None:
        ahead = ahead and box * prod(sizes.get(d, 1) for d in taps[:-1]) * fold.nbytes <= AHEAD_NBYTES
    for d in taps[:-1]:
        chain = chain.split(None, **{d: 1})
        chain = chain.unroll() if ahead else chain
    if box is not None:
        chain = chain.load(fold.images, RF, vector())
    if taps:
        chain = chain.split(None, **{taps[-1]: 1}).unroll()
    for name in fold.beside:
        chain = chain.load(name, RF, vector())
    return chain.done()


def block_of(spec: ProgramChain, fold: Fold, thread: dict[str, int], threads: int) -> dict[str, int]:
    """Choose the tile of a block, a whole number of threads' results along each dim.

    Args:
        spec: the program.
        fold: its fold over windows.
        thread: by dim, the results of a thread.
        threads: most threads of a block.
    """
    units = {d: -(-fold.sizes[d] // n) if d in fold.sizes else None for d, n in thread.items()}
    counts = dealt(spec, fold.step, fold.images, units, thread, fold.column, threads, fold.nbytes)
    return {d: n * counts[d] for d, n in thread.items()}


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
    if w.computed and alone and kept(channels, prod(lines), depth):
        chain = chain.persistent().pipeline(stages or 3).epilog(memory=FR, store=through_shared(pad=8))
        chain = chain.load(w.images, SH, cp_async() if begin_even(spec, w) else staged())
        chain = chain.load(w.filters, SH, staged()).pad(PAD).split(None, **chunk)
    else:
        chain = (
            chain.epilog(memory=FR, store=through_shared(pad=8, reuse=True)).split(None, **chunk).pipeline(stages or 2)
        )
        chain = chain.load(w.images, SH, staged()).load(w.filters, SH, staged()).pad(PAD)

    chain = chain.tile(**part_of(box, pixels // rows), **{w.column: columns}).to(Warp)
    return chain.each(**{w.step: lambda y: by_fragments(y, "B")})


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

    In persistent blocks, each warpgroup of more than 64 pixels stores its part of a tile by bulk stores if they take
    the result: 16-bit elements, channels last, lines at multiples of 16 bytes.

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
    given = {
        name: x
        for name, x in (
            ("pixels", pixels), ("channels", channels), ("cluster", cluster), ("groups", groups),
            ("persistent", persistent), ("ways", ways), ("runs", runs), ("span", span),
        )
        if x is not None
    }  # fmt: skip
    choice = chosen(spec, plan, given, stages, early, copied)
    w, plan, alone = choice.w, choice.plan, choice.plan.cluster == 1
    chain = choice.spec.tile(**(choice.tile if alone else choice.cluster)).to(Block if alone else Cluster)
    chain = chain.persistent() if plan.persistent else chain
    chain = chain.dependent() if dependent else chain
    chain = chain if alone else chain.tile(**choice.tile).to(Block)
    chain = chain.epilog(memory=FR, store=choice.store, early=choice.early)
    for name in choice.copied:
        chain = chain.load(name, SH, tma(choice.row(name, SPANS[-1])))
    chain = chain.split(w.depth, ways=plan.ways).parallel(Block) if plan.ways > 1 else chain
    chain = chain.split(None, **dict.fromkeys(w.taps, 1), **{w.depth: choice.depth})
    chain = chain.pipeline(choice.stages, inflight=int(not (w.computed or choice.copying)))
    chain = chain.specialize(producers=COPIERS if choice.copying else 1, registers=choice.registers)
    for role, row in ((w.images, choice.span), (w.filters, choice.row(w.filters, choice.span))):
        by_bulk = bulk_takes(choice.spec, role)
        chain = chain.load(role, SH, tma(row)) if by_bulk else brought(chain, role, choice.depth, w.nbytes, waits=True)

    def by_groups(y: StepChain) -> Schedule:
        y = y.split(32 // w.nbytes).unroll()
        one_row = plan.pixels // plan.groups == ROWS
        return (y if one_row else y.tile(ROWS, plan.channels).unroll()).done("wgmma")

    return chain.tile(**part_of(choice.box, plan.groups)).to(Warpgroup).each(**{w.step: by_groups})
