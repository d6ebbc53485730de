"""Operators of torch on rows: softmax and the norms, with torch's names and arguments, and their gradients.

Each is a program of `fireiron.schedules.rows`, as the gradients along rows are; gradients of weights, which add up
rows, are torch's own sums. Tensors on the CPU are simulated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from fireiron.algebra.expr import symbol
from fireiron.base.errors import CallError
from fireiron.front.cli.find import PRESETS
from fireiron.front.host import HostKernel, without_gpu
from fireiron.front.program import program
from fireiron.front.torch_ops import as_numpy, as_torch
from fireiron.jit.kernel import as_tuple
from fireiron.language import trace
from fireiron.language.functions import exp
from fireiron.language.pointwise import Value
from fireiron.language.tensor import Matrix, Vector

torch: Any = import_module("torch")


def _rows() -> ModuleType:
    return import_module(f"{PRESETS}.rows")


@program(y="m n", dy="m n")
def log_softmax_backward(y: Value, dy: Value) -> Value:
    """Take the gradient of log_softmax from its result."""
    return dy - exp(y) * trace.sum(dy, "n")


@functools.lru_cache(maxsize=512)
def _kernel(name: str, shapes: tuple[tuple[int, str] | None, ...], eps: float | None, host: bool) -> Any:
    """Make the kernel of a program for arrays of one width, of any number of rows.

    Args:
        name: of the program, here or among the presets.
        shapes: of each array the rank and the element type, None for one that is left out; the width stands first.
        eps: of the norms.
        host: whether it is simulated.
    """
    rows = _rows()
    width, *arrays = shapes
    assert width is not None
    described: list[Any] = [
        None
        if one is None
        else Matrix(symbol("M"), width[0], one[1], name=f"x{i}")
        if one[0] == 2
        else Vector(width[0], one[1], name=f"x{i}")
        for i, one in enumerate(arrays)
    ]
    function: Any = log_softmax_backward if name == "log_softmax_backward" else getattr(rows, name)
    given = {} if eps is None else {"eps": eps}
    schedule = rows.row(function(*described, arch="sm_89" if host else None, **given))
    return HostKernel(schedule.lowered()) if host and without_gpu() else schedule.compile()


def _run(name: str, arrays: Sequence[Any], eps: float | None = None) -> Any:
    """Run a program on tensors, whose leading dimensions are rows."""
    first = next(x for x in arrays if x is not None)
    width = first.shape[-1]
    flat = [None if x is None else x.reshape(-1, width).contiguous() if x.dim() > 1 else x for x in arrays]
    if first.numel() == 0:
        made: Any = [torch.empty_like(first) for _ in range(2 if name.startswith("add_") else 1)]
        return tuple(made) if len(made) > 1 else made[0]
    kinds = tuple(None if x is None else (x.dim(), str(x.dtype).removeprefix("torch.")) for x in flat)
    host = first.device.type != "cuda"
    kernel = _kernel(name, ((width, ""), *kinds), eps, host)
    given = [x for x in flat if x is not None]
    made = kernel(*map(as_numpy, given)) if host else kernel(*given)
    shaped = [(as_torch(x) if host else x).reshape(first.shape) for x in as_tuple(made)]
    return tuple(shaped) if len(shaped) > 1 else shaped[0]


def softmax(input: Any, dim: int = -1) -> Any:
    """Take the softmax along a dim, as `torch.softmax` does.

    Args:
        input: a tensor of floats.
        dim: any; another one than the last takes a copy.
    """
    return _along(torch.ops.fireiron.softmax, input, dim)


def log_softmax(input: Any, dim: int = -1) -> Any:
    """Take the logarithm of the softmax along a dim, as `torch.log_softmax` does."""
    return _along(torch.ops.fireiron.log_softmax, input, dim)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalise over the last dims, as `torch.nn.functional.layer_norm` does."""
    x, (weight, bias) = _normalized(input, normalized_shape, weight, bias)
    return torch.ops.fireiron.layer_norm(x, weight, bias, eps).reshape(input.shape)


def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """Divide by the root mean square over the last dims, as `torch.nn.functional.rms_norm` does."""
    x, (weight,) = _normalized(input, normalized_shape, weight)
    return torch.ops.fireiron.rms_norm(x, weight, _eps(input, eps)).reshape(input.shape)


def add_layer_norm(
    input: Any, residual: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float = 1e-5
) -> tuple[Any, Any]:
    """Add a residual, and give the sum's layer norm and the sum."""
    x, (weight, bias) = _normalized(input, normalized_shape, weight, bias)
    made, total = torch.ops.fireiron.add_layer_norm(x, residual.reshape(x.shape), weight, bias, eps)
    return made.reshape(input.shape), total.reshape(input.shape)


def add_rms_norm(
    input: Any, residual: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None = None
) -> tuple[Any, Any]:
    """Add a residual, and give the sum's RMS norm and the sum."""
    x, (weight,) = _normalized(input, normalized_shape, weight)
    made, total = torch.ops.fireiron.add_rms_norm(x, residual.reshape(x.shape), weight, _eps(input, eps))
    return made.reshape(input.shape), total.reshape(input.shape)


def _along(op: Callable[[Any], Any], input: Any, dim: int) -> Any:
    last = dim in (-1, input.dim() - 1)
    return op(input) if last else op(input.movedim(dim, -1).contiguous()).movedim(-1, dim)


def _eps(input: Any, eps: float | None) -> float:
    return torch.finfo(input.dtype).eps if eps is None else eps


def _normalized(input: Any, normalized_shape: Sequence[int], *weights: Any) -> tuple[Any, list[Any]]:
    """Give the last dims as one.

    Raises:
        CallError: `wrong-shape`.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    wrong = tuple(input.shape[-len(shape) :]) != shape or any(
        w is not None and tuple(w.shape) != shape for w in weights
    )
    if not shape or wrong:
        shapes = ", ".join(str(tuple(x.shape)) for x in (input, *weights) if x is not None)
        raise CallError(
            "wrong-shape",
            f"normalized_shape={list(shape)} is not that of the tensors' last dims: {shapes}",
            fix=f"normalized_shape={list(input.shape[-1:])}, and weights of that shape",
        )
    x = input if len(shape) == 1 else input.flatten(-len(shape))
    return x, [None if w is None else w.reshape(-1) for w in weights]


def _softmax(input: Any) -> Any:
    return _run("softmax", [input])


def _log_softmax(input: Any) -> Any:
    return _run("log_softmax", [input])


def _layer_norm(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _run("layernorm", [input, weight, bias], eps)


def _rms_norm(input: Any, weight: Any, eps: float) -> Any:
    return _run("rms_norm", [input, weight], eps)


def _add_layer_norm(input: Any, residual: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _run("add_layernorm", [input, residual, weight, bias], eps)


def _add_rms_norm(input: Any, residual: Any, weight: Any, eps: float) -> Any:
    return _run("add_rms_norm", [input, residual, weight], eps)


def _like(input: Any, *others: Any) -> Any:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _two_like(input: Any, *others: Any) -> Any:
    return _like(input), _like(input)


def _rows_gradient(name: str, gradient: Any, x: Any, weight: Any = None, eps: float = -1.0) -> Any:
    if eps >= 0 and weight is None:
        weight = x.new_ones(x.shape[-1:])
    return torch.ops.fireiron.rows_backward(name, [x, gradient], weight, eps)


def _keep_result(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)


def _softmax_gradient(ctx: Any, gradient: Any) -> Any:
    return _rows_gradient("softmax_backward", gradient, *ctx.saved_tensors)


def _log_softmax_gradient(ctx: Any, gradient: Any) -> Any:
    return _rows_gradient("log_softmax_backward", gradient, *ctx.saved_tensors)


def _keep_norm(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, *rest = inputs
    ctx.save_for_backward(x, weight)
    ctx.eps = rest[-1]


def _keep_sum(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1], inputs[2])
    ctx.eps = inputs[-1]


def _of_weights(gradient: Any, x: Any, eps: float, norm: str) -> tuple[Any, Any]:
    """Add up over rows what gain and bias are multiplied with."""
    rows = (0,) if x.dim() == 2 else tuple(range(x.dim() - 1))
    wide = gradient.float()
    arguments = (x, None, None, eps) if norm == "layer_norm" else (x, None, eps)
    normal = getattr(torch.ops.fireiron, norm)(*arguments)
    return (wide * normal.float()).sum(rows), wide.sum(rows)


def _layer_norm_gradient(ctx: Any, gradient: Any) -> Any:
    x, weight = ctx.saved_tensors
    by_x = _rows_gradient("layernorm_backward", gradient, x, weight, ctx.eps)
    wanted = ctx.needs_input_grad[1:3]
    by_weights: tuple[Any, ...] = _of_weights(gradient, x, ctx.eps, "layer_norm") if any(wanted) else (None, None)
    return by_x, *(g.to(x.dtype) if want else None for g, want in zip(by_weights, wanted, strict=True)), None


def _rms_norm_gradient(ctx: Any, gradient: Any) -> Any:
    x, weight = ctx.saved_tensors
    by_x = _rows_gradient("rms_norm_backward", gradient, x, weight, ctx.eps)
    by_weight = _of_weights(gradient, x, ctx.eps, "rms_norm")[0].to(x.dtype) if ctx.needs_input_grad[1] else None
    return by_x, by_weight, None


def _add_layer_norm_gradient(ctx: Any, gradient: Any, by_sum: Any) -> Any:
    total, weight = ctx.saved_tensors
    by_x = _rows_gradient("layernorm_backward", gradient, total, weight, ctx.eps) + by_sum
    by_weight, by_bias = _of_weights(gradient, total, ctx.eps, "layer_norm")
    return by_x, by_x, by_weight.to(total.dtype), by_bias.to(total.dtype), None


def _add_rms_norm_gradient(ctx: Any, gradient: Any, by_sum: Any) -> Any:
    total, weight = ctx.saved_tensors
    by_x = _rows_gradient("rms_norm_backward", gradient, total, weight, ctx.eps) + by_sum
    by_weight, _ = _of_weights(gradient, total, ctx.eps, "rms_norm")
    return by_x, by_x, by_weight.to(total.dtype), None


def _register(name: str, run: Any, arguments: str, fake: Any, keep: Any = None, gradient: Any = None) -> None:
    results = "(Tensor, Tensor)" if fake is _two_like else "Tensor"
    op = torch.library.custom_op(f"fireiron::{name}", run, mutates_args=(), schema=f"({arguments}) -> {results}")
    op.register_fake(fake)
    if gradient is not None:
        op.register_autograd(gradient, setup_context=keep)


def _run_backward(name: str, arrays: Sequence[Any], weight: Any, eps: float) -> Any:
    given = [*arrays] if name.endswith("softmax_backward") else [*arrays, weight]
    return _run(name, given, None if eps < 0 else eps)


def _like_first(name: str, arrays: Sequence[Any], weight: Any, eps: float) -> Any:
    return _like(arrays[0])


NORM = "Tensor input, Tensor? weight, float eps"
LAYER_NORM = "Tensor input, Tensor? weight, Tensor? bias, float eps"
ADD_NORM = "Tensor input, Tensor residual, Tensor weight, float eps"
ADD_LAYER_NORM = "Tensor input, Tensor residual, Tensor weight, Tensor bias, float eps"
BACK = "str name, Tensor[] arrays, Tensor? weight, float eps"

_register("softmax", _softmax, "Tensor input", _like, _keep_result, _softmax_gradient)
_register("log_softmax", _log_softmax, "Tensor input", _like, _keep_result, _log_softmax_gradient)
_register("layer_norm", _layer_norm, LAYER_NORM, _like, _keep_norm, _layer_norm_gradient)
_register("rms_norm", _rms_norm, NORM, _like, _keep_norm, _rms_norm_gradient)
_register("add_layer_norm", _add_layer_norm, ADD_LAYER_NORM, _two_like, _keep_sum, _add_layer_norm_gradient)
_register("add_rms_norm", _add_rms_norm, ADD_NORM, _two_like, _keep_sum, _add_rms_norm_gradient)
_register("rows_backward", _run_backward, BACK, _like_first)
