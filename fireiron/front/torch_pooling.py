"""Pooling as an operator of torch, with gradients: torch.compile and torch.export trace it.

Gradients are torch's own kernels, which find the largest values again.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.front import pooling
from fireiron.front.pooling import Pool
from fireiron.front.pooling import avg_pool1d as avg_pool1d
from fireiron.front.pooling import avg_pool2d as avg_pool2d
from fireiron.front.pooling import avg_pool3d as avg_pool3d
from fireiron.front.pooling import max_pool1d as max_pool1d
from fireiron.front.pooling import max_pool2d as max_pool2d
from fireiron.front.pooling import max_pool3d as max_pool3d
from fireiron.front.torch_arguments import wide
from fireiron.front.torch_conv import channels_first, channels_last, lies_last
from fireiron.front.torch_ops import as_numpy, as_torch, routed
from fireiron.front.torch_repeated import copied, launched, repeats

torch: Any = import_module("torch")


@repeats
def pool(name: str, input: Any, count_pad: bool, *given: Any) -> Any:
    """Pool tensors; see `fireiron.max_pool2d`."""
    window, stride, pads, dilation = pooling.described(name, input, *given)
    sizes = window, stride, [n for pair in pads for n in pair], dilation
    return routed("pool", _run, input)(input, pooling.op_of(name), *sizes, count_pad)


def _of(
    op: str, window: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], count: bool
) -> Pool:
    pads = tuple(zip(padding[::2], padding[1::2], strict=True))
    return Pool(op, tuple(window), tuple(stride), pads, tuple(dilation), count)


def _run(input: Any, *given: Any) -> Any:
    if input.numel() == 0:
        return _fake(input, *given)
    x, host = copied(channels_last, input), input.device.type != "cuda"
    kind = find_dtype(str(input.dtype).removeprefix("torch.")).name
    kernel = pooling.kernel(_of(*given), kind, tuple(x.shape), host)
    made = as_torch(kernel(as_numpy(x))) if host else launched(kernel, x)
    return made.movedim(-1, 1) if lies_last(input) else copied(channels_first, made)


def _fake(input: Any, *given: Any) -> Any:
    what = _of(*given)
    outer = what.outer(tuple(input.shape[2:]))
    kind = input.dtype if what.op == "max" or input.dtype.is_floating_point else torch.float32
    if lies_last(input):
        return input.new_empty((input.shape[0], *outer, input.shape[1]), dtype=kind).movedim(-1, 1)
    return input.new_empty((*input.shape[:2], *outer), dtype=kind)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    input, *given = inputs
    ctx.save_for_backward(input)
    ctx.given = [[*x] if isinstance(x, list | tuple) else x for x in given]


def _gradient(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """Return the gradient of images by torch's kernels; lines count as images of one row."""
    (input,) = ctx.saved_tensors
    op, window, stride, padding, dilation, count = ctx.given
    if len(window) == 1:
        gradient, input = gradient.unsqueeze(2), input.unsqueeze(2)
        window, stride, dilation, padding = [1, *window], [1, *stride], [1, *dilation], [0, 0, *padding]
    kind = input.dtype
    if input.device.type != "cuda":  # not all of torch's kernels for the CPU take 16-bit floats
        gradient, input = gradient.to(wide(kind)), input.to(wide(kind))
    if op == "average":
        back = getattr(torch.ops.aten, f"avg_pool{len(window)}d_backward")
        ceil = padding[::2] != padding[1::2]
        found = back(gradient.contiguous(), input.contiguous(), window, stride, padding[::2], ceil, count, None)
    else:
        found = _of_largest(gradient, input, window, stride, padding, dilation)
    found = found.squeeze(2) if len(ctx.given[1]) == 1 else found
    return found.to(kind), *(None,) * 6


def _of_largest(gradient: Any, input: Any, window: Any, stride: Any, padding: list[int], dilation: Any) -> Any:
    """Add each window's gradient to the first of its largest values; unequal padding is cut off afterwards."""
    rank, aten, none = len(window), torch.ops.aten, [0] * len(window)
    around = [n for i in reversed(range(rank)) for n in padding[2 * i : 2 * i + 2]]
    padded = torch.nn.functional.pad(input, around, value=float("-inf")).contiguous()
    forward, back = (getattr(aten, f"max_pool{rank}d_with_indices{end}") for end in ("", "_backward"))
    _, places = forward(padded, window, stride, none, dilation, False)
    found = back(gradient.contiguous(), padded, window, stride, none, dilation, False, places)
    for i, side in enumerate(input.shape[2:]):
        found = found.narrow(2 + i, padding[2 * i], side)
    return found


_pool = torch.library.custom_op(
    "fireiron::pool",
    _run,
    mutates_args=(),
    schema="(Tensor input, str op, int[] window, int[] stride, int[] padding, int[] dilation, bool count_pad)"
    " -> Tensor",
)
_pool.register_fake(_fake)
_pool.register_autograd(_gradient, setup_context=_keep)
