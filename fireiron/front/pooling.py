"""Pooling of arrays, without writing a schedule: the largest value or the mean of each window.

Arrays have torch's dims: (N, C, sides...). Kernels read arrays with channels last, as those of `convolutions` do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.convolutions import (
    MOST_KERNELS,
    Sizes,
    alone,
    copied,
    each_side,
    kernel_of,
    last,
    lies_last,
    outer_of,
    programs,
)
from fireiron.front.host import arch_of
from fireiron.jit.arrays import describe, is_torch
from fireiron.language.tensor import Tensor, tensor


@attrs.frozen
class Pool:
    """Describe a pooling of images: its operation, and the places of windows.

    Args:
        op: "max" or "average".
        window: pixels along each side of a window.
        stride: pixels from one window to the next, along each side.
        pads: pixels of padding before and behind each side. A maximum ignores padding. Where ceil_mode makes the
            padding behind wider than that before, means never count the difference.
        dilation: pixels from one value of a window to the next, along each side.
        count_pad: whether means count pixels of padding.
    """

    op: str
    window: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    count_pad: bool = True

    def outer(self, sides: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the sides of the result from those of the images."""
        return outer_of(sides, self.window, self.stride, self.pads, self.dilation)


@lru_cache(MOST_KERNELS)
def kernel(what: Pool, dtype: str, shape: tuple[int, ...], host: bool = False) -> Any:
    """Return the kernel of a pooling.

    Args:
        what: the pooling.
        dtype: element type of the images.
        shape: shape of the images, channels last.
        host: whether arrays lie in host memory.
    """
    return kernel_of(specified(what, tensor(*shape, dtype=dtype, name="x"), arch_of(host)), host)


def specified(what: Pool, x: Tensor, arch: str | None = None, out: Tensor | None = None) -> Any:
    """Return the program of a pooling.

    Args:
        what: the pooling.
        x: the images, channels last.
        arch: the target; the GPU's where None.
        out: the result, where it has strides of its own.
    """
    program = getattr(programs("conv"), f"{what.op}_pool{len(what.window)}d")
    more: dict[str, Any]
    pads, more = what.pads, {"dilation": what.dilation}
    if what.op == "average":
        pads = tuple((before, min(before, behind)) for before, behind in what.pads)
        more = {"count_pad": what.count_pad, "beyond": tuple(max(0, b - a) for a, b in what.pads)}
    kind = x.dtype if what.op == "max" else None  # the largest of several numbers has their type
    return program(x, what.window, what.stride, pads, **more, arch=arch, out=kind if out is None else out)


def described(
    name: str, input: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:  # fmt: skip
    """Read the windows of a call: size, stride, padding and dilation along each side.

    Args:
        name: name of the function that is called.
        input: images, whose shape is read.
        kernel_size, stride, padding, dilation, ceil_mode: as the caller gives them.

    Raises:
        CallError: `wrong-shape`; `conv-sizes`; `conv-window`.
    """
    rank = int(name[-2])
    shape: tuple[Any, ...] = tuple(getattr(input, "shape", ()))
    if len(shape) != rank + 2:
        raise CallError(
            "wrong-shape",
            f"{name} takes images of {rank + 2} dims, not {list(shape)}",
            fix="give images (N, C, sides)",
        )
    window = each_side("kernel_size", kernel_size, rank)
    steps = window if stride is None else each_side("stride", stride, rank)
    apart, sizes = each_side("dilation", dilation, rank), each_side("padding", padding, rank)
    pads: list[tuple[int, int]] = []
    for side, taps, step, pad, d in zip(shape[2:], window, steps, sizes, apart, strict=True):
        reach = (taps - 1) * d + 1
        if 2 * pad > reach:
            raise CallError(
                "conv-window",
                f"padding={padding!r} of windows of {reach} pixels",
                fix="pad by half a window at most: more leaves windows wholly outside",
            )
        left = side + 2 * pad - reach
        if isinstance(left, int) and left < 0:
            raise CallError(
                "conv-window",
                f"windows of {reach} pixels are larger than a side of {side}, padded by {pad} and {pad}",
                fix="pad more, or use smaller windows",
            )
        # A window that begins inside, or in the padding before, and ends beyond the padding behind.
        more = -left % step if ceil_mode and (left // step + 1) * step < side + pad else 0
        pads.append((pad, pad + more))
    return window, steps, tuple(pads), apart


def op_of(name: str) -> str:
    """Return the operation, "max" or "average", of a function of torch (`max_pool2d`)."""
    return "max" if name.startswith("max") else "average"


def _pooled(
    name: str, input: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes = 1,
    ceil_mode: bool = False, count_pad: bool = True,
) -> Any:  # fmt: skip
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    if alone(name, input):
        return _pooled(name, input[None], *given, count_pad)[0]
    if is_torch(input):
        from fireiron.front.torch_pooling import pool as by_torch

        return by_torch(name, input, count_pad, *given)
    try:
        what = Pool(op_of(name), *described(name, input, *given), count_pad)
        facts = describe(input, "input")
        x = last(input)
        made = kernel(what, find_dtype(facts.dtype).name, tuple(x.shape), facts.is_host)(x)
    except FireironError as error:
        raise error.located(here()) from None
    found = made.transpose(0, made.ndim - 1, *range(1, made.ndim - 1))
    return found if lies_last(input) else copied(found)


def max_pool1d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Take the largest value of each window of lines (N, C, W), as `max_pool2d` does of images."""
    return _pooled("max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Take the largest value of each window, with torch's arguments.

    Tensors of torch go through an operator that torch.compile and torch.export trace, and that has gradients (torch's
    own kernels); arrays of NumPy are simulated where there is no GPU.

    Args:
        input: images (N, C, H, W), or one (C, H, W), of torch, CuPy or NumPy. Images with channels last in memory are
            not copied, and their results have channels last too.
        kernel_size: rows and columns of a window, one number or one for each side.
        stride: pixels from one window to the next; None for windows side by side.
        padding: pixels around the images, which are ignored; at most half a window.
        dilation: pixels from one value of a window to the next.
        ceil_mode: whether windows may end beyond the padding.

    Raises:
        CallError: `wrong-shape`, `conv-sizes`, `conv-window`, and as a kernel's call does.

    Example:
        >>> import numpy as np
        >>> max_pool2d(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), 2)[0, 0].tolist()
        [[5.0, 7.0], [13.0, 15.0]]
    """
    return _pooled("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Take the largest value of each window of volumes (N, C, D, H, W), as `max_pool2d` does of images."""
    return _pooled("max_pool3d", input, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Take the mean of each window of lines (N, C, W), as `avg_pool2d` does of images."""
    return _pooled("avg_pool1d", input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Take the mean of each window, with torch's arguments.

    Args:
        input, kernel_size, stride, padding: as in `max_pool2d`; padded pixels are 0.
        ceil_mode: whether windows may end beyond the padding; pixels there never count.
        count_include_pad: whether padded pixels count in the mean.

    Raises:
        CallError: as `max_pool2d`.

    Example:
        >>> import numpy as np
        >>> avg_pool2d(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), 2)[0, 0].tolist()
        [[2.5, 4.5], [10.5, 12.5]]
    """
    return _pooled("avg_pool2d", input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)


def avg_pool3d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Take the mean of each window of volumes (N, C, D, H, W), as `avg_pool2d` does of images."""
    return _pooled("avg_pool3d", input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)
