"""More operators of torch on rows: cumsum, topk, group norm, rotary embedding, dropout with a norm, int8 RMS norm.

Each operator is a program of `fireiron.schedules.rows`. Tensors on the CPU are simulated.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from math import prod
from typing import Any

from fireiron.algebra.expr import symbol
from fireiron.base.errors import CallError
from fireiron.base.link import here
from fireiron.front.cli.find import PRESETS
from fireiron.front.fallback import ready
from fireiron.front.program import program
from fireiron.front.torch_arguments import along, check_floats, check_residual, normalised, place_of, rows_of, wide
from fireiron.front.torch_ops import as_numpy, as_torch, routed
from fireiron.front.torch_repeated import launched, repeats
from fireiron.front.torch_rows import of_layer_norm
from fireiron.jit.kernel import as_tuple
from fireiron.language import reductions, subscripts
from fireiron.language.functions import equal
from fireiron.language.pointwise import Value, where
from fireiron.language.tensor import Matrix, Tensor, Vector, tensor

torch: Any = import_module("torch")

MOST_OF_TOP = 8


@program(x="m n")
def top_in_words(x: Value, k: int = 8) -> tuple[Value, Value]:
    """Find the k largest values of each row and their columns; a column is an i64 in two words, the low word first."""
    values, columns = reductions.topk(x, "n", k)
    return values, where(equal(subscripts.dim("word", 2), 0), columns, 0)


@functools.lru_cache(maxsize=512)
def _kernel(name: str, sizes: tuple[int, ...], kinds: tuple[str, ...], numbers: tuple[float, ...], host: bool) -> Any:
    """Make the kernel of a program for any number of rows.

    Args:
        name: the program's name in `fireiron.schedules.rows`.
        sizes: the extents of one row: its width; for a group norm the groups, the channels of a group and the other
            extents; for a rotary embedding the heads and their width.
        kinds: element types of the arrays.
        numbers: eps, k, or the fraction of elements that dropout keeps.
        host: whether the kernel is simulated.
    """
    rows, pointwise = (import_module(f"{PRESETS}.{word}") for word in ("rows", "pointwise"))
    lines, arch = symbol("M"), "sm_89" if host else None
    kind, beside = kinds[0], next((k for k in reversed(kinds) if k != "uint8"), kinds[0])

    def matrix(word: str, dtype: str = kind) -> Tensor:
        return Matrix(lines, sizes[0], dtype, name=word)

    match name:
        case "cumsum":
            schedule = rows.row(rows.cumsum(matrix("x"), arch=arch))
        case "top":
            count = int(numbers[0])
            pairs = tensor(lines, 2, count, dtype="i32", name="indices", strides=(2 * count, 1, 2))
            schedule = rows.row(top_in_words(matrix("x"), count, out=(kind, pairs), arch=arch))
        case "group_norm":
            x = tensor(lines, *sizes, dtype=kind, name="x")
            gain, bias = (tensor(*sizes[:2], dtype=beside, name=word) for word in ("gain", "bias"))
            schedule = rows.row(rows.group_norm(x, gain, bias, eps=numbers[0], arch=arch))
        case "dropped_add_layernorm":
            gain, bias = (Vector(sizes[0], beside, name=word) for word in ("gain", "bias"))
            given = (matrix("x"), matrix("residual"), gain, bias, matrix("mask", "u8"))
            schedule = rows.row(rows.dropped_add_layernorm(*given, keep=numbers[0], eps=numbers[1], arch=arch))
        case "quantised_rms_norm":
            gain = Vector(sizes[0], beside, name="gain")
            spec = rows.quantised_rms_norm(matrix("x"), gain, eps=numbers[0], out=("i8", "f32"), arch=arch)
            schedule = rows.row(spec)
        case "rotary_pairs":
            x = tensor(1, lines, *sizes, dtype=kind, name="x")
            schedule = pointwise.pointwise(rows.rotary_pairs(x, *_angles(lines, sizes, beside), arch=arch))
        case _:
            heads, width = sizes
            strides = (lines * heads * width, heads * width, width, 1)
            a, b, *out = (
                tensor(1, lines, heads, width // 2, dtype=kind, name=word, strides=strides) for word in "abcd"
            )
            spec = rows.rotary(a, b, *_angles(lines, sizes, beside), out=tuple(out), arch=arch)
            schedule = pointwise.pointwise(spec)
    return ready(schedule, host)


def _angles(lines: Any, sizes: Sequence[int], kind: str) -> tuple[Tensor, Tensor]:
    return tensor(lines, sizes[1] // 2, dtype=kind, name="cos"), tensor(lines, sizes[1] // 2, dtype=kind, name="sin")


def _run(
    name: str, sizes: Sequence[int], arrays: Sequence[Any], numbers: Sequence[float] = (), out: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """Run a program on tensors; return its results, written to `out` where given."""
    host = arrays[0].device.type != "cuda"
    kinds = tuple(str(x.dtype).removeprefix("torch.") for x in arrays)
    kernel = _kernel(name, tuple(sizes), kinds, tuple(numbers), host)
    given = [as_numpy(x) for x in arrays] if host else arrays
    if out:
        into = tuple(as_numpy(x) if host else x for x in out)
        if host:
            kernel(*given, out=into)
        else:
            launched(kernel, *given, out=into)
        return tuple(out)
    made = as_tuple(kernel(*given) if host else launched(kernel, *given))
    return tuple(as_torch(x) if host else x for x in made)


@repeats
def cumsum(input: Any, dim: int = -1) -> Any:
    """Compute the running sums along a dim, as `torch.cumsum` does.

    Args:
        input: a tensor of floats.
        dim: any dim; the tensor is copied unless this is its last dim.
    """
    check_floats("cumsum", input)
    return along(routed("cumsum", _cumsum, input), input, dim)


@repeats
def topk(input: Any, k: int, dim: int = -1) -> tuple[Any, Any]:
    """Find the k largest elements of each row and their indices, in falling order, as `torch.topk` does.

    Args:
        input: rows of floats. Equal elements keep their order.
        k: number of elements, 2 to 8.
        dim: the last dim.

    Raises:
        CallError: `wrong-shape`.
    """
    check_floats("topk", input)
    if not input.dim() or place_of(input, dim) != input.dim() - 1 or not 2 <= k <= min(MOST_OF_TOP, input.shape[-1]):
        raise CallError(
            "wrong-shape",
            f"topk takes 2 to {MOST_OF_TOP} elements of rows along the last dim, not {k} of {list(input.shape)} "
            f"along {dim}",
            fix="use torch.topk",
        )
    values, indices = routed("topk", _topk, input)(input, k)
    return values, indices


@repeats
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Normalise groups of channels, as `torch.nn.functional.group_norm` does.

    Raises:
        CallError: `wrong-shape` where groups do not divide the channels.
    """
    check_floats("group_norm", input, weight, bias)
    channels = input.shape[1] if input.dim() > 1 else 0
    fine = channels and num_groups > 0 and channels % num_groups == 0
    if not fine or any(w is not None and tuple(w.shape) != (channels,) for w in (weight, bias)):
        raise CallError(
            "wrong-shape",
            f"{num_groups} groups do not divide {channels} channels, or the weights do not have one value per channel",
            fix="give a number of groups that divides the channels, and weights of one value per channel",
        )
    kind = next((w for w in (weight, bias) if w is not None), input).dtype
    weight = input.new_ones(channels, dtype=kind) if weight is None else weight
    bias = input.new_zeros(channels, dtype=kind) if bias is None else bias
    return routed("group_norm", _group_norm, input, weight, bias)(input, num_groups, weight, bias, eps)


def dropout_add_layer_norm(
    input: Any,
    residual: Any,
    normalized_shape: Sequence[int],
    weight: Any,
    bias: Any,
    p: float = 0.5,
    training: bool = True,
    eps: float = 1e-5,
) -> tuple[Any, Any]:
    """Drop elements of `input` with probability p, add a residual; return the layer norm of the sum, and the sum.

    Args:
        input, residual: rows.
        normalized_shape: the last dim.
        weight, bias: one value per column.
        p: the probability, below 1. torch's generator draws the mask.
        training: whether elements are dropped.
        eps: the number that is added to the variance.

    Raises:
        CallError: `wrong-shape`.
    """
    check_floats("dropout_add_layer_norm", input, residual, weight, bias)
    check_residual(input, residual)
    normalised(input, normalized_shape, weight, bias)
    if weight.dim() != 1 or not 0 <= p < 1:
        raise CallError(
            "wrong-shape",
            f"normalized_shape={[*weight.shape]} and p={p} are given for rows of {input.shape[-1]} elements",
            fix=f"give normalized_shape={list(input.shape[-1:])}, and p of 0 or more and below 1",
            link=here(),
        )
    keep = 1 - p if training else 1.0
    mask = torch.empty_like(input, dtype=torch.uint8).bernoulli_(keep)
    op = routed("dropout_add_layer_norm", _dropout_add_layer_norm, input, residual, weight, bias, mask)
    return op(input, residual, weight, bias, mask, keep, eps)


@repeats
def quantized_rms_norm(input: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    """Compute the RMS norm of rows in int8, and a scale per row: the norm is about `values * scales[..., None]`."""
    check_floats("quantized_rms_norm", input, weight)
    normalised(input, input.shape[-1:], weight)
    values, scales = routed("quantized_rms_norm", _quantized_rms_norm, input, weight)(input, weight, eps)
    return values, scales


@repeats
def apply_rotary_emb(x: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    """Apply a rotary embedding: turn pairs of elements of each head by the angles of its position.

    Args:
        x: batch x positions x heads x width.
        cos, sin: positions x width / 2.
        interleaved: whether a pair is x[..., 2p] and x[..., 2p + 1]. By default a pair is x[..., p] and x[..., p +
            width / 2].

    Raises:
        CallError: `wrong-shape`.
    """
    check_floats("apply_rotary_emb", x, cos, sin)
    places, width = (x.shape[1], x.shape[3]) if x.dim() == 4 else (0, 1)
    if width % 2 or any(tuple(t.shape) != (places, width // 2) for t in (cos, sin)):
        raise CallError(
            "wrong-shape",
            f"x has the shape {list(x.shape)}, cos {list(cos.shape)} and sin {list(sin.shape)}",
            fix="give x as batch x positions x heads x width, and cos and sin as positions x width / 2",
        )
    return routed("rotary", _rotary, x, cos, sin)(x, cos, sin, interleaved)


def _cumsum(input: Any) -> Any:
    if input.numel() == 0:
        return torch.empty_like(input)
    return _run("cumsum", input.shape[-1:], [rows_of(input)])[0].reshape(input.shape)


def _cumsum_gradient(ctx: Any, gradient: Any) -> Any:
    return torch.ops.fireiron.cumsum(gradient.flip(-1).contiguous()).flip(-1)


def _topk(input: Any, k: int) -> Any:
    if input.numel() == 0:
        return _k_of(input, k)
    values, words = _run("top", input.shape[-1:], [rows_of(input)], [k])
    indices = words.view(torch.int64)
    shape = (*input.shape[:-1], k)
    return values.reshape(shape), indices.reshape(shape)


def _k_of(input: Any, k: int) -> Any:
    shape = (*input.shape[:-1], k)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int64)


def _keep_indices(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1])
    ctx.shape = inputs[0].shape
    ctx.mark_non_differentiable(output[1])


def _topk_gradient(ctx: Any, gradient: Any, _: Any) -> Any:
    (indices,) = ctx.saved_tensors
    return gradient.new_zeros(ctx.shape).scatter(-1, indices, gradient), None


def _group_norm(input: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
    if input.numel() == 0:
        return torch.empty_like(input)
    each = input.shape[1] // groups
    sizes = (groups, each, prod(input.shape[2:]))
    arrays = [input.reshape(-1, *sizes).contiguous(), *(w.reshape(groups, each).contiguous() for w in (weight, bias))]
    return _run("group_norm", sizes, arrays, [eps])[0].reshape(input.shape)


def _group_norm_gradient(ctx: Any, gradient: Any) -> Any:
    x, weight = ctx.saved_tensors
    if x.numel() == 0:
        return torch.empty_like(x), None, torch.zeros_like(weight), torch.zeros_like(weight), None
    groups, shape, kind = ctx.groups, x.shape, wide(x.dtype)
    parts = (shape[0], groups, shape[1] // groups, prod(shape[2:]))
    values, g = (t.to(kind).reshape(parts) for t in (x, gradient))
    gain = weight.to(kind).reshape(1, groups, -1, 1)
    variance, mean = torch.var_mean(values, (2, 3), correction=0, keepdim=True)
    deviation = torch.rsqrt(variance + ctx.eps)
    normed, scaled = (values - mean) * deviation, g * gain
    pull = (scaled * normed).mean((2, 3), keepdim=True)
    by_x = (scaled - scaled.mean((2, 3), keepdim=True) - normed * pull) * deviation
    by_weights = ((g * normed).sum((0, 3)).reshape(-1), g.sum((0, 3)).reshape(-1))
    return by_x.reshape(shape).to(x.dtype), None, *(t.to(weight.dtype) for t in by_weights), None


def _keep_groups(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.groups, weight, _, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _dropout_add_layer_norm(
    input: Any, residual: Any, weight: Any, bias: Any, mask: Any, keep: float, eps: float
) -> Any:
    if input.numel() == 0:
        return torch.empty_like(input), torch.empty_like(input)
    arrays = [rows_of(input), rows_of(residual), weight.contiguous(), bias.contiguous(), rows_of(mask)]
    made = _run("dropped_add_layernorm", input.shape[-1:], arrays, [keep, eps])
    return tuple(x.reshape(input.shape) for x in made)


def _two_like(input: Any, *others: Any) -> Any:
    return torch.empty_like(input), torch.empty_like(input)


def _keep_dropped(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, weight, _, mask, ctx.keep, ctx.eps = inputs
    ctx.save_for_backward(output[1], weight, mask)


def _dropped_gradient(ctx: Any, gradient: Any, by_sum: Any) -> Any:
    total, weight, mask = ctx.saved_tensors
    by_x, *by_weights = of_layer_norm(total, gradient, weight, ctx.eps, ctx.needs_input_grad[2:4], by_sum)
    return by_x * mask / ctx.keep, by_x, *by_weights, None, None, None


def _quantized_rms_norm(input: Any, weight: Any, eps: float) -> Any:
    if input.numel() == 0:
        return _quantized(input, weight, eps)
    values, scales = _run("quantised_rms_norm", input.shape[-1:], [rows_of(input), weight.contiguous()], [eps])
    return values.reshape(input.shape), scales.reshape(input.shape[:-1])


def _quantized(input: Any, weight: Any, eps: float) -> Any:
    return input.new_empty(input.shape, dtype=torch.int8), input.new_empty(input.shape[:-1], dtype=torch.float32)


def _rotary(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    if x.numel() == 0:
        return _like(x)
    batch, places, heads, width = x.shape
    lines = x.contiguous().reshape(1, batch * places, heads, width)
    angles = [t.repeat(batch, 1).contiguous() for t in (cos, sin)]
    if interleaved:
        return _run("rotary_pairs", (heads, width), [lines, *angles])[0].reshape(x.shape)
    made, half = torch.empty_like(lines), width // 2
    _run(
        "rotary",
        (heads, width),
        [lines[..., :half], lines[..., half:], *angles],
        (),
        [made[..., :half], made[..., half:]],
    )
    return made.reshape(x.shape)


def _like(x: Any, *others: Any) -> Any:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep_angles(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[1:3])
    ctx.interleaved = inputs[3]


def _rotary_gradient(ctx: Any, gradient: Any) -> Any:
    cos, sin = ctx.saved_tensors
    return torch.ops.fireiron.rotary(gradient.contiguous(), cos, -sin, ctx.interleaved), None, None, None


def _nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """Save no tensor for the gradient."""


def _register(name: str, run: Any, schema: str, fake: Any, keep: Any = None, gradient: Any = None) -> None:
    op = torch.library.custom_op(f"fireiron::{name}", run, mutates_args=(), schema=schema)
    op.register_fake(fake)
    if gradient is not None:
        op.register_autograd(gradient, setup_context=keep)


TWO = "(Tensor, Tensor)"
_register("cumsum", _cumsum, "(Tensor input) -> Tensor", _like, _nothing, _cumsum_gradient)
_register("topk", _topk, f"(Tensor input, int k) -> {TWO}", _k_of, _keep_indices, _topk_gradient)
_register(
    "group_norm", _group_norm, "(Tensor input, int groups, Tensor weight, Tensor bias, float eps) -> Tensor",
    _like, _keep_groups, _group_norm_gradient,
)  # fmt: skip
_register(
    "dropout_add_layer_norm", _dropout_add_layer_norm,
    f"(Tensor input, Tensor residual, Tensor weight, Tensor bias, Tensor mask, float keep, float eps) -> {TWO}",
    _two_like, _keep_dropped, _dropped_gradient,
)  # fmt: skip
_register("quantized_rms_norm", _quantized_rms_norm, f"(Tensor input, Tensor weight, float eps) -> {TWO}", _quantized)
_register(
    "rotary", _rotary, "(Tensor x, Tensor cos, Tensor sin, bool interleaved) -> Tensor", _like, _keep_angles,
    _rotary_gradient,
)  # fmt: skip
