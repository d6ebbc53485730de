"""Operations over windows of images: convolutions and pooling, for lines, images and volumes.

Images are (N, C, sides...), filters (K, C / groups, taps...), as in torch. Where their elements lie is another matter:
plans store them with the channels last in memory (`fireiron.graph.views`).
"""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from fireiron.algebra.dtypes import DType, default_result, f32
from fireiron.base.errors import SpecError
from fireiron.front.convolutions import outer_of
from fireiron.graph.operations import Attributes, Operation, Shape, misfit, numpy, promoted

if TYPE_CHECKING:
    from fireiron.graph.composites import Ops
    from fireiron.graph.nodes import Node

Pads = Sequence[tuple[int, int]]


def _outer(sides: Shape, taps: Shape, a: Attributes) -> Shape:
    """Return the sides of the result.

    Raises:
        SpecError: `conv-window`.
    """
    dilation = a.get("dilation", (1,) * len(sides))
    for side, tap, pad, apart in zip(sides, taps, a["pads"], dilation, strict=True):
        reach = (tap - 1) * apart + 1
        if side + sum(pad) < reach:
            raise SpecError(
                "conv-window",
                f"windows of {reach} pixels are larger than a side of {side}, padded by {pad[0]} and {pad[1]}",
                fix="pad more, or use smaller windows",
            )
    return outer_of(sides, taps, a["stride"], a["pads"], dilation)


def _convolved(shapes: Sequence[Shape], a: Attributes) -> Shape:
    images, filters, *bias = shapes
    groups = a["groups"]
    if len(images) not in (3, 4, 5) or len(filters) != len(images):
        raise misfit(
            f"images {images} and filters {filters} are no convolution", "give (N, C, sides) and (K, C / groups, taps)"
        )
    if images[1] != filters[1] * groups or filters[0] % groups:
        raise SpecError(
            "conv-groups",
            f"{groups} groups do not fit {images[1]} channels and {filters[0]} filters of {filters[1]} channels",
            fix="give filters of channels / groups, and a number of groups that divides channels and filters",
        )
    if bias and bias[0] != filters[:1]:
        raise misfit(f"a bias {bias[0]} and {filters[0]} filters", "give a value for each filter")
    return (images[0], filters[0], *_outer(images[2:], filters[2:], a))


def _pooled(shapes: Sequence[Shape], a: Attributes) -> Shape:
    (images,) = shapes
    if len(images) not in (3, 4, 5) or len(a["window"]) != len(images) - 2:
        raise misfit(f"{images} are no images with windows {a['window']}", "give (N, C, sides), and a window's sides")
    return (*images[:2], *_outer(images[2:], a["window"], a))


def _multiplied(kinds: Sequence[DType], _: Attributes) -> DType:
    return promoted([default_result(promoted(kinds[:2])), *kinds[2:]])


def _mean_of(kinds: Sequence[DType], _: Attributes) -> DType:
    return f32 if kinds[0].kind == "int" else kinds[0]


def _shifted(x: Any, tap: Sequence[int], outer: Shape, stride: Sequence[int], dilation: Sequence[int]) -> Any:
    """Return the elements of padded images that one tap of all windows reads."""
    starts = [t * d for t, d in zip(tap, dilation, strict=True)]
    return x[(..., *(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, outer, stride, strict=True)))]


def _padded(x: Any, pads: Pads, value: float = 0) -> Any:
    return numpy().pad(x, ((0, 0), (0, 0), *pads), constant_values=value)


def _conv(
    x: Any, f: Any, *bias: Any, stride: Sequence[int], pads: Pads, dilation: Sequence[int], groups: int
) -> Any:  # fmt: skip
    np = numpy()
    outer = outer_of(x.shape[2:], f.shape[2:], stride, pads, dilation)
    kind = x.dtype if x.dtype.itemsize > 2 else np.dtype("int32" if x.dtype.kind in "iu" else "float64")
    filters = f.astype(kind).reshape(groups, f.shape[0] // groups, *f.shape[1:])
    wide, total = _padded(x.astype(kind), pads), np.zeros((), kind)
    for tap in np.ndindex(*f.shape[2:]):
        window = _shifted(wide, tap, outer, stride, dilation).reshape(x.shape[0], groups, f.shape[1], -1)
        total = total + filters[(..., *tap)] @ window
    made = total.reshape(x.shape[0], f.shape[0], *outer)
    return made + bias[0].reshape(-1, *(1,) * len(outer)) if bias else made


def _max_pool(x: Any, window: Shape, stride: Sequence[int], pads: Pads, dilation: Sequence[int]) -> Any:
    np = numpy()
    outer = outer_of(x.shape[2:], window, stride, pads, dilation)
    wide = _padded(x, pads, np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf)
    found = [_shifted(wide, tap, outer, stride, dilation) for tap in np.ndindex(*window)]
    return np.max(found, axis=0)


def _avg_pool(x: Any, window: Shape, stride: Sequence[int], pads: Pads, count_pad: bool) -> Any:
    np = numpy()
    ones = (1,) * len(window)
    outer = outer_of(x.shape[2:], window, stride, pads, ones)
    inner = counted(pads) if count_pad else ((0, 0),) * len(pads)
    rest = tuple((b - a, d - c) for (a, c), (b, d) in zip(inner, pads, strict=True))
    counts = _padded(np.pad(np.ones((1, 1, *x.shape[2:])), ((0, 0), (0, 0), *inner), constant_values=1), rest)
    wide = _padded(x, pads)
    taps = list(np.ndindex(*window))
    total = sum(_shifted(wide, tap, outer, stride, ones) for tap in taps)
    return total / sum(_shifted(counts, tap, outer, stride, ones) for tap in taps)


def counted(pads: Pads) -> tuple[tuple[int, int], ...]:
    """Return the padding that means may count: pixels behind beyond those before never do.

    Example:
        >>> counted(((1, 1), (1, 2)))
        ((1, 1), (1, 1))
    """
    return tuple((before, min(before, behind)) for before, behind in pads)


def simplified(o: Ops, node: Node, x: tuple[int, ...]) -> int | None:
    """Write a bias as a sum of its own, and a convolution whose windows do not overlap as a product."""
    images, filters, *bias = x
    a = dict(node.attributes)
    if lie_apart(o.shape(images)[2:], o.shape(filters)[2:], a):
        return _patches(o, images, filters, bias)
    if not bias:
        return None
    return o.add(o.conv(images, filters, **a), o.reshape(bias[0], shape=(node.shape[1], *(1,) * (len(node.shape) - 2))))


def _patches(o: Ops, images: int, filters: int, bias: Sequence[int]) -> int:
    """Multiply the pixels of windows that do not overlap by filters."""
    (batch, channels, *image), (out, _, *sizes) = o.shape(images), o.shape(filters)
    rank, count = len(image), [n // size for n, size in zip(image, sizes, strict=True)]
    cut = [n for pair in zip(count, sizes, strict=True) for n in pair]
    parted = o.reshape(images, shape=(batch, channels, *cut))
    places, pixels = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    rows = o.transpose(parted, axes=(0, *places, 1, *pixels))
    rows = o.reshape(rows, shape=(batch, prod(count), channels * prod(sizes)))
    columns = o.transpose(o.reshape(filters, shape=(out, channels * prod(sizes))), axes=(1, 0))
    y = o.matmul(rows, columns)
    y = o.add(y, bias[0]) if bias else y
    return o.reshape(o.transpose(y, axes=(0, 2, 1)), shape=(batch, out, *count))


def lie_apart(sides: Sequence[int], taps: Sequence[int], a: Attributes) -> bool:
    """Say whether the windows of a convolution cover each pixel of the images once."""
    plain = not any(map(any, a["pads"])) and set(a["dilation"]) == {1} and a["groups"] == 1
    whole = not any(n % tap for n, tap in zip(sides, taps, strict=True))
    return plain and whole and tuple(a["stride"]) == tuple(taps) and max(taps) > 1


WINDOWS: tuple[Operation, ...] = (
    Operation("conv", "windows", _convolved, _conv, _multiplied, 2, 3),
    Operation("max_pool", "windows", _pooled, _max_pool),
    Operation("avg_pool", "windows", _pooled, _avg_pool, _mean_of),
)
