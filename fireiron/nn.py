"""Functions of networks for arrays: softmax, norms, activations, attention, convolutions, pooling.

Called with NumPy arrays, they compute. In a function that `fireiron.trace_graph` traces, they become nodes of the
graph.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fireiron.base.errors import FireironError
from fireiron.base.link import here
from fireiron.front import convolutions, pooling
from fireiron.front.convolutions import Padding, Sizes
from fireiron.graph.operations import axes_of, operations
from fireiron.graph.trace_array import Array
from fireiron.graph.trace_types import applied, kind_of, lifted

__all__ = [
    "attention", "avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv2d", "conv3d", "cross_entropy", "embedding",
    "erf", "gelu", "layer_norm", "log_softmax", "max_pool1d", "max_pool2d", "max_pool3d", "relu", "rms_norm", "rsqrt",
    "sigmoid", "silu", "softmax",
]  # fmt: skip


def _apply(op: str, *arrays: Any, **attributes: Any) -> Any:
    traced = next((x for x in arrays if isinstance(x, Array)), None)
    if traced is not None:
        builder = traced.builder
        return applied(builder, op, *(Array(builder, lifted(builder, x, traced.kind)) for x in arrays), **attributes)
    first = np.asarray(arrays[0])
    made = operations()[op].numpy(*(np.asarray(x) for x in arrays), **attributes)
    return made.astype(first.dtype)


def relu(x: Any) -> Any:
    """Replace negative values by zero."""
    return _apply("relu", x)


def sigmoid(x: Any) -> Any:
    """Compute 1 / (1 + exp(-x))."""
    return _apply("sigmoid", x)


def silu(x: Any) -> Any:
    """Compute x * sigmoid(x)."""
    return _apply("silu", x)


def erf(x: Any) -> Any:
    """Compute the error function of each element."""
    return _apply("erf", x)


def rsqrt(x: Any) -> Any:
    """Compute 1 / sqrt(x)."""
    return _apply("rsqrt", x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """Compute x * P(N <= x), where N has the standard normal distribution.

    Args:
        x: an array.
        approximate: "none", or "tanh" for the approximation by tanh.
    """
    return _apply("gelu", x, approximate=approximate)


def softmax(x: Any, axis: int = -1) -> Any:
    """Compute exp(x) / sum(exp(x)) along an axis."""
    return _apply("softmax", x, axis=axes_of(axis, x.ndim)[0])


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Compute log(softmax(x)) along an axis."""
    return _apply("log_softmax", x, axis=axes_of(axis, x.ndim)[0])


def layer_norm(x: Any, gain: Any = None, bias: Any = None, eps: float = 1e-5, dims: int = 1) -> Any:
    """Compute (x - mean) / sqrt(variance + eps) * gain + bias over the last axes.

    Args:
        x: an array.
        gain, bias: arrays of the shape of the last axes; None for none.
        eps: a number that is added to the variance.
        dims: number of axes, the last ones, over which x is normalised.
    """
    given = [a for a in (gain, bias) if a is not None]
    return _apply("layer_norm", x, *given, dims=dims, eps=eps, gain=gain is not None, bias=bias is not None)


def rms_norm(x: Any, gain: Any = None, eps: float = 1e-6, dims: int = 1) -> Any:
    """Compute x / sqrt(mean(x * x) + eps) * gain over the last axes; arguments as in `layer_norm`."""
    return _apply("rms_norm", x, *([] if gain is None else [gain]), dims=dims, eps=eps)


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None, causal: bool = False, lse: bool = False
) -> Any:
    """Compute softmax(q k' * scale + mask) v.

    Args:
        q, k, v: (..., I, D), (..., J, D), (..., J, E).
        mask: broadcast over (..., I, J). Floats are added to the scores; of integers or booleans, 0 or False hides a
            key from a query.
        scale: factor of the scores, 1 / sqrt(D) by default.
        causal: whether query i sees keys 0 to i only.
        lse: whether to return a second result in f32: for each query the logarithm of its sum of exponentials, -inf
            where the query sees no key.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    masks = [] if mask is None else [mask]
    made = _apply("attention", q, k, v, *masks, scale=scale, causal=causal)
    return (made, _apply("attention_sums", q, k, *masks, scale=scale, causal=causal)) if lse else made


def embedding(ids: Any, table: Any) -> Any:
    """Look up rows of a table by integers: `table[ids]`."""
    return _apply("gather", table, ids)


def segment_sum(lines: Any, ids: Any, size: int, axis: int = 0) -> Any:
    """Add up lines by their numbers: row v of the result is the sum of the lines whose number is v.

    Sums of floats are added in any order, so that their last bits may differ between runs.

    Args:
        lines: the lines along an axis, or along as many axes from this one on as `ids` has.
        ids: the number of each line, 0 to size - 1.
        size: number of rows of the result.
        axis: the first axis of the lines.

    Example:
        >>> import numpy as np
        >>> segment_sum(np.ones((3, 2), np.float32), np.array([1, 0, 1], np.int32), 2).tolist()
        [[1.0, 1.0], [2.0, 2.0]]
    """
    return _at_numbers("scatter_add", lines, ids, size, axis)


def segment_set(lines: Any, ids: Any, size: int, axis: int = 0) -> Any:
    """Put lines in zeros by their numbers: row v of the result is the line whose number is v, or 0 without any.

    Where several lines have one number, one of them is left.

    Args:
        lines: the lines along an axis, or along as many axes from this one on as `ids` has.
        ids: the number of each line, 0 to size - 1.
        size: number of rows of the result.
        axis: the first axis of the lines.

    Example:
        >>> import numpy as np
        >>> segment_set(np.array([[1, 2], [3, 4]], np.float32), np.array([2, 0], np.int32), 3).tolist()
        [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    """
    return _at_numbers("scatter_set", lines, ids, size, axis)


def _at_numbers(name: str, lines: Any, ids: Any, size: int, axis: int) -> Any:
    lead, behind = (1,) * axis, (1,) * (len(lines.shape) - axis - len(ids.shape))
    numbers = ids.reshape((*lead, *ids.shape, *behind))
    return _over_windows(name, lines, numbers, axis=axis, count=len(ids.shape), size=size)


def cross_entropy(x: Any, target: Any) -> Any:
    """Compute -log(softmax(x)[target]) of each row, where target is the index of a column."""
    return _apply("cross_entropy", x, target)


def _over_windows(op: str, *arrays: Any, **attributes: Any) -> Any:
    if any(isinstance(x, Array) for x in arrays):
        return _apply(op, *arrays, **attributes)
    known, given = operations()[op], [np.asarray(x) for x in arrays]
    known.shape([x.shape for x in given], attributes)
    kinds = [kind_of(x.dtype) for x in given]
    kind = kinds[0] if known.dtype is None else known.dtype(kinds, attributes)
    return known.numpy(*given, **attributes).astype(kind.numpy)


def _conv(
    name: str, x: Any, weight: Any, bias: Any, stride: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Any:
    try:
        steps, pads, apart = convolutions.described(name, x, weight, stride, padding, dilation, groups)
        given = (x, weight) if bias is None else (x, weight, bias)
        return _over_windows("conv", *given, stride=steps, pads=pads, dilation=apart, groups=groups)
    except FireironError as error:
        raise error.located(here()) from None


def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolve lines (N, C, W) with filters (K, C / groups, taps), as `conv2d` does images."""
    return _conv("conv1d", x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolve images, with torch's arguments and its order of axes.

    The order of axes says nothing about memory: plans store images between kernels with their channels last, and copy
    images and filters that are given otherwise, and images that are returned.

    Args:
        x: images (N, C, H, W).
        weight: filters (K, C / groups, taps, taps).
        bias: added to each channel of the result.
        stride: pixels from one window to the next, one number or one for each side.
        padding: zeros around: a number, one for each side, pairs (before, behind), "same" or "valid".
        dilation: pixels from one tap of a filter to the next.
        groups: number of parts of the channels, each of which is convolved with its own filters.

    Raises:
        CallError: `wrong-shape`, `conv-groups`, `conv-sizes`. SpecError: `conv-window`.

    Example:
        >>> conv2d(np.ones((1, 4, 6, 6)), np.ones((8, 4, 3, 3)), padding=1)[0, 0, 0].tolist()
        [16.0, 24.0, 24.0, 24.0, 24.0, 16.0]
    """
    return _conv("conv2d", x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolve volumes (N, C, D, H, W) with filters (K, C / groups, taps, taps, taps), as `conv2d` does images."""
    return _conv("conv3d", x, weight, bias, stride, padding, dilation, groups)


def _pool(
    name: str, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool,
    **counted: bool,
) -> Any:  # fmt: skip
    try:
        window, steps, pads, apart = pooling.described(name, x, kernel_size, stride, padding, dilation, ceil_mode)
        more: dict[str, Any] = {"dilation": apart} if name.startswith("max") else counted
        return _over_windows(f"{name[:3]}_pool", x, window=window, stride=steps, pads=pads, **more)
    except FireironError as error:
        raise error.located(here()) from None


def max_pool1d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Take the largest value of each window of lines (N, C, W), as `max_pool2d` does of images."""
    return _pool("max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Take the largest value of each window.

    Args:
        x: images (N, C, H, W); see `conv2d` for their order in memory.
        kernel_size: rows and columns of a window, one number or one for each side.
        stride: pixels from one window to the next; None for windows side by side.
        padding: pixels around the images, which are ignored; at most half a window.
        dilation: pixels from one value of a window to the next.
        ceil_mode: whether windows may end beyond the padding.

    Raises:
        CallError: `wrong-shape`, `conv-sizes`, `conv-window`.

    Example:
        >>> max_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2)[0, 0].tolist()
        [[5.0, 7.0], [13.0, 15.0]]
    """
    return _pool("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Take the largest value of each window of volumes (N, C, D, H, W), as `max_pool2d` does of images."""
    return _pool("max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Take the mean of each window of lines (N, C, W), as `avg_pool2d` does of images."""
    return _pool("avg_pool1d", x, kernel_size, stride, padding, 1, ceil_mode, count_pad=count_include_pad)


def avg_pool2d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Take the mean of each window.

    Args:
        x, kernel_size, stride, padding: as in `max_pool2d`; padded pixels are 0.
        ceil_mode: whether windows may end beyond the padding; pixels there never count.
        count_include_pad: whether padded pixels count in the mean.

    Raises:
        CallError: as `max_pool2d`.

    Example:
        >>> avg_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2)[0, 0].tolist()
        [[2.5, 4.5], [10.5, 12.5]]
    """
    return _pool("avg_pool2d", x, kernel_size, stride, padding, 1, ceil_mode, count_pad=count_include_pad)


def avg_pool3d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Take the mean of each window of volumes (N, C, D, H, W), as `avg_pool2d` does of images."""
    return _pool("avg_pool3d", x, kernel_size, stride, padding, 1, ceil_mode, count_pad=count_include_pad)
