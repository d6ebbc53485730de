"""Shared by schedules of convolutions on tensor cores: the dims of a convolution, and boxes of pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import gcd, prod

import attrs

from fireiron import (
    SH,
    FireironError,
    ProgramChain,
    RowMajor,
    Strategy,
    Swizzle,
    cp_async,
    fuse,
    staged,
    walks,
)


@attrs.frozen
class Window:
    """Name the dims and arrays of a program's product of windows and filters.

    Args:
        step: name of the product's step.
        pixels: dims of the images only: the image's number and its sides.
        column: the dim of the filters only.
        batch: kept dims that images and filters both have (groups); a block takes one index of each.
        taps: the folded dims except the last.
        depth: the last folded dim, the channels, along which arrays are contiguous.
        images, filters: roles of the arrays.
        nbytes: bytes of an element of images and filters in the product.
        stored: bytes of an element of the result.
        across: whether the result's last dim is not `column`, as with channels first.
        computed: whether a function, such as a batch norm, is applied to the images before the product.
        beside: roles of the arrays that this function reads.
    """

    step: str
    pixels: tuple[str, ...]
    column: str
    batch: tuple[str, ...]
    taps: tuple[str, ...]
    depth: str
    images: str
    filters: str
    nbytes: int
    stored: int
    across: bool = False
    computed: bool = False
    beside: tuple[str, ...] = ()


def window_of(spec: ProgramChain) -> Window:
    """Find the product of windows and filters.

    Raises:
        FireironError: `conv-product` for a program without such a product, or whose groups are no dim.
    """
    step = next((s for s in spec.computed.steps if s.is_product), None)
    if step is None or {d.name for d in step.kept} <= {d.name for d in step.reads[0].dims}:
        raise FireironError(
            "conv-product",
            f"{spec.computed.name} folds no product of two arrays that each have a dim of their own",
            fix="groups on tensor cores are a dim of their own: conv2d_grouped; others run by conv.simt",
        )
    kept = [d.name for d in step.kept]
    over = [d.name for d in step.over]
    dims = {ref.name: {d.name for d in ref.dims} for ref in step.reads}
    images = step.reads[0].name
    column = next((d for d in reversed(kept) if d not in dims[images]), "")
    filters = next((name for name in dims if column in dims[name]), "")
    left, right = dims[images], dims.get(filters, set[str]())
    if not column or (sum(d not in right for d in kept) < 2 and len(over) < 2):
        raise FireironError(
            "conv-product",
            f"{spec.computed.name} has no product of images, of two sides or more, and filters",
            fix="give a convolution of schedules.conv; products of matrices are matmul's",
        )
    made = {out.name for out in spec.computed.outputs}
    results = [out for s in spec.computed.steps for out in s.outs if out.name in made]
    return Window(
        step.name,
        tuple(d for d in kept if d not in right),
        column,
        tuple(d for d in kept if d in left and d in right),
        tuple(over[:-1]),
        over[-1],
        images,
        filters,
        step.reads[0].dtype.nbytes,
        max(out.dtype.nbytes for out in spec.computed.outputs),
        any(ref.dims[-1].name != column for ref in results),
        step.computes_factor,
        tuple(name for name in dims if name not in (images, filters)),
    )


def box_of(spec: ProgramChain, dims: tuple[str, ...], pixels: int, parts: int = 1, least: int = 1) -> dict[str, int]:
    """Choose the box of `pixels` pixels with the fewest pixels beyond the images' ends.

    Of equally good boxes, the one with the fewest images is chosen, whose windows overlap most.

    Args:
        spec: the program.
        dims: the images' number first, then the sides.
        pixels: number of pixels of a box.
        parts: number of units that share the box; each takes a box that is contiguous in the buffer.
        least: fewest pixels along the last side; a shorter side is not cut.

    Raises:
        FireironError: `conv-tile` where there is no such box.
    """
    extents = spec.residual.extents
    known = tuple(n if isinstance(n := extents[d], int) else None for d in dims)
    return dict(zip(dims, _best(known, pixels, parts, least), strict=True))


RUN = "m"  # the dim of a program whose pixels are fused into one
# By the rank of images: corners of a copy in im2col mode lie from -n to n - 1, and offsets below m, for (n, m).
IM2COL = {3: (1 << 15, 1 << 16), 4: (1 << 7, 1 << 8), 5: (1 << 4, 1 << 5)}
MOST_STEP = 8


def strided(spec: ProgramChain, w: Window) -> bool:
    """Say whether windows have a stride of more than 1."""
    return any(walk.step > 1 for walk in (walks(spec.computed, w.step, w.images) or {}).values())


def by_runs(spec: ProgramChain, w: Window) -> ProgramChain | None:
    """Return the program with its pixels fused to one dim, for tensor maps in im2col mode.

    Args:
        spec: the program.
        w: the program's product.

    Returns:
        The program; None where pixels are not contiguous in the results, or no tensor map can load the windows.
    """
    found, held = walks(spec.computed, w.step, w.images), spec.residual.operand(w.images)
    if found is None or held is None or w.batch or w.computed or w.across or len(w.pixels) != len(found) + 1:
        return None
    if RUN in spec.residual.extents or len(held.tensor.shape) not in IM2COL:
        return None
    corner, offset = IM2COL[len(held.tensor.shape)]
    for walk in found.values():
        ends = [end + min(0, walk.reach) for end in (walk.first, walk.last)]
        if not (
            -corner <= min(ends) and max(ends) < corner and abs(walk.reach) < offset and 1 <= walk.step <= MOST_STEP
        ):
            return None
    try:
        return fuse(spec, **{RUN: " ".join(w.pixels)})
    except FireironError:
        return None


MOST_IMAGES = 256  # most images of a tensor map's box
MOST_SIDE = 64  # most pixels along a side of such a box, where every fourth pixel is taken


@cache
def _best(extents: tuple[int | None, ...], pixels: int, parts: int, least: int) -> tuple[int, ...]:
    found = [sizes for sizes in _boxes(len(extents), pixels) if prod(cut_slowest(sizes, parts)) * parts == pixels]
    least = least if extents[-1] is None else min(least, extents[-1])
    found = [sizes for sizes in found if sizes[-1] >= least] or found

    def cost(sizes: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        visited = prod(
            (-(-n // size) * size / n if n is not None else 1.0) for n, size in zip(extents, sizes, strict=True)
        )  # fmt: skip
        return round(visited, 6), sizes

    if not found:
        raise FireironError(
            "conv-tile",
            f"no box of {pixels} pixels has {parts} equal parts that lie together, and sides of at most {MOST_SIDE}",
            fix="give pixels= a power of two that each warp or warpgroup can cut into rows of its instruction",
        )
    return min(found, key=cost)


@cache
def _boxes(rank: int, pixels: int) -> tuple[tuple[int, ...], ...]:
    """List the boxes with a number of pixels: extents of images first, then of sides."""
    sides = [n for n in range(1, max(MOST_IMAGES, MOST_SIDE) + 1) if pixels % n == 0]
    every = product(sides, *([n for n in sides if n <= MOST_SIDE] for _ in range(rank - 1)))
    return tuple(sizes for sizes in every if prod(sizes) == pixels)


def whole_boxes(extents: Sequence[int], pixels: Sequence[int]) -> list[tuple[tuple[int, ...], int]]:
    """Return, for each number of pixels, the box with the fewest trips; its number of images divides the tensor's.

    Args:
        extents: images first, then sides.
        pixels: numbers of pixels of a box.

    Returns:
        The boxes, each with the number of trips that visit all pixels.
    """
    found: list[tuple[tuple[int, ...], int]] = []
    for count in pixels:
        boxes = [box for box in _boxes(len(extents), count) if extents[0] % box[0] == 0]
        visits = [(prod(-(-n // size) for n, size in zip(extents, box, strict=True)), box) for box in boxes]
        if visits:
            trips, box = min(visits)
            found.append((box, trips))
    return found


def tile_extent(size: object, most: int) -> int:
    """Choose a tile's extent along a dim: a power of two, at most `most`, and no larger than the dim needs."""
    return min(most, 1 << (size - 1).bit_length()) if isinstance(size, int) else most


def cut_slowest(sizes: tuple[int, ...], parts: int) -> tuple[int, ...]:
    """Cut a box into parts along its outermost sides, so that each part is contiguous."""
    made = list(sizes)
    for i, size in enumerate(sizes):
        shared = gcd(size, parts)
        made[i], parts = size // shared, parts // shared
        if made[i] > 1:
            break
    return tuple(made)


def part_of(box: Mapping[str, int], parts: int) -> dict[str, int]:
    """Return the extents of one of the equal parts of a box, which is contiguous in the block's buffer."""
    return dict(zip(box, cut_slowest(tuple(box.values()), parts), strict=True))


def spread_lines(depth: int, nbytes: int = 2) -> Swizzle:
    """Return a swizzle by which eight consecutive lines of a chunk start in different banks.

    Args:
        depth: elements of a line.
        nbytes: bytes of an element.
    """
    vectors, vector = depth * nbytes // 16, (16 // nbytes).bit_length() - 1
    return Swizzle(min(3, vectors.bit_length() - 1), vector, 3)


def lies_across(chain: ProgramChain, role: str) -> bool:
    """Say whether an array's contiguous dim is not its last dim."""
    held = chain.residual.operand(role)
    return held is not None and held.tensor.strides[-1] != 1


def bulk_takes(chain: ProgramChain, role: str) -> bool:
    """Say whether bulk copies take an array: lines of channels, at multiples of 16 bytes, in at most five dims."""
    held = chain.residual.operand(role)
    few = held is None or len(held.tensor.shape) <= MOST_DIMS
    return few and not lies_across(chain, role) and _pitch(chain, role) % 16 == 0


def _pitch(chain: ProgramChain, role: str) -> int:
    """Return the largest number of bytes, at most 16, that divides all strides between an array's lines."""
    held = chain.residual.operand(role)
    if held is None:
        return 16
    return gcd(16, *(n * held.dtype.nbytes for n in held.tensor.strides[:-1] if isinstance(n, int)))


MOST_DIMS = 5  # most dims of a tensor map
COPIERS = 2  # warpgroups that load, where threads copy
HELD = 32  # vectors that each thread of these warpgroups holds
WARPGROUP = 128
SHORTEST = 8  # fewest pixels of a row that threads read together, and for f16 store together


def copied_span(spec: ProgramChain, w: Window, pixels: int, channels: int) -> int:
    """Choose the bytes of a chunk's rows so that the copying threads' registers hold them; 128 if none fit.

    Args:
        spec: the program.
        w: the program's product.
        pixels, channels: numbers of pixels and filters of a block's tile.
    """
    copied = [(role, n) for role, n in ((w.images, pixels), (w.filters, channels)) if not bulk_takes(spec, role)]
    vectors = sum(n / (w.nbytes if lies_across(spec, role) else _pitch(spec, role)) for role, n in copied)
    return next((n for n in (128, 64) if vectors * n <= HELD * COPIERS * WARPGROUP), 32)


def least_side(spec: ProgramChain, w: Window) -> int:
    """Return the least number of pixels of a box along the last side: more than 1 where pixels are contiguous."""
    return SHORTEST if w.across or lies_across(spec, w.images) else 1


def refuse_cut(spec: ProgramChain, w: Window, depth: int) -> None:
    """Refuse chunks of channels into which a bulk copy would also load channels of the next group.

    Args:
        spec: the program.
        w: the program's product.
        depth: number of channels of a chunk.

    Raises:
        FireironError: `conv-cut`.
    """
    extent = spec.residual.extents[w.depth]
    for role in (w.images, w.filters):
        held = spec.residual.operand(role)
        if held is not None and w.depth not in held.dims and (not isinstance(extent, int) or extent % depth):
            raise FireironError(
                "conv-cut",
                f"{w.depth}: {extent} is no whole number of chunks of {depth}, and behind it {role} is read on along "
                f"{held.dims[-1]}: bulk copies end only where the tensor ends",
                fix="use conv.mma, or read a dim of groups of its own, as conv2d_grouped does",
            )


def by_lines(chain: ProgramChain, role: str) -> Strategy:
    """Copy lines along an array's last dim: asynchronously, or through registers for vectors of less than 4 bytes."""
    return staged() if _pitch(chain, role) % 4 else cp_async()


def brought(chain: ProgramChain, role: str, lines: int, nbytes: int, waits: bool = False) -> ProgramChain:
    """Load an array to shared memory in lines along its last dim, by a copy that fits its strides.

    If the last dim is contiguous in global memory, asynchronous copies move vectors of it, or threads do if vectors
    have fewer than 4 bytes. If another dim is contiguous, as with channels first, threads transpose through registers.

    Args:
        chain: the chain.
        role: the array's role.
        lines: number of elements of a line of the buffer, along the folded dim.
        nbytes: bytes of an element.
        waits: whether the loading threads do nothing else, so that they may copy through registers.
    """
    held = chain.residual.operand(role)
    copy = staged() if waits else by_lines(chain, role)
    copy = staged(along=held.dims[-1]) if held is not None and lies_across(chain, role) else copy
    return chain.load(role, SH, copy).storage_layout(RowMajor).swizzle(spread_lines(lines, nbytes))
