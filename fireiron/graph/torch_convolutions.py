"""Convolutions and means of windows in training: torch computes the convolutions, and kernels what stands beside them.

Torch adds the bias to each result of cuDNN by a kernel of its own, and sums its gradient by another, slower one. As
operators of the graph, both join the operations around them. Convolutions of single pixels are matrix products. Means
of windows that lie side by side are folds.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")


def of_training() -> dict[Any, Any]:
    """Return by torch's operators the functions that part them; these return NotImplemented for other calls."""
    aten = torch.ops.aten
    return {
        aten.convolution.default: _convolution,
        aten.convolution_backward.default: _slopes,
        aten.avg_pool2d.default: _means,
        aten.avg_pool2d_backward.default: _of_means,
    }


def _convolution(x: Any, weight: Any, bias: Any, *how: Any) -> Any:
    if _of_pixels(x, weight, *how):
        if _channels_last(x):
            rows, filters = _pixels(x), _matrix(weight).t()
            return _with_channels(rows @ filters if bias is None else torch.addmm(bias, rows, filters), x)
        made = _matrix(weight) @ x.flatten(2)
        return (made if bias is None else made + bias.unsqueeze(-1)).unflatten(2, x.shape[2:])
    if bias is None or not x.is_floating_point():
        return NotImplemented
    made = torch.ops.aten.convolution.default(x, weight, None, *how)
    return made + bias.reshape(-1, *[1] * (made.dim() - 2))


def _slopes(dy: Any, x: Any, weight: Any, sizes: Any, *given: Any) -> Any:
    *how, wanted = given
    product = _of_pixels(x, weight, *how)
    if not product and (not wanted[2] or not dy.is_floating_point()):
        return NotImplemented
    axes = [a for a in range(dy.dim()) if a != 1]
    by_bias = dy.sum(axes, dtype=torch.promote_types(dy.dtype, torch.float32)).to(dy.dtype) if wanted[2] else None
    if not wanted[0] and not wanted[1]:
        return None, None, by_bias
    if product:
        by_x, by_weight = _slopes_of_pixels(dy, x, weight)
        return by_x if wanted[0] else None, by_weight if wanted[1] else None, by_bias
    by_x, by_weight, _ = torch.ops.aten.convolution_backward.default(
        dy, x, weight, None, *how, [wanted[0], wanted[1], False]
    )
    return by_x, by_weight, by_bias


def _of_pixels(
    x: Any, weight: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    beyond: Sequence[int], groups: int,
) -> bool:  # fmt: skip
    """Say whether a convolution of 16-bit floats reads one pixel for each: a product of pixels and filters."""
    alone = all(n == 1 for n in (*weight.shape[2:], *stride)) and not any(padding) and groups == 1 and not transposed
    return alone and x.dtype in (torch.float16, torch.bfloat16) and x.dim() > 2 and 0 not in (*x.shape, *weight.shape)


def _channels_last(x: Any) -> bool:
    """Say whether the channels of a pixel follow each other in memory."""
    return x.movedim(1, -1).is_contiguous()


def _matrix(weight: Any) -> Any:
    return weight.flatten(1)


def _pixels(x: Any) -> Any:
    """Return images as a matrix with a row for each pixel."""
    return x.movedim(1, -1).flatten(0, -2)


def _with_channels(rows: Any, like: Any) -> Any:
    """Return the rows of pixels as images of a shape, with channels last in memory."""
    return rows.unflatten(0, (like.shape[0], *like.shape[2:])).movedim(-1, 1)


def _slopes_of_pixels(dy: Any, x: Any, weight: Any) -> tuple[Any, Any]:
    """Return the gradients of images and of filters."""
    if _channels_last(x):
        by_pixels = _pixels(dy)
        by_weight = by_pixels.t() @ _pixels(x)
        return _with_channels(by_pixels @ _matrix(weight), x), by_weight.reshape(weight.shape)
    by_lines = dy.flatten(2)
    wide = torch.promote_types(dy.dtype, torch.float32)
    by_weight = (by_lines @ x.flatten(2).mT).sum(0, dtype=wide).to(weight.dtype)
    return (_matrix(weight).t() @ by_lines).unflatten(2, x.shape[2:]), by_weight.reshape(weight.shape)


def _windows(
    x: Any, size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,), ceil: bool = False,
    count: bool = True, divisor: int | None = None,
) -> tuple[int, int] | None:  # fmt: skip
    """Return the sides of windows that part an image; None for windows that overlap, leave pixels out, or pass it."""
    high, wide = (size[0], size[-1])
    beside = not stride or (stride[0], stride[-1]) == (high, wide)
    whole = x.shape[-2] % high == 0 and x.shape[-1] % wide == 0
    plain = not any(padding) and divisor is None and x.is_floating_point() and x.numel() > 0
    return (high, wide) if beside and whole and plain else None


def _means(x: Any, *how: Any, **named: Any) -> Any:
    windows = _windows(x, *how, **named)
    if windows is None:
        return NotImplemented
    parted = x.unflatten(-1, (-1, windows[1])).unflatten(-3, (-1, windows[0]))
    return parted.mean((-3, -1), dtype=torch.promote_types(x.dtype, torch.float32)).to(x.dtype)


def _of_means(dy: Any, x: Any, *how: Any, **named: Any) -> Any:
    windows = _windows(x, *how, **named)
    if windows is None:
        return NotImplemented
    high, wide = windows
    each = (dy / (high * wide)).unsqueeze(-1).unsqueeze(-3)
    *ahead, rows, _, columns, _ = each.shape
    return each.expand(*ahead, rows, high, columns, wide).reshape(x.shape)
