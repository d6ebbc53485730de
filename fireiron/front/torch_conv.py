"""Convolutions as operators of torch, with gradients: torch.compile and torch.export trace them.

The gradients of images and filters are programs of `schedules.conv_gradients` and `schedules.depthwise_gradients`;
torch computes those of other groups that are too narrow for vectors. A transposed convolution is a gradient of images;
its own gradients are a convolution and a gradient of filters. Where a gradient needs the convolution before the epilog
(any activation except relu, a trained scale), the kernel computes the convolution alone, and torch computes the epilog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from fireiron.algebra.dtypes import default_result
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError
from fireiron.base.link import here
from fireiron.front import convolutions, transposed
from fireiron.front.convolutions import Convolution, check_activation, described, outer_of
from fireiron.front.convolutions import conv1d as conv1d
from fireiron.front.convolutions import conv2d as conv2d
from fireiron.front.convolutions import conv3d as conv3d
from fireiron.front.torch_arguments import wide
from fireiron.front.torch_ops import as_numpy, as_torch, routed
from fireiron.front.torch_repeated import copied, launched, repeats
from fireiron.front.transposed import conv_transpose1d as conv_transpose1d
from fireiron.front.transposed import conv_transpose2d as conv_transpose2d
from fireiron.front.transposed import conv_transpose3d as conv_transpose3d

torch: Any = import_module("torch")


@repeats
def conv(
    name: str, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, scale: Any,
    residual: Any, activation: str | None, dtype: str | None,
) -> Any:  # fmt: skip
    """Convolve tensors; see `fireiron.conv2d`."""
    steps, pads, apart = described(name, input, weight, stride, padding, dilation, groups)
    act = _activation(activation)
    kind = dtype or str(input.dtype).removeprefix("torch.")
    sizes = [*steps], [n for pair in pads for n in pair], [*apart], groups
    tensors = [x for x in (input, weight, bias, scale, residual) if x is not None]
    op = routed("conv", _run, *tensors)
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if learns and (act not in ("", "relu") or (scale is not None and scale.requires_grad)):
        made = op(input, weight, None if scale is not None else bias, None, None, *sizes, "", kind)
        shape = (1, -1, *(1,) * (input.dim() - 2))
        if scale is not None:
            made = made * scale.reshape(shape).to(made.dtype)
            made = made if bias is None else made + bias.reshape(shape).to(made.dtype)
        made = made if residual is None else made + residual
        return _ACTIVATIONS[act](made)
    return op(input, weight, bias, scale, residual, *sizes, act, kind)


_activation = torch.compiler.assume_constant_result(check_activation)
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x,
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def _of(
    images: Sequence[int], filters: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, dtype: str,
) -> Convolution:  # fmt: skip
    """Describe a convolution by the shapes of torch's tensors."""
    n, channels, *sides = images
    k, _, *taps = filters
    pads = tuple(zip(padding[::2], padding[1::2], strict=True))
    kind = find_dtype(dtype).name
    return Convolution(kind, n, tuple(sides), channels, k, tuple(taps), tuple(stride), pads, tuple(dilation), groups)


def channels_last(x: Any) -> Any:
    """Return a view with the channels last, or a copy where the channels are not contiguous."""
    return x.movedim(1, -1).contiguous()


def channels_first(x: Any) -> Any:
    """Return a copy with the channels, which come last, behind the number of images."""
    return x.movedim(-1, 1).contiguous()


def lies_last(x: Any) -> bool:
    """Say whether a tensor's channels are contiguous."""
    return not x.is_contiguous() and x.movedim(1, -1).is_contiguous()


def _run(
    input: Any, weight: Any, bias: Any, scale: Any, residual: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, activation: str, dtype: str,
) -> Any:  # fmt: skip
    what = _of(input.shape, weight.shape, stride, padding, dilation, groups, dtype)
    host = input.device.type != "cuda"
    given = {"bias": bias, "scale": scale, "residual": None if residual is None else copied(channels_last, residual)}
    given = {name: x.contiguous() for name, x in given.items() if x is not None}
    kinds = {name: find_dtype(str(x.dtype).removeprefix("torch.")).name for name, x in given.items()}
    x, f = copied(channels_last, input), copied(channels_last, weight)
    if host:
        x, f, given = as_numpy(x), as_numpy(f), {name: as_numpy(a) for name, a in given.items()}
    if input.numel() == 0:
        return _fake(input, weight, bias, scale, residual, stride, padding, dilation, groups, activation, dtype)
    made = convolutions.run(what, x, f, given, activation, host, kinds, launched)
    made = as_torch(made) if host else made
    return made.movedim(-1, 1) if lies_last(input) else copied(channels_first, made)


def _fake(
    input: Any, weight: Any, bias: Any, scale: Any, residual: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, activation: str, dtype: str,
) -> Any:  # fmt: skip
    pads = list(zip(padding[::2], padding[1::2], strict=True))
    outer = outer_of(input.shape[2:], weight.shape[2:], stride, pads, dilation)
    if any(n < 1 for n in outer):
        raise CallError(
            "conv-window",
            f"windows of the filters {list(weight.shape)} are larger than the padded images {list(input.shape)}",
            fix="pad more, or use smaller filters",
            link=here(),
        )
    kind = getattr(torch, default_result(find_dtype(dtype)).numpy_name)
    if lies_last(input):
        return input.new_empty((input.shape[0], *outer, weight.shape[0]), dtype=kind).movedim(-1, 1)
    return input.new_empty((input.shape[0], weight.shape[0], *outer), dtype=kind)


@repeats
def conv_transpose(
    name: str, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any, dtype: str | None,
) -> Any:  # fmt: skip
    """Compute a transposed convolution of tensors; see `fireiron.conv_transpose2d`."""
    kind = dtype or str(input.dtype).removeprefix("torch.")
    sides, (steps, pads, apart) = transposed.described(
        name, input, weight, stride, padding, output_padding, groups, dilation
    )
    size, zeros = (input.shape[0], weight.shape[1] * groups, *sides), [n for pair in pads for n in pair]
    op = routed("conv_transpose", _transposed, input, weight, bias)
    return op(input, weight, bias, size, steps, zeros, apart, groups, kind)


def _transposed(
    input: Any, weight: Any, bias: Any, size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, dtype: str,
) -> Any:  # fmt: skip
    made = _empty_images(input, weight, bias, size, stride, padding, dilation, groups, dtype)
    if made.numel() == 0 or input.numel() == 0:
        return made.zero_()
    what = _of(size, weight.shape, stride, padding, dilation, groups, dtype)
    host = input.device.type != "cuda"
    y, f, out = copied(channels_last, input), copied(channels_last, weight), made.movedim(1, -1)
    bias = None if bias is None else bias.contiguous()
    kind = "" if bias is None else find_dtype(str(bias.dtype).removeprefix("torch.")).name
    if host:
        y, f, out, bias = as_numpy(y), as_numpy(f), as_numpy(out), None if bias is None else as_numpy(bias)
    transposed.run(what, y, f, bias, kind, host, out, launched)
    return made


def _empty_images(
    input: Any, weight: Any, bias: Any, size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, dtype: str,
) -> Any:  # fmt: skip
    n, c, *sides = size
    kind = getattr(torch, default_result(find_dtype(dtype)).numpy_name)
    return input.new_empty((n, *sides, c), dtype=kind).movedim(-1, 1)


def _keep_transposed(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    input, weight, bias, _, stride, padding, dilation, ctx.groups, dtype = inputs
    ctx.save_for_backward(input, weight)
    ctx.of_bias, ctx.sizes = None if bias is None else bias.dtype, ([*stride], [*padding], [*dilation], dtype)


def _gradient_of_transposed(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """Return the gradients of a transposed convolution: a convolution, and a gradient of filters."""
    input, weight = ctx.saved_tensors
    *sizes, dtype = ctx.sizes
    ops, (by_input, by_weight, by_bias, *_) = torch.ops.fireiron, ctx.needs_input_grad
    g = gradient.to(input.dtype)
    pixels = (0, *range(2, input.dim()))
    of_weight: Any = None
    if by_weight and _of(gradient.shape, weight.shape, sizes[0], sizes[1], sizes[2], ctx.groups, dtype).has_gradients:
        of_weight = ops.conv_filters_gradient(input, g, weight.shape, *sizes, ctx.groups, dtype)
    elif by_weight:
        _, of_weight = _of_groups(input, g, weight, sizes[0], sizes[1], sizes[2], ctx.groups, (False, True))
    return (
        ops.conv(g, weight, None, None, None, *sizes, ctx.groups, "", dtype) if by_input else None,
        of_weight,
        gradient.sum(pixels, dtype=wide(gradient.dtype)).to(ctx.of_bias) if by_bias else None,
        *(None,) * 6,
    )


def _filters_gradient(
    gradient: Any, input: Any, size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, dtype: str,
) -> Any:  # fmt: skip
    if gradient.numel() == 0 or input.numel() == 0:
        return _empty_filters(gradient, input, size, stride, padding, dilation, groups, dtype).zero_()
    what = _of(input.shape, size, stride, padding, dilation, groups, dtype)
    y, x = channels_last(gradient), channels_last(input)
    if gradient.device.type == "cuda":
        return convolutions.run_filter_gradient(what, y, x, False).movedim(-1, 1)
    return as_torch(convolutions.run_filter_gradient(what, as_numpy(y), as_numpy(x), True)).movedim(-1, 1)


def _empty_filters(
    gradient: Any, input: Any, size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, dtype: str,
) -> Any:  # fmt: skip
    k, c, *taps = size
    return gradient.new_empty((k, *taps, c)).movedim(-1, 1)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    input, weight, bias, scale, residual, stride, padding, dilation, groups, activation, dtype = inputs
    ctx.save_for_backward(input, weight, scale, output if activation == "relu" else None)
    ctx.types = [None if x is None else x.dtype for x in (bias, residual)]
    ctx.sizes, ctx.groups, ctx.activation, ctx.dtype = ([*stride], [*padding], [*dilation]), groups, activation, dtype


def _gradient(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """Return the gradients of a convolution with an epilog of relu, bias, residual and a constant scale."""
    input, weight, scale, output = ctx.saved_tensors
    if output is not None:
        gradient = torch.where(output > 0, gradient, 0)
    of_bias, of_residual = ctx.types
    pixels = (0, *range(2, input.dim()))
    by_bias = (
        gradient.sum(pixels, dtype=wide(gradient.dtype)).to(of_bias) if of_bias and ctx.needs_input_grad[2] else None
    )
    by_residual = gradient.to(of_residual) if of_residual and ctx.needs_input_grad[4] else None
    g = gradient if scale is None else gradient * scale.reshape(1, -1, *(1,) * (input.dim() - 2))
    g = g.to(input.dtype)
    wanted = ctx.needs_input_grad[:2]
    stride, padding, dilation = ctx.sizes
    by_input: Any = None
    by_weight: Any = None
    sizes = (stride, padding, dilation)
    if _of(input.shape, weight.shape, stride, padding, dilation, ctx.groups, ctx.dtype).has_gradients:
        ops, last = torch.ops.fireiron, (*sizes, ctx.groups, ctx.dtype)
        by_input = ops.conv_transpose(g, weight, None, input.shape, *last) if wanted[0] else None
        by_weight = ops.conv_filters_gradient(g, input, weight.shape, *last) if wanted[1] else None
    else:
        by_input, by_weight = _of_groups(g, input, weight, stride, padding, dilation, ctx.groups, wanted)
    return by_input, by_weight, by_bias, None, by_residual, *(None,) * 6


def _of_groups(
    gradient: Any, input: Any, weight: Any, stride: list[int], padding: list[int], dilation: list[int], groups: int,
    wanted: Sequence[bool],
) -> tuple[Any, Any]:  # fmt: skip
    """Compute the gradients of a grouped convolution by torch; unequal padding is cut off afterwards."""
    padded = torch.nn.functional.pad(
        input, [n for i in reversed(range(len(stride))) for n in padding[2 * i : 2 * i + 2]]
    )
    none = [0] * len(stride)
    by_input, by_weight, _ = torch.ops.aten.convolution_backward(
        gradient, padded, weight, None, stride, none, dilation, False, none, groups, [*wanted, False]
    )
    if by_input is not None:
        for i, side in enumerate(input.shape[2:]):
            by_input = by_input.narrow(2 + i, padding[2 * i], side)
    return by_input, by_weight


_SIZES = "int[] stride, int[] padding, int[] dilation"
_conv = torch.library.custom_op(
    "fireiron::conv",
    _run,
    mutates_args=(),
    schema="(Tensor input, Tensor weight, Tensor? bias, Tensor? scale, Tensor? residual, "
    f"{_SIZES}, int groups, str activation, str dtype) -> Tensor",
)
_conv.register_fake(_fake)
_conv.register_autograd(_gradient, setup_context=_keep)
_conv_transpose = torch.library.custom_op(
    "fireiron::conv_transpose",
    _transposed,
    mutates_args=(),
    schema=f"(Tensor input, Tensor weight, Tensor? bias, SymInt[] size, {_SIZES}, int groups, str dtype) -> Tensor",
)
_conv_transpose.register_fake(_empty_images)
_conv_transpose.register_autograd(_gradient_of_transposed, setup_context=_keep_transposed)
torch.library.custom_op(
    "fireiron::conv_filters_gradient",
    _filters_gradient,
    mutates_args=(),
    schema=f"(Tensor gradient, Tensor input, SymInt[] size, {_SIZES}, int groups, str dtype) -> Tensor",
).register_fake(_empty_filters)
