"""What schedules for convolutions on tensor cores share: which dims are pixels, and boxes that fit the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import gcd, prod

import attrs

from fireiron import SH, FireironError, ProgramChain, RowMajor, Swizzle, cp_async, fuse, staged, walks


@attrs.frozen
class Window:
    """Name the parts of a program's product: the one fold that is a matrix product of windows and filters.

    Args:
        step: its name.
        pixels: dims of the images alone: the number of the image, and its sides.
        column: the dim of the filters alone.
        batch: dims that both have, of which a block takes one each.
        taps: folded dims but the last.
        depth: the last of them, along which arrays are contiguous.
        images, filters: the roles of the arrays.
        nbytes: bytes of an element of images and filters in the product.
        stored: bytes of an element of the result.
        across: whether the result's last dim is another than the column, as where it lies channels first.
        computed: whether something is computed of the images' elements ahead of the product, as of a batch norm.
        beside: the roles of arrays that it is computed with.
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
        FireironError: `conv-product` where there is none, or where groups are not dims of their own.
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


def box_of(spec: ProgramChain, dims: tuple[str, ...], pixels: int, parts: int = 1) -> dict[str, int]:
    """Choose a box of as many pixels: the one that reaches least beyond the ends.

    Of equal ones, the box with the fewest images has the most pixels in common between its windows.

    Args:
        spec: the program.
        dims: images first, then their sides.
        pixels: of a box.
        parts: units that share the box, of each a box that lies together.

    Raises:
        FireironError: `conv-tile` where there is no such box.
    """
    extents = spec.residual.extents
    known = tuple(n if isinstance(n := extents[d], int) else None for d in dims)
    return dict(zip(dims, _best(known, pixels, parts), strict=True))


RUN = "m"  # the dim of a program whose pixels are fused into one
# By the rank of images, the corners of what a copy in im2col mode visits, from -n to n - 1, and its offsets, below.
IM2COL = {3: (1 << 15, 1 << 16), 4: (1 << 7, 1 << 8), 5: (1 << 4, 1 << 5)}
MOST_STEP = 8


def strided(spec: ProgramChain, w: Window) -> bool:
    """Say whether windows take every n-th pixel."""
    return any(walk.step > 1 for walk in (walks(spec.computed, w.step, w.images) or {}).values())


def by_runs(spec: ProgramChain, w: Window) -> ProgramChain | None:
    """Give the program with its pixels as one dim, of which tensor maps in im2col mode take any run.

    Args:
        spec: the program.
        w: its product.

    Returns:
        None where pixels do not lie together in the results, or no map takes what windows read.
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


MOST_IMAGES = 256  # of a box of a tensor map
MOST_SIDE = 64  # pixels along a side of it, where every fourth is taken


@cache
def _best(extents: tuple[int | None, ...], pixels: int, parts: int) -> tuple[int, ...]:
    found = [sizes for sizes in _boxes(len(extents), pixels) if prod(cut_slowest(sizes, parts)) * parts == pixels]

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
    """List the boxes of so many pixels: images first, then sides."""
    sides = [n for n in range(1, max(MOST_IMAGES, MOST_SIDE) + 1) if pixels % n == 0]
    every = product(sides, *([n for n in sides if n <= MOST_SIDE] for _ in range(rank - 1)))
    return tuple(sizes for sizes in every if prod(sizes) == pixels)


def whole_boxes(extents: Sequence[int], pixels: Sequence[int]) -> list[tuple[tuple[int, ...], int]]:
    """List the box with the fewest trips for each number of pixels; its images must divide the tensor's images.

    Args:
        extents: images first, then sides.
        pixels: numbers of pixels, each of a box.

    Returns:
        The boxes, and how many such boxes visit all pixels.
    """
    found: list[tuple[tuple[int, ...], int]] = []
    for count in pixels:
        boxes = [box for box in _boxes(len(extents), count) if extents[0] % box[0] == 0]
        visits = [(prod(-(-n // size) for n, size in zip(extents, box, strict=True)), box) for box in boxes]
        if visits:
            trips, box = min(visits)
            found.append((box, trips))
    return found


def cut_slowest(sizes: tuple[int, ...], parts: int) -> tuple[int, ...]:
    """Cut a box into parts along its slowest sides, as far as whole sides above leave each part together."""
    made = list(sizes)
    for i, size in enumerate(sizes):
        shared = gcd(size, parts)
        made[i], parts = size // shared, parts // shared
        if made[i] > 1:
            break
    return tuple(made)


def part_of(box: Mapping[str, int], parts: int) -> dict[str, int]:
    """Give one of the equal parts of a box, which lies together in the block's buffer."""
    return dict(zip(box, cut_slowest(tuple(box.values()), parts), strict=True))


def spread_lines(depth: int, nbytes: int = 2) -> Swizzle:
    """Let eight lines of a chunk start in as many banks.

    Args:
        depth: elements of a line.
        nbytes: of an element.
    """
    vectors, vector = depth * nbytes // 16, (16 // nbytes).bit_length() - 1
    return Swizzle(min(3, vectors.bit_length() - 1), vector, 3)


def lies_across(chain: ProgramChain, role: str) -> bool:
    """Say whether an array is contiguous along another dim than its last one."""
    held = chain.residual.operand(role)
    return held is not None and held.tensor.strides[-1] != 1


def refuse_across(spec: ProgramChain, w: Window) -> None:
    """Refuse arrays whose lines of channels no bulk copy takes.

    Raises:
        FireironError: `conv-across`.
    """
    for role in (w.images, w.filters):
        if lies_across(spec, role):
            held = spec.residual.operand(role)
            raise FireironError(
                "conv-across",
                f"{role} has a stride of {held and held.tensor.strides[-1]} along its last dim, and bulk copies take "
                "lines along it",
                fix="use conv.mma, which transposes on the way, or arrays that lie channels last",
            )


def refuse_cut(spec: ProgramChain, w: Window, depth: int) -> None:
    """Refuse chunks of channels that a bulk copy would fill with channels of another group.

    Args:
        spec: the program.
        w: its product.
        depth: channels of a chunk.

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


def brought(chain: ProgramChain, role: str, lines: int, nbytes: int) -> ProgramChain:
    """Load an array to shared memory in lines along its last dim, by the copy that its strides allow.

    Where the last dim is contiguous in global memory, asynchronous copies take vectors of it; where another dim is, as
    in arrays that lie channels first, threads transpose on the way.

    Args:
        chain: whose array.
        role: which.
        lines: elements of a line of the buffer, along the folded dim.
        nbytes: of an element.
    """
    held = chain.residual.operand(role)
    copy = staged(along=held.dims[-1]) if held is not None and lies_across(chain, role) else cp_async()
    return chain.load(role, SH, copy).storage_layout(RowMajor).swizzle(spread_lines(lines, nbytes))
