"""Gradients of depthwise convolutions: of images as convolutions by flipped filters, of filters as sums over boxes.

The filters are flipped by their index map. Pixels of images whose positions have the same remainder by the stride (a
residue) are computed by one program, as in `conv_gradients`; `conv.channelwise` schedules it. The gradient of filters
folds boxes of pixels: a thread holds a box of y and the pixels of x that its windows read, and the sums of all taps of
its channels.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from operator import and_, or_
from typing import Any

from fireiron import (
    RF,
    SH,
    Block,
    FireironError,
    Group,
    Layout,
    ProgramChain,
    Schedule,
    Thread,
    Value,
    Warp,
    dim,
    einsum,
    extent,
    in_order,
    index,
    preset,
    program,
    space,
    vector,
    walks,
    where,
)
from fireiron.schedules._boxes import Places, Sums, best_box, best_places, divided, largest_vector
from fireiron.schedules._lanes import dealt
from fireiron.schedules._windows import Pads, Sizes, one, outputs, pair, whole

DTYPE = "f16"  # default element type on the command line


@program(y="n q k", f="k s c", bias="k")
def conv1d_residue_depthwise(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute a part of the gradient of the lines of a depthwise `conv1d`, as `conv2d_residue_depthwise` does."""
    return _residue("w", "s", "v", y, f, bias, size, place, dilation)


@program(y="n p q k", f="k r s c", bias="k")
def conv2d_residue_depthwise(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute the part of the gradient of a depthwise `conv2d`'s images that holds every stride-th row and column.

    The arguments are those of `conv_gradients.conv2d_residue`, for filters (K, R, S, 1).
    """
    return _residue("hw", "rs", "uv", y, f, bias, size, place, dilation)


@program(y="n o p q k", f="k t r s c", bias="k")
def conv3d_residue_depthwise(
    y: Value, f: Value, bias: Value | None = None, size: Sizes = 1, place: Sizes = 0, dilation: Sizes = 1
) -> Value:  # fmt: skip
    """Compute a part of the gradient of a depthwise `conv3d`'s volumes, as `conv2d_residue_depthwise` does."""
    return _residue("dhw", "trs", "euv", y, f, bias, size, place, dilation)


def _residue(
    inner: str, taps: str, visits: str, y: Value, f: Value, bias: Value | None, size: Sizes, place: Sizes,
    dilation: Sizes,
) -> Value:  # fmt: skip
    """Sum products of windows of y and filters; visit v, in the order of y's pixels, is tap T - 1 - v."""
    rank = len(inner)
    read: list[Value] = []
    held: list[Value] = []
    for axis, (i, tap, visit) in enumerate(zip(inner, taps, visits, strict=True)):
        apart, last = one(dilation, axis, rank), extent(tap) - 1
        visited = dim(visit, extent(tap))
        read.append(dim(i, one(size, axis, rank)) + apart * visited + (one(place, axis, rank) - apart * last))
        held.append(last - visited)
    x = einsum(f"n{inner}{visits}k,k{visits}c->n{inner}k", y[(slice(None), *read)], f[(slice(None), *held)])
    return x if bias is None else x + bias


@program(y="n q k", f="k s c")
def conv1d_data_gradient_depthwise(y: Value, f: Value, stride: Sizes = 1, pad: Pads = 0) -> Value:
    """Compute the gradient of a depthwise `conv1d`'s lines, as `conv2d_data_gradient_depthwise` does."""
    return _data_gradient("w", "m", "v", "q", "s", y, f, stride, pad)


@program(y="n p q k", f="k r s c")
def conv2d_data_gradient_depthwise(y: Value, f: Value, stride: Sizes = 1, pad: Pads = 0) -> Value:
    """Compute the gradient of a depthwise `conv2d`'s images, x[n, h, i, w, m, k] with row h * stride + i, column w, m.

    The result is a view (N, H / stride, stride, W / stride, stride, K) of images whose sides are multiples of the
    strides: one kernel computes the pixels of all residues, and reads y once.

    Args:
        y: the gradient of the convolution's result.
        f: the convolution's filters (K, R, S, 1).
        stride, pad: stride and padding of the convolution, whose dilation is 1.

    Raises:
        FireironError: `conv-sizes`, `conv-window`.
    """
    return _data_gradient("hw", "im", "uv", "pq", "rs", y, f, stride, pad)


def _data_gradient(
    inner: str, near: str, visits: str, outer: str, taps: str, y: Value, f: Value, stride: Sizes, pad: Pads
) -> Value:
    """Sum products of windows of y and filters; of the taps that a window visits, some are none of the filter's."""
    rank = len(inner)
    read: list[Any] = []
    held: list[Any] = []
    beyond: list[Any] = []
    tested = ""  # the dims that say whether a tap is the filter's
    for axis, side in enumerate(inner):
        step, reach = one(stride, axis, rank), extent(taps[axis])
        if not isinstance(reach, int):
            raise FireironError("conv-sizes", f"filters of {reach} taps", fix="give the number of taps as a number")
        before, _ = pair(pad, axis, rank)
        count = between(axis, rank, extent(outer[axis]), reach, stride, pad)
        # Window p reads row h * step + i at tap (h - p) * step + i + before: visit v is p = h - v + first.
        first = -(-before // step)
        visited = (reach - 1 - before + step * first) // step + 1
        visit = visited - 1 - dim(visits[axis], visited)
        read.append(dim(side, count) - visit + first)
        least = before - step * first
        tap = step * visit + dim(near[axis], step) + least
        held.append(tap)
        ends = ([tap < 0] if least < 0 else []) + ([tap >= reach] if step * visited + least > reach else [])
        beyond, tested = beyond + ends, tested + near[axis] * bool(ends)
    windows = y[(slice(None), *read)]
    if beyond:  # a product with a tap beyond the filter would not be 0 where y is infinite
        windows = where(reduce(or_, beyond), 0, windows)
    kept = "".join(i + m for i, m in zip(inner, near, strict=True))
    return einsum(f"n{inner}{visits}{tested}k,k{visits}{near}c->n{kept}k", windows, f[(slice(None), *held)])


def between(axis: int, rank: int, made: Any, taps: Any, stride: Sizes, pad: Pads) -> Any:
    """Return the number of windows' places along a side of images that is a multiple of the stride.

    Args:
        axis, rank: the side, and the number of sides.
        made, taps: pixels of y, and taps of a filter, along the side.
        stride, pad: stride and padding of the convolution.

    Raises:
        FireironError: `conv-sizes`, `conv-window`.
    """
    step, (before, behind) = one(stride, axis, rank), pair(pad, axis, rank)
    whole("stride", step, 1)
    least = (made - 1) * step + taps - before - behind
    if isinstance(least, int) and least < 1:
        raise FireironError(
            "conv-window",
            f"padding of {before} and {behind} leaves {least} pixels along side {axis}",
            fix="pad less: what is padded is cut off from the gradient",
        )
    return (least + step - 1) // step


DATA_GRADIENTS = {1: conv1d_data_gradient_depthwise, 2: conv2d_data_gradient_depthwise}  # arrays have six dims at most
RESIDUES = {1: conv1d_residue_depthwise, 2: conv2d_residue_depthwise, 3: conv3d_residue_depthwise}


@program(y="n j k", x="n w k")
def conv1d_filter_gradient_depthwise(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1, box: Sizes | None = None
) -> Value:
    """Compute the gradient of a depthwise `conv1d`'s filters, as `conv2d_filter_gradient_depthwise` does."""
    return _filter_gradient("w", "s", "q", "j", y, x, taps, stride, pad, dilation, box)


@program(y="n i j k", x="n h w k")
def conv2d_filter_gradient_depthwise(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1, box: Sizes | None = None
) -> Value:
    """Compute the gradient of a depthwise `conv2d`'s filters (K, R, S): a sum over boxes m, and over a box's pixels.

    A dim for boxes, which go through rows, columns and images, can be divided in any number of equal parts.

    Args:
        y: the gradient of the convolution's result.
        x: the convolution's images.
        taps: rows and columns of a filter.
        stride, pad, dilation: stride, padding and dilation of the convolution.
        box: rows and columns of y in a box; by default those for which a model has the shortest time.

    Raises:
        FireironError: `conv-sizes`, `conv-window`.
    """
    return _filter_gradient("hw", "rs", "pq", "ij", y, x, taps, stride, pad, dilation, box)


@program(y="n e i j k", x="n d h w k")
def conv3d_filter_gradient_depthwise(
    y: Value, x: Value, taps: Sizes, stride: Sizes = 1, pad: Pads = 0, dilation: Sizes = 1, box: Sizes | None = None
) -> Value:
    """Compute the gradient of a depthwise `conv3d`'s filters, as `conv2d_filter_gradient_depthwise` does."""
    return _filter_gradient("dhw", "trs", "opq", "eij", y, x, taps, stride, pad, dilation, box)


def _filter_gradient(
    inner: str, taps: str, outer: str, made: str, y: Value, x: Value, sizes: Sizes, stride: Sizes, pad: Pads,
    dilation: Sizes, box: Sizes | None,
) -> Value:  # fmt: skip
    """Sum products of y's pixels and windows of x over boxes, whose number m counts the last side fastest."""
    rank, ends = len(inner), [extent(name) for name in made]
    steps = [one(stride, axis, rank) for axis in range(rank)]
    apart = [one(dilation, axis, rank) for axis in range(rank)]
    reach = [one(sizes, axis, rank) for axis in range(rank)]
    zeros = [pair(pad, axis, rank) for axis in range(rank)]
    for axis, (tap, i) in enumerate(zip(taps, inner, strict=True)):
        wanted = outputs(tap, i, extent(i), reach[axis], steps[axis], apart[axis], zeros[axis])
        if isinstance(wanted, int) and isinstance(ends[axis], int) and wanted != ends[axis]:
            raise FireironError(
                "conv-sizes",
                f"y has {ends[axis]} pixels along side {axis}, and windows of {reach[axis]} over {extent(i)} pixels "
                f"give {wanted}",
                fix="describe y and x of one convolution, with its stride, padding and dilation",
            )
    if box is None:
        known = tuple(n if isinstance(n, int) else None for n in (extent("n"), *ends, extent("k")))
        box = best_box(known, reach, steps, apart, x.dtype.nbytes)
    boxes = [one(box, axis, rank) for axis in range(rank)]
    for size in boxes:
        whole("box", size, 1)
    counts = [-(-end // size) for end, size in zip(ends, boxes, strict=True)]
    each = extent("n")
    for count in counts:
        each = each * count
    number: Any = dim("m", each)
    places: list[Any] = []
    for axis in reversed(range(rank)):
        places.insert(0, number % counts[axis] * boxes[axis] + dim(outer[axis], boxes[axis]))
        number = number // counts[axis]
    for tap, size in zip(taps, reach, strict=True):
        dim(tap, size)
    read = [places[axis] * steps[axis] + index(taps[axis]) * apart[axis] - zeros[axis][0] for axis in range(rank)]
    left, right = y[(number, *places)], x[(number, *read)]
    beyond = [place < end for place, end, size in zip(places, ends, boxes, strict=True) if end % size]
    if beyond:  # of pixels beyond y no product is taken, since x may be infinite there
        right = where(reduce(and_, beyond), right, 0)
    return einsum(f"m{outer}k,m{outer}{taps}k->k{taps}", left, right)


FILTER_GRADIENTS = {
    1: conv1d_filter_gradient_depthwise, 2: conv2d_filter_gradient_depthwise, 3: conv3d_filter_gradient_depthwise
}  # fmt: skip


@preset
@space(rows=(1, 2, 4), pixels=(1, 2, 4), channels=(1, 2, 4), threads=(64, 128, 256))
def images(
    spec: ProgramChain, rows: int | None = None, pixels: int | None = None, channels: int | None = None,
    threads: int = 256,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of a depthwise convolution's images with strides: a thread has the pixels between windows.

    A thread computes all pixels between a few neighbouring windows, for which it reads y once. Filters are in shared
    memory, the channels of a tap next to each other, so that threads read vectors of them.

    Args:
        spec: `conv2d_data_gradient_depthwise`, or one of its kin.
        rows, pixels: numbers of windows of a thread along the side before the last and along the last one; by default
            those with the fewest instructions, if there are enough threads.
        channels: number of channels of a thread; by default 8 bytes of them.
        threads: most threads of a block.

    Raises:
        FireironError: `conv-product` for another program.
    """
    extents, step = spec.residual.extents, spec.computed.steps[0]
    mine = {ref.name for ref in step.reads} == {"y", "f"} and {"n", "k", "m"} <= {d.name for d in step.kept}
    found = walks(spec.computed, step.name, "y") if mine else None
    if not found:
        raise _misfit(spec, "gradient of a depthwise convolution's images with strides", "conv2d_data_gradient")
    sides, near = [*found], {d.name: extents[d.name] for d in step.kept if d.name not in ("n", "k", *found)}
    sizes = {d: n for d, n in extents.items() if isinstance(n, int)}
    nbytes = step.reads[0].dtype.nbytes
    channels = channels or largest_vector(sizes.get("k"), nbytes)
    places = Places(
        sizes.get("n", 1), tuple(sizes[d] for d in sides), sizes.get("k", channels),
        tuple(walk.reach for walk in found.values()), prod(n for n in near.values() if isinstance(n, int)), nbytes,
    )  # fmt: skip
    along = best_places(places, channels, rows, pixels)
    thread = {"n": 1, **dict(zip(sides, along, strict=True)), "k": channels}
    units = {d: -(-sizes[d] // n) if d in sizes else None for d, n in thread.items()}
    counts = dealt(spec, step.name, "y", units, thread, "k", threads, nbytes)
    block = {d: n * counts[d] for d, n in thread.items()}
    chain = spec.tile(**block, **near).to(Block).epilog(memory=RF)
    held = next(o.dims for o in chain.residual.operands if o.role == "f")
    taps = [chain.residual.extents[d] for d in held]
    strides = [1, *(block["k"] * prod(int(str(n)) for n in taps[i + 1 :]) for i in range(1, len(taps)))]
    chain = chain.load("f", SH).storage_layout(Layout(tuple(taps), tuple(strides)))
    chain = chain.tile(**thread, **near).to(Thread).load("f", RF, vector()).load("y", RF, vector())
    for d in step.over:
        chain = chain.split(None, **{d.name: 1}).unroll() if extents[d.name] != 1 else chain
    return chain.done()


def _misfit(spec: ProgramChain, wanted: str, program: str) -> FireironError:
    return FireironError(
        "conv-product",
        f"{spec.computed.name} is no {wanted}",
        fix=f"give {program}_depthwise(...), or one of its kin",
    )


@preset
@space(channels=(1, 2, 4), lanes=(4, 8, 16, 32), threads=(128, 256, 384))
def filters(
    spec: ProgramChain, channels: int | None = None, lanes: int | None = None, threads: int | None = None,
    ways: int | None = None, shared: bool = False,
) -> Schedule:  # fmt: skip
    """Schedule the gradient of a depthwise convolution's filters: threads keep the sums of all taps of their channels.

    Neighbouring lanes take neighbouring vectors of channels. Groups of lanes, and blocks, take equal numbers of boxes;
    a thread reads each box of y, and the pixels of x that its windows read, once into registers. The sums of lanes,
    warps and blocks are added in order: the same bits in every run. Arguments that are not given are chosen by the
    model of `_boxes`.

    Args:
        spec: `conv2d_filter_gradient_depthwise`, or one of its kin.
        channels: number of channels of a thread.
        lanes: number of threads side by side along channels: 4, 8, 16 or 32.
        threads: number of threads of a block, a multiple of 32.
        ways: number of blocks that share the boxes of their channels.
        shared: whether all blocks run at once, and each of the blocks that share boxes adds a part of the sums; else
            the last block adds them.

    Raises:
        FireironError: `conv-product` for another program.
    """
    extents, step = spec.residual.extents, spec.computed.steps[0]
    mine = {ref.name for ref in step.reads} == {"y", "x"} and "m" in {d.name for d in step.over}
    if not mine or step.kept[0].name != "k":
        raise _misfit(spec, "gradient of a depthwise convolution's filters", "conv2d_filter_gradient")
    one_box = spec.tile(k=1).split(m=1).residual
    held = {o.role: prod(n for d in o.dims if isinstance(n := one_box.extents[d], int)) for o in one_box.operands}
    taps = prod(n for d in step.kept[1:] if isinstance(n := extents[d.name], int))
    boxes, width = extents["m"], extents["k"]
    partial = step.computes_factor
    sums = Sums(
        boxes if isinstance(boxes, int) else None, width if isinstance(width, int) else None, taps, held["y"],
        held["x"], step.reads[0].dtype.nbytes, partial,
    )  # fmt: skip
    _, division = divided(sums, channels, lanes, threads, ways)
    chain = spec.tile(k=division.lanes * division.channels).to(Block)
    if division.ways > 1:
        chain = chain.split("m", ways=division.ways).parallel(Block, in_order(shared=shared))
    chain = chain.epilog(memory=RF).split("m", ways=division.threads // division.lanes)
    chain = chain.parallel(Warp if division.lanes == Warp.size else Group(Thread, division.lanes))
    chain = chain.tile(k=division.channels).to(Thread).split(m=1)
    return chain.load("y", RF, vector()).load("x", RF, vector()).done()
