"""Folds over windows, by CUDA cores: their dims and arrays, and the elements of blocks and threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import attrs

from fireiron import FireironError, ProgramChain, Tensor, walks
from fireiron.schedules._pixels import tile_extent


@attrs.frozen
class Fold:
    """Name the parts of a fold over windows.

    Args:
        step: name of the fold's step.
        reads: arrays that the fold reads.
        images: the array with the images' number; "" if none has it.
        column: the kept dim of channels.
        sides: the other kept dims except the images' number.
        over: the folded dims.
        sizes: extents of dims, where known.
        nbytes: bytes of an element of the images.
        is_product: whether the fold multiplies two arrays.
    """

    step: str
    reads: tuple[str, ...]
    images: str
    column: str
    sides: tuple[str, ...]
    over: tuple[str, ...]
    sizes: dict[str, int]
    nbytes: int
    is_product: bool

    @property
    def beside(self) -> tuple[str, ...]:
        """Name the arrays that the fold reads beside the images."""
        return tuple(name for name in self.reads if name != self.images)


def fold_of(spec: ProgramChain, by: str, kept_by_images: bool) -> Fold:
    """Find the fold of a program of convolution or pooling.

    Args:
        spec: the program.
        by: the preset, for errors.
        kept_by_images: whether results have the images' channels, as in depthwise convolutions and pooling.

    Raises:
        FireironError: `conv-program` for another program.
    """
    fold = next((s for s in spec.computed.steps if s.fold is not None), None)
    kept = [] if fold is None else [d.name for d in fold.kept]
    reads = {} if fold is None else {ref.name: {d.name for d in ref.dims} for ref in fold.reads}
    images = next((name for name, dims in reads.items() if "n" in dims), "")
    held = reads.get(images, set[str]()) if kept_by_images else {*kept}
    column = next((d for d in ("k", "c") if d in kept and d in held), "")
    sides = tuple(d for d in kept if d not in ("n", column))
    if fold is None or not column or not sides or "n" not in kept:
        wanted = (
            "over windows that keep the images' channels"
            if kept_by_images
            else "that keep images n, their sides and channels"
        )
        which = "depthwise convolution or a pooling" if kept_by_images else "program"
        raise FireironError(
            "conv-program",
            f"{by} schedules folds {wanted}, and {spec.computed.name} "
            f"{'folds nothing' if fold is None else 'keeps ' + (', '.join(kept) or 'no dim')}",
            fix=f"give a {which} of schedules.conv",
        )
    sizes = {d: n for d, n in spec.residual.extents.items() if isinstance(n, int)}
    nbytes = next((ref.dtype.nbytes for ref in fold.reads if ref.name == images), 0)
    over = tuple(d.name for d in fold.over)
    return Fold(fold.name, tuple(reads), images, column, sides, over, sizes, nbytes, fold.is_product)


def block_channels(spec: ProgramChain, column: str, wanted: int) -> int:
    """Choose the channels of a block: whole groups, or a part of one group, so that its reads are a box."""
    most = tile_extent(spec.residual.extents[column], wanted)
    while most > 1 and None in spec.tile(**{column: most}).residual.extents.values():
        most //= 2
    return most


def spread(sides: Sequence[str], sizes: dict[str, int], pixels: int) -> dict[str, int]:
    """Distribute a block's pixels among the sides of the image; the innermost side gets the most."""
    found: dict[str, int] = {}
    for i, side in enumerate(reversed(sides)):
        most = pixels if i == len(sides) - 1 else min(pixels, 16 if i == 0 else 4)
        found[side] = tile_extent(sizes.get(side), most)
        pixels //= found[side]
    return found


def run_of(side: int | None, spec: ProgramChain, step: str, images: str) -> int:
    """Choose the number of pixels of a thread's run along a side."""
    every = all(walk.step == 1 for walk in (walks(spec.computed, step, images) or {}).values())
    return 7 if side is not None and every and -(-side // 7) * 7 < -(-side // 4) * 4 else 4


def row_of_windows(chain: ProgramChain, images: str, rows: Sequence[str]) -> int | None:
    """Return the number of elements in a row of a thread's windows, with the halo; None if indices have quotients."""
    for d in rows:
        chain = chain.split(None, **{d: 1})
    box = next(o.dims for o in chain.residual.operands if o.role == images)
    extents = [chain.residual.extents[d] for d in box]
    return prod(e for e in extents if isinstance(e, int)) if all(isinstance(e, int) for e in extents) else None


def box_of_windows(spec: ProgramChain, fold: Fold, results: Mapping[str, int]) -> int:
    """Count the elements that the windows of a box of results cover, with the halo; 0 if their steps are not known.

    Args:
        spec: the program.
        fold: its fold over windows.
        results: by dim, the number of results.
    """
    found = walks(spec.computed, fold.step, fold.images)
    if found is None:
        return 0
    along = [(results.get(d, 1) - 1) * abs(walk.step) + abs(walk.reach) + 1 for d, walk in found.items()]
    return prod(along) * results.get(fold.column, 1)


def is_dense(array: Tensor) -> bool:
    """Say whether the elements of an array lie together in the order of its dims."""
    step: Any = 1
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step = step * size
    return True
