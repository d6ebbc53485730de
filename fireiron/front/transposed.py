"""Transposed convolutions of arrays, which are gradients of images: one program for each residue of the stride, or one.

Pixels whose positions have one remainder by the stride are computed by one program, a convolution of stride 1. Arrays
have torch's dims: images (N, K, sides...), filters (K, C / groups, taps...). Kernels read arrays with channels last, as
those of `convolutions` do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from math import prod
from typing import Any

from fireiron.algebra.dtypes import default_result
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.convolutions import (
    MOST_KERNELS,
    Convolution,
    Sizes,
    Windows,
    alone,
    called,
    copied,
    each_side,
    kernel_of,
    last,
    lies_last,
    programs,
    shapes_of,
)
from fireiron.front.host import arch_of
from fireiron.jit.arrays import describe, is_torch

MOST_NEAR = 16  # pixels between two windows, of which a thread computes all
MOST_BETWEEN = 64  # rows, columns and channels between two windows, which one product has as columns


@lru_cache(MOST_KERNELS)
def images_of(what: Convolution, bias: str = "", host: bool = False) -> tuple[tuple[Any, Any], ...]:
    """Return the kernels that compute a convolution's images from its result, each with its part of the images.

    The kernel is None for a part that is zero.

    Args:
        what: the convolution whose gradient of images, or transposed convolution, is computed.
        bias: element type of the bias for each channel of the images; "" without a bias.
        host: whether arrays lie in host memory.
    """
    parts = images_specified(what, bias, arch_of(host))
    several = len(parts) > 1  # each is short: on an H200 11 to 18 % less time where one begins as the one ahead ends
    return tuple((part, None if part.spec is None else kernel_of(part.spec, host, several)) for part in parts)


def at_once(what: Convolution, bias: bool) -> bool:
    """Say whether one program computes all pixels of the images.

    One program suffices where strides divide the sides, few values lie between neighbouring windows, and there is no
    bias; of depthwise convolutions, where filters are not dilated, and with stride 1 a residue is all pixels anyway.
    """
    if bias or any(n % s for n, s in zip(what.sides, what.stride, strict=True)):
        return False
    if what.depthwise:
        near, far = prod(what.stride), any(apart > 1 for apart in what.dilation)
        return 1 < near <= MOST_NEAR and not far and what.rank < 3
    if not what.has_packed_gradients:
        return False
    rows, columns = what.stride
    return rows * (1 << (max(8, columns * what.channels) - 1).bit_length()) <= MOST_BETWEEN


@lru_cache(MOST_KERNELS)
def all_images_of(what: Convolution, host: bool = False) -> Any:
    """Return the kernel that computes all pixels of the images, for a convolution `at_once`."""
    return kernel_of(all_specified(what, arch_of(host)), host)


def all_specified(what: Convolution, arch: str | None = None) -> Any:
    """Return the program of all pixels of the images, for a convolution `at_once`."""
    y = what.described("y", what.images, *what.outer, what.filters)
    if what.depthwise:
        f = what.described("f", what.filters, *what.taps, 1)
        return programs("depthwise_gradients").DATA_GRADIENTS[what.rank](y, f, what.stride, what.pads, arch=arch)
    f = what.described("f", what.filters, what.taps[0], what.taps[1] * what.channels)
    program = programs("conv_packed_gradients").conv2d_packed_data_gradient
    return program(y, f, what.stride, what.pads, what.channels, arch=arch)


def images_specified(what: Convolution, bias: str = "", arch: str | None = None) -> tuple[Any, ...]:
    """Return the programs that compute a convolution's images from its result, each with its part of the images.

    Args:
        what: the convolution.
        bias: as in `images_of`.
        arch: the target; the GPU's where None.
    """
    images, filters, channels = _shapes(what)
    y = what.described("y", *images)
    f = what.described("f", *filters)
    x = what.described("x", what.images, *what.sides, *channels, dtype=default_result(what.kind).name)
    beside = what.described("bias", *channels, dtype=bias) if bias else None
    return programs("conv_gradients").data_gradients(
        y, f, x, what.stride, what.pads, what.dilation, arch, beside, _by_groups(what), what.depthwise
    )


def _by_groups(what: Convolution) -> bool:
    """Say whether arrays have a dim of groups; those of depthwise convolutions have one dim of channels."""
    return what.groups > 1 and not what.depthwise


def _shapes(what: Convolution) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a convolution's result and filters, and the extents of its channels, with groups first."""
    groups, part = what.groups, what.channels // what.groups
    if what.depthwise:
        return (what.images, *what.outer, groups), (groups, *what.taps, 1), (groups,)
    split = (groups, what.filters // groups) if groups > 1 else (what.filters,)
    channels = (groups, part) if groups > 1 else (part,)
    return (what.images, *what.outer, *split), (*split, *what.taps, part), channels


def run(
    what: Convolution, y: Any, f: Any, bias: Any, kind: str, host: bool, out: Any, start: Callable[..., Any] = called
) -> None:
    """Compute a convolution's images from its result, part by part.

    Args:
        what: the convolution.
        y, f: the convolution's result and filters, channels last.
        bias: added to each channel, or None.
        kind: element type of the bias.
        host: whether arrays lie in host memory.
        out: array to write: the images, channels last.
        start: as in `convolutions.run`.
    """
    if at_once(what, bias is not None):
        f = f if what.depthwise else f.reshape(*f.shape[:2], -1)
        start(all_images_of(what, host), y, f, out=between_windows(what, out))
        return
    images, filters, channels = _shapes(what)
    y, f, out = y.reshape(images), f.reshape(filters), out.reshape((what.images, *what.sides, *channels))
    bias = None if bias is None else bias.reshape(channels)
    given = () if bias is None else (bias,)
    ahead = (slice(None),) * (1 + _by_groups(what))
    for part, kernel in images_of(what, kind, host):
        view = out[(slice(None), *part.pixels)]
        if kernel is None:  # no tap reaches these pixels
            view[...] = 0 if bias is None else bias
        else:
            start(kernel, y, f[(*ahead, *part.taps)], *given, out=view)


def between_windows(what: Convolution, out: Any) -> Any:
    """View images as the kernel of `all_images_of` writes them: by windows, and what lies between two windows.

    Where the convolution is not depthwise, columns and channels between two windows are one dim.
    """
    if what.depthwise:
        parts = (n for side, step in zip(what.sides, what.stride, strict=True) for n in (side // step, step))
        return out.reshape(what.images, *parts, what.channels)
    (h, w), (rows, columns) = what.sides, what.stride
    return out.reshape(what.images, h // rows, rows, w // columns, columns * what.channels)


def described(
    name: str, input: Any, weight: Any, stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
    dilation: Sizes,
) -> tuple[tuple[int, ...], Windows]:  # fmt: skip
    """Read the arguments of a transposed convolution: the sides of the images, and the windows of the convolution.

    Args:
        name: name of the called function, for errors.
        input, weight: the convolution's result and its filters, whose shapes are read.
        stride, padding, output_padding, groups, dilation: as the caller gives them.

    Raises:
        CallError: `wrong-shape`; `conv-groups`; `conv-sizes`; `conv-window`.
    """
    rank = int(name[-2])
    images, filters = shapes_of(name, rank, input, weight, "(K, C, {taps})")
    if groups < 1 or (isinstance(images[1], int) and images[1] % groups):
        raise CallError(
            "conv-groups",
            f"{groups} groups of {images[1]} channels",
            fix="give a number of groups that divides the images' channels",
        )
    if images[1] != filters[0]:
        raise CallError(
            "conv-groups",
            f"images of {images[1]} channels, and {filters[0]} filters",
            fix="give as many filters as channels: (K, C, taps) for images (N, K, sides)",
        )
    steps, apart = each_side("stride", stride, rank), each_side("dilation", dilation, rank)
    pads, more = each_side("padding", padding, rank), each_side("output_padding", output_padding, rank)
    if any(extra >= max(step, d) for extra, step, d in zip(more, steps, apart, strict=True)):
        raise CallError(
            "conv-sizes",
            f"output_padding={output_padding!r} with a stride of {steps} and a dilation of {apart}",
            fix="give less than the stride or the dilation",
        )
    given = zip(images[2:], filters[2:], steps, pads, apart, more, strict=True)
    sides = tuple((n - 1) * step - 2 * pad + d * (t - 1) + extra + 1 for n, t, step, pad, d, extra in given)
    if any(isinstance(side, int) and side < 1 for side in sides):
        raise CallError(
            "conv-window",
            f"padding={padding!r} leaves {'x'.join(map(str, sides))} pixels",
            fix="pad less: padding is cut off from the result",
        )
    # Where more pixels are added than lie between two windows, the convolution of the result leaves the last ones out.
    behind = (pad - extra // step * step for pad, extra, step in zip(pads, more, steps, strict=True))
    return sides, (steps, tuple(zip(pads, behind, strict=True)), apart)


def _transposed(
    name: str, input: Any, weight: Any, bias: Any, stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
    dilation: Sizes, dtype: str | None,
) -> Any:  # fmt: skip
    given = (stride, padding, output_padding, groups, dilation)
    if alone(name, input, weight):
        return _transposed(name, input[None], weight, bias, *given, dtype)[0]
    if is_torch(input):
        from fireiron.front.torch_conv import conv_transpose as by_torch

        return by_torch(name, input, weight, bias, *given, dtype)
    try:
        return _of_arrays(name, input, weight, bias, given, dtype)
    except FireironError as error:
        raise error.located(here()) from None


def _of_arrays(name: str, input: Any, weight: Any, bias: Any, given: tuple[Any, ...], dtype: str | None) -> Any:
    """Compute a transposed convolution of arrays of NumPy, CuPy and similar libraries."""
    sides, windows = described(name, input, weight, *given)
    facts, (k, c, *taps) = describe(input, "input"), weight.shape
    multiplied = find_dtype(dtype or facts.dtype).name
    groups = given[3]
    what = Convolution(multiplied, input.shape[0], sides, c * groups, k, tuple(taps), *windows, groups)
    kind = "" if bias is None else find_dtype(describe(bias, "bias").dtype).name
    library = import_module(type(input).__module__.partition(".")[0])
    shape = (what.images, *what.sides, what.channels)
    out = library.empty(shape, dtype=default_result(what.kind).numpy)
    run(what, last(input), last(weight), bias, kind, facts.is_host, out)
    made = out.transpose(0, out.ndim - 1, *range(1, out.ndim - 1))
    return made if lies_last(input) else copied(made)


def conv_transpose1d(
    input: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
    groups: int = 1, dilation: Sizes = 1, *, dtype: str | None = None,
) -> Any:  # fmt: skip
    """Compute a transposed convolution of lines (N, K, W), as `conv_transpose2d` does of images."""
    return _transposed(
        "conv_transpose1d", input, weight, bias, stride, padding, output_padding, groups, dilation, dtype
    )  # fmt: skip


def conv_transpose2d(
    input: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
    groups: int = 1, dilation: Sizes = 1, *, dtype: str | None = None,
) -> Any:  # fmt: skip
    """Compute a transposed convolution, which is a convolution's gradient of images, with torch's arguments.

    Tensors of torch go through an operator that torch.compile and torch.export trace, and that has gradients; arrays of
    NumPy are simulated where there is no GPU. One kernel for each residue of the stride avoids products with zeros.

    Args:
        input: images (N, K, H, W), or one (K, H, W), of torch, CuPy or NumPy. Images with channels last in memory are
            not copied.
        weight: filters (K, C / groups, taps, taps).
        bias: added to each of the C channels of the result, in the same kernels.
        stride: pixels of the result from one window to the next, one number or one for each side.
        padding: pixels that are cut off around the result.
        output_padding: pixels that are added behind the last row and column, fewer than the stride or the dilation.
        groups: number of parts of the channels, each with filters of its own.
        dilation: pixels of the result from one tap of a filter to the next.
        dtype: "tf32" multiplies f32 arrays as tf32.

    Raises:
        CallError: `wrong-shape`, `conv-groups`, `conv-sizes`, `conv-window`, and as a kernel's call does.

    Example:
        >>> import numpy as np
        >>> images, filters = np.ones((1, 4, 2, 2), np.float32), np.ones((4, 8, 2, 2), np.float32)
        >>> conv_transpose2d(images, filters, stride=2)[0, 0].tolist()
        [[4.0, 4.0, 4.0, 4.0], [4.0, 4.0, 4.0, 4.0], [4.0, 4.0, 4.0, 4.0], [4.0, 4.0, 4.0, 4.0]]
    """
    return _transposed(
        "conv_transpose2d", input, weight, bias, stride, padding, output_padding, groups, dilation, dtype
    )  # fmt: skip


def conv_transpose3d(
    input: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
    groups: int = 1, dilation: Sizes = 1, *, dtype: str | None = None,
) -> Any:  # fmt: skip
    """Compute a transposed convolution of volumes (N, K, D, H, W), as `conv_transpose2d` does of images."""
    return _transposed(
        "conv_transpose3d", input, weight, bias, stride, padding, output_padding, groups, dilation, dtype
    )  # fmt: skip
