"""The base of the layout algebra: composition, complement and inverses, and their predicates."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from fireiron.algebra.index.nodes import Index, simplest
from fireiron.algebra.layout import Layout, Leaf, from_leaves, of_leaves
from fireiron.base.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Tiler: TypeAlias = "int | Layout | tuple[Tiler, ...]"
Profile: TypeAlias = "int | tuple[Profile, ...] | None"

_DIVIDE = "choose extents and strides that divide each other"


def concat(*layouts: Layout) -> Layout:
    """Put layouts side by side as the modes of one."""
    return Layout(tuple(item.shape for item in layouts), tuple(item.stride for item in layouts))


def coalesce(layout: Layout) -> Layout:
    """Give the same function with the fewest modes, a single extent where one is enough.

    Example:
        >>> coalesce(Layout((2, (1, 6)), (1, (6, 2))))
        Layout(12:1)
    """
    return of_leaves(_merge(layout.leaves))


def coalesce_modes(layout: Layout, profile: Profile) -> Layout:
    """Coalesce each mode separately where the profile is a tuple, and the whole layout where it is not.

    Args:
        layout: the layout to coalesce.
        profile: a tuple with one entry for each mode to be kept apart; later modes stay as they are.

    Raises:
        LayoutError: `tiler-rank` when the profile has more entries than the layout has modes.
    """
    if not isinstance(profile, tuple):
        return coalesce(layout)
    check_rank(layout, profile)
    merged = map(coalesce_modes, layout.modes, profile)
    return concat(*merged, *layout.modes[len(profile) :])


def compose(a: Layout, b: Tiler) -> Layout:
    """Give the layout `c -> a(b(c))`, in the shape of `b`.

    Args:
        a: the layout that the offsets of `b` index.
        b: a layout; an int n is n:1; a tuple composes with `a` mode by mode and leaves later modes alone.

    Raises:
        LayoutError: `composition-undefined`, `symbolic-extent`, `tiler-rank`.

    Example:
        >>> compose(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))
        Layout(((2,2),3):((24,2),8))
    """
    if isinstance(b, tuple):
        check_rank(a, b)
        return concat(*map(compose, a.modes, b), *a.modes[len(b) :])
    b = as_layout(b)
    if not isinstance(a.shape, tuple):
        return _scale(b, cast("Index", a.stride))
    leaves = _merge(a.leaves)
    used = [0] * len(leaves)
    result = _compose(a, leaves, b, used)
    for (extent, _), reach in zip(leaves[:-1], used, strict=False):
        # Modes are composed one by one, which is right only where their digits never carry into the next extent.
        if isinstance(extent, int) and reach >= extent:
            raise LayoutError(
                "composition-undefined",
                f"cannot compose {a} with {b}: together the modes of {b} reach {reach} in the extent {extent}",
                fix=_DIVIDE,
            )
    return result


def complement(layout: Layout, size: Index) -> Layout:
    """Return the layout of offsets at which copies of a layout, without overlap, cover `size` offsets.

    Args:
        layout: the layout to repeat.
        size: offsets to cover; a size that the layout does not divide is rounded up. It may be symbolic.

    Raises:
        LayoutError: `not-injective`, `complement-undefined`, `symbolic-extent`.

    Example:
        >>> complement(Layout((4, 2), (1, 16)), 32)
        Layout(4:4)
    """
    step = 1
    for extent, stride in _ascending(layout, "complement"):
        if stride % step:
            fact = (
                f"the layout {layout} has no complement: stride {stride} is no multiple of the {step} offsets below it"
            )
            raise LayoutError("complement-undefined", fact, fix=_DIVIDE)
        step = stride * extent
    return repetitions(layout, size)


def repetitions(layout: Layout, size: Index) -> Layout:
    """Return a layout of offsets at which copies of a layout fit without overlap, up to at least `size` offsets.

    This is the complement where there is one. Otherwise some offsets are not covered: those between strides that do not
    divide each other. Modes of stride 0 add no offsets, and are left out.

    Args:
        layout: the layout to repeat.
        size: number of offsets, rounded up to whole repetitions. It may be symbolic.

    Raises:
        LayoutError: `not-injective`; `complement-undefined` where a stride is smaller than the span of the smaller
            strides; `symbolic-extent`.

    Example:
        >>> repetitions(Layout((4, 6), (1, 6)), 72), repetitions(Layout((4, 8), (0, 1)), 16)
        (Layout(2:36), Layout(2:8))
    """
    gaps: list[Leaf] = []
    step = 1
    for extent, stride in _ascending(layout, "repetitions", of_image=True):
        if stride < step:
            fact = f"stride {stride} is less than the {step} offsets below it"
            raise LayoutError("complement-undefined", f"the layout {layout} cannot repeat: {fact}", fix=_DIVIDE)
        gaps.append((stride // step, step))
        step = stride * extent
    gaps.append((simplest(size if step == 1 else (size + (step - 1)) // step), step))
    return of_leaves(_merge(gaps))


def right_inverse(layout: Layout) -> Layout:
    """Give r with `layout(r(i)) == i` for every i below r's size, the longest run of offsets from 0.

    Of several coordinates with the same offset, by a stride of 0, r returns the first.

    Raises:
        LayoutError: `not-injective`, `symbolic-extent`.

    Example:
        >>> right_inverse(Layout((8, 4), (4, 1))), right_inverse(Layout((2, 4), (0, 1)))
        (Layout((4,8):(8,1)), Layout(4:2))
    """
    return of_leaves(_merge(_run(layout, "right inverse")))


def left_inverse(layout: Layout) -> Layout:
    """Return l with `l(layout(i)) == i`; for an offset that the layout skips, l returns an index beyond its size.

    Raises:
        LayoutError: `not-injective`, `complement-undefined`, `symbolic-extent`.
    """
    return right_inverse(concat(layout, complement(layout, 1)))


def is_injective(layout: Layout) -> bool:
    """Tell whether different coordinates have different offsets.

    Raises:
        LayoutError: `symbolic-extent`.
    """
    leaves = sorted((leaf for leaf in _static(layout, "injectivity") if leaf[0] != 1), key=_by_stride)
    spans = [0, *accumulate((extent - 1) * stride for extent, stride in leaves)]
    if all(stride > span for (_, stride), span in zip(leaves, spans, strict=False)):
        return True
    # Offsets of the later modes differ by multiples of their strides' common divisor: past the span of the modes
    # before, the two parts meet nowhere.
    common = [*accumulate((stride for _, stride in reversed(leaves)), math.gcd)][::-1]
    cuts = [i for i, (apart, span) in enumerate(zip(common, spans, strict=False)) if apart > span]
    return all(_distinct(leaves[begin:end]) for begin, end in pairwise([0, *cuts, len(leaves)]))


def _distinct(modes: list[tuple[int, int]]) -> bool:
    """Tell whether the offsets of modes are different ones."""
    if len(modes) < 2:
        return all(stride for _, stride in modes)
    if len(modes) == 2 and modes[0][1]:  # the least steps that meet
        (extent, near), (other, far) = modes
        common = math.gcd(near, far)
        return far // common >= extent or near // common >= other
    size = math.prod(extent for extent, _ in modes)
    if sum((extent - 1) * stride for extent, stride in modes) + 1 < size:
        return False
    import numpy as np

    offsets = np.asarray(from_leaves(modes)(np.arange(size, dtype=np.int64)))
    return len(np.unique(offsets)) == size


def is_compact(layout: Layout) -> bool:
    """Tell whether the offsets are exactly 0 to size - 1, each once.

    Raises:
        LayoutError: `symbolic-extent`.
    """
    return is_injective(layout) and layout.cosize == layout.size


def equal_functions(a: Layout, b: Layout) -> bool:
    """Tell whether two layouts have the same offset at every index; symbolic ones are compared as written."""
    return coalesce(a) == coalesce(b)


def as_layout(tiler: int | Layout) -> Layout:
    """Read the int n as n:1."""
    return tiler if isinstance(tiler, Layout) else Layout(tiler, 1)


def check_rank(layout: Layout, tilers: Sequence[object]) -> None:
    """Raise an error for more tilers than modes."""
    if len(tilers) > layout.rank:
        raise LayoutError(
            "tiler-rank",
            f"{len(tilers)} tilers are given for the {layout.rank} modes of the layout {layout}",
            fix="give at most one tiler for each mode",
        )


def _merge(leaves: Iterable[Leaf]) -> list[Leaf]:
    """Drop extents of 1, and merge neighbours where one continues the other."""
    merged: list[Leaf] = []
    for extent, stride in leaves:
        if extent == 1:
            continue
        if merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * extent, merged[-1][1])
        else:
            merged.append((extent, stride))
    return merged or [(1, 0)]


def _scale(b: Layout, stride: Index) -> Layout:
    """Compose a single extent of the given stride with `b`."""
    if isinstance(b.shape, tuple):
        return concat(*(_scale(mode, stride) for mode in b.modes))
    return Layout(b.shape, 0 if b.shape == 1 else cast("Index", b.stride) * stride)


def _compose(a: Layout, leaves: list[Leaf], b: Layout, used: list[int]) -> Layout:
    """Compose leaf by leaf, adding to `used` the largest digit that is used of each of a's leaves."""
    if isinstance(b.shape, tuple):
        return concat(*(_compose(a, leaves, mode, used) for mode in b.modes))
    (rest, step) = b.leaves[0]
    if rest == 1 or step == 0:
        return Layout(rest, 0)
    found: list[Leaf] = []
    for place, (extent, stride) in enumerate(leaves[:-1]):
        if not (isinstance(extent, int) and isinstance(rest, int) and isinstance(step, int)):
            raise symbolic(b if isinstance(extent, int) else a, f"composition of {a} with {b}")
        if step % extent == 0:
            step //= extent
            continue
        taken = rest if step * (rest - 1) < extent else extent // step
        if taken != rest and (step > extent or extent % step or rest % taken):
            raise LayoutError(
                "composition-undefined",
                f"cannot compose {a} with {b}: {rest} steps of {step} do not fit the extent {extent} evenly",
                fix=_DIVIDE,
            )
        found.append((taken, step * stride))
        used[place] += step * (taken - 1)
        rest //= taken
        step = 1
        if rest == 1:
            break
    if rest != 1:
        found.append((rest, step * leaves[-1][1]))
    return of_leaves(_merge(found))


def symbolic(layout: Layout, what: str) -> LayoutError:
    """Return the error for an operation that would have to divide or compare a symbol."""
    return LayoutError(
        "symbolic-extent",
        f"the {what} would have to divide or compare the symbols of {layout}",
        fix="keep symbols in an outer mode, and apply this to the static modes",
    )


def _static(layout: Layout, what: str) -> list[tuple[int, int]]:
    """List the leaves with extents above 1; raise an error for symbols."""
    if not layout.is_static:
        raise symbolic(layout, f"{what} of {layout}")
    return [leaf for leaf in cast("tuple[tuple[int, int], ...]", layout.leaves) if leaf[0] != 1]


def _by_stride(leaf: Any) -> Any:
    return leaf[1]


def _ascending(layout: Layout, what: str, of_image: bool = False) -> list[tuple[int, int]]:
    """Sort the leaves by stride; raise an error where offsets repeat, by a stride of 0 too unless `of_image`."""
    leaves = sorted(_static(layout, what), key=_by_stride)
    if of_image:
        leaves = [leaf for leaf in leaves if leaf[1]]
    span = 0
    for extent, stride in leaves:
        if stride <= span and (stride == 0 or not is_injective(from_leaves(leaves))):
            raise LayoutError(
                "not-injective",
                f"the layout {layout} has no {what}: two of its coordinates share an offset",
                fix="drop the modes that repeat offsets",
            )
        span += (extent - 1) * stride
    return leaves


def _run(layout: Layout, what: str) -> list[Leaf]:
    """List the leaves of the inverse over the offsets that continue from 0 without gaps."""
    weights: dict[int, int] = {}
    weight = 1
    for extent, stride in _static(layout, what):
        weights[stride] = weight
        weight *= extent
    run: list[Leaf] = []
    step = 1
    for extent, stride in _ascending(layout, what, of_image=True):
        if stride != step:
            break
        run.append((extent, weights[stride]))
        step *= extent
    return run
