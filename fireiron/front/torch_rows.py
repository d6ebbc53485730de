"""Operators of torch on rows: softmax and the norms, with torch's names and arguments, and their gradients.

Each operator and each gradient is a program of `fireiron.schedules.rows`. The gradients of gain and bias are sums over
rows: where a block's registers hold a row, the kernel of the input's gradient computes these sums too, else torch does.
The gradient of an embedding's table is torch's. Tensors on the CPU are simulated.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from fireiron.algebra.expr import symbol
from fireiron.base.errors import CallError
from fireiron.base.link import here
from fireiron.front.cli.find import PRESETS
from fireiron.front.fallback import ready
from fireiron.front.program import program
from fireiron.front.torch_arguments import (
    along,
    check_floats,
    check_residual,
    normalised,
    rows_of,
    step_of,
    wide,
    words_of,
)
from fireiron.front.torch_ops import as_numpy, as_torch, learned, routed
from fireiron.front.torch_repeated import launched, repeats
from fireiron.jit.kernel import as_tuple
from fireiron.language import reductions
from fireiron.language.functions import exp
from fireiron.language.pointwise import Value
from fireiron.language.tensor import Matrix, Vector, tensor

torch: Any = import_module("torch")


def _rows() -> ModuleType:
    return import_module(f"{PRESETS}.rows")


@program(y="m n", dy="m n")
def log_softmax_backward(y: Value, dy: Value) -> Value:
    """Compute the gradient of log_softmax from its result."""
    return dy - exp(y) * reductions.sum(dy, "n")


@functools.lru_cache(maxsize=512)
def _of_table(width: int, kind: str, step: int, host: bool) -> Any:
    """Make the kernel of an embedding.

    Args:
        width: columns of the table.
        kind: element type of the table.
        step: i32 from one row's number to the next; 2 where numbers are i64, of which the kernel reads the low words.
        host: whether the kernel is simulated.
    """
    rows, pointwise = (import_module(f"{PRESETS}.{name}") for name in ("rows", "pointwise"))
    ids, table = (
        tensor(symbol("M"), dtype="i32", name="ids", strides=(step,)),
        Matrix(symbol("V"), width, kind, name="table"),
    )
    schedule = pointwise.pointwise(rows.embedding(ids, table, out=kind, arch="sm_89" if host else None))
    return ready(schedule, host)


@functools.lru_cache(maxsize=512)
def _kernel(
    name: str, shapes: tuple[tuple[int, str] | None, ...], eps: float | None, host: bool, statistics: int = 0
) -> Any:
    """Make the kernel of a program for arrays of one width, of any number of rows.

    Args:
        name: the program's name, in this file or in `fireiron.schedules.rows`.
        shapes: the width, then for each array its rank and element type, or None for an array that is left out.
        eps: the number that norms add to the variance.
        host: whether the kernel is simulated.
        statistics: how many statistics of the rows are further results.
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
    given: dict[str, Any] = {} if eps is None else {"eps": eps}
    given |= {"statistics": True} if statistics else {}
    sums = {"layernorm_gradients": 2, "rms_norm_gradients": 1}.get(name, 0)
    kind = arrays[0][1] if arrays[0] is not None else "f32"
    more = sums or statistics
    out = (kind, *("f64" if kind == "float64" else "f32",) * more) if more else None
    few = {"blocks": 2, "rows": 2} if host and sums else {}  # a simulation takes longer with more threads
    schedule = rows.row(function(*described, arch="sm_89" if host else None, out=out, **given), **few)
    return ready(schedule, host)


@functools.lru_cache(maxsize=512)
def _of_columns(name: str, shape: tuple[int, int], kinds: tuple[str, str], host: bool) -> Any:
    """Make the kernel that sums the gradients of a norm's gain and bias over the rows of x and of a gradient.

    Args:
        name: the program's name in `fireiron.schedules.rows`.
        shape: the number of rows, and their width.
        kinds: element types of x and of the gradient.
        host: whether the kernel is simulated.
    """
    number = "f64" if kinds[0] == "float64" else "f32"
    arrays = [Matrix(*shape, kind, name=word) for kind, word in zip(kinds, ("x", "dy"), strict=True)]
    words = ("deviation",) if name == "rms_norm_by_gain" else ("middle", "deviation")
    described = [*arrays, *(Vector(shape[0], number, name=word) for word in words)]
    spec = getattr(_rows(), name)(*described, arch="sm_89" if host else None, out=(number,) * len(words))
    schedule = import_module(f"{PRESETS}.reductions").reduction(spec)
    return ready(schedule, host)


def _run(name: str, arrays: Sequence[Any], eps: float | None = None) -> Any:
    """Run a program on tensors, whose leading dimensions are rows."""
    first = next(x for x in arrays if x is not None)
    shape, width = first.shape, first.shape[-1]
    if first.numel() == 0:
        made: Any = [torch.empty_like(first) for _ in range(2 if name.startswith("add_") else 1)]
        return tuple(made) if len(made) > 1 else made[0]
    flat = [None if x is None else _flat(x) for x in arrays]
    kinds = tuple(map(_kind, flat))
    host = not first.is_cuda
    kernel = _kernel(name, ((width, ""), *kinds), eps, host)
    shaped = _ran(kernel, [x for x in flat if x is not None], host)
    if len(shape) != 2:
        shaped = [x.reshape(shape) for x in shaped]
    return tuple(shaped) if len(shaped) > 1 else shaped[0]


def _flat(x: Any) -> Any:
    """View a tensor of two dims or more as rows, or copy it; a vector stays one."""
    return x.contiguous() if x.dim() < 2 else rows_of(x)


def _kind(x: Any) -> tuple[int, str] | None:
    return None if x is None else (x.dim(), _name(x.dtype))


@functools.lru_cache
def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@repeats
def softmax(input: Any, dim: int = -1) -> Any:
    """Compute the softmax along a dim, as `torch.softmax` does.

    Args:
        input: a tensor of floats.
        dim: any dim; the tensor is copied unless this is its last dim.
    """
    check_floats("softmax", input)
    return along(routed("softmax", _softmax, input), input, dim)


@repeats
def log_softmax(input: Any, dim: int = -1) -> Any:
    """Compute the logarithm of the softmax along a dim, as `torch.log_softmax` does."""
    check_floats("log_softmax", input)
    return along(routed("log_softmax", _log_softmax, input), input, dim)


@repeats
def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalise over the last dims, as `torch.nn.functional.layer_norm` does."""
    check_floats("layer_norm", input, weight, bias)
    x, (weight, bias) = normalised(input, normalized_shape, weight, bias)
    made = routed("layer_norm", _layer_norm, x, weight, bias)(x, weight, bias, eps)
    return made if x is input else made.reshape(input.shape)


@repeats
def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """Divide by the root mean square over the last dims, as `torch.nn.functional.rms_norm` does."""
    check_floats("rms_norm", input, weight)
    x, (weight,) = normalised(input, normalized_shape, weight)
    made = routed("rms_norm", _rms_norm, x, weight)(x, weight, _eps(input, eps))
    return made if x is input else made.reshape(input.shape)


@repeats
def add_layer_norm(
    input: Any, residual: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float = 1e-5
) -> tuple[Any, Any]:
    """Add a residual; return the layer norm of the sum, and the sum."""
    check_floats("add_layer_norm", input, residual, weight, bias)
    check_residual(input, residual)
    x, (weight, bias) = normalised(input, normalized_shape, weight, bias)
    op = routed("add_layer_norm", _add_layer_norm, x, residual, weight, bias)
    made, total = op(x, residual.reshape(x.shape), weight, bias, eps)
    return made.reshape(input.shape), total.reshape(input.shape)


@repeats
def add_rms_norm(
    input: Any, residual: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None = None
) -> tuple[Any, Any]:
    """Add a residual; return the RMS norm of the sum, and the sum."""
    check_floats("add_rms_norm", input, residual, weight)
    check_residual(input, residual)
    x, (weight,) = normalised(input, normalized_shape, weight)
    op = routed("add_rms_norm", _add_rms_norm, x, residual, weight)
    made, total = op(x, residual.reshape(x.shape), weight, _eps(input, eps))
    return made.reshape(input.shape), total.reshape(input.shape)


@repeats
def embedding(input: Any, weight: Any) -> Any:
    """Gather rows of a table, as `torch.nn.functional.embedding` does.

    Args:
        input: numbers of rows, counted from 0, in any type of integers.
        weight: the table.
    """
    if weight.dtype == torch.bool:
        raise CallError(
            "wrong-dtype", "embedding takes no table of bool", fix="convert it: weight.to(torch.uint8)", link=here()
        )
    return routed("embedding", _embedding, input, weight)(input, weight)


def _eps(input: Any, eps: float | None) -> float:
    return torch.finfo(input.dtype).eps if eps is None else eps


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


def _rows_gradient(name: str, gradient: Any, x: Any, weight: Any = None, eps: float = -1.0, more: Any = None) -> Any:
    if eps >= 0 and weight is None:
        weight = x.new_ones(x.shape[-1:])
    op = routed("rows_backward", _run_backward, x, gradient, weight, more)
    return op(name, [x, gradient], weight, eps, more)


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


def _layer_norm_gradient(ctx: Any, gradient: Any) -> Any:
    x, weight = ctx.saved_tensors
    return *of_layer_norm(x, gradient, weight, ctx.eps, ctx.needs_input_grad[1:3]), None


def _rms_norm_gradient(ctx: Any, gradient: Any) -> Any:
    x, weight = ctx.saved_tensors
    return *_of_rms_norm(x, gradient, weight, ctx.eps, ctx.needs_input_grad[1]), None


def _add_layer_norm_gradient(ctx: Any, gradient: Any, by_sum: Any) -> Any:
    total, weight = ctx.saved_tensors
    by_x, *by_weights = of_layer_norm(total, gradient, weight, ctx.eps, ctx.needs_input_grad[2:4], by_sum)
    return by_x, by_x, *by_weights, None


def _add_rms_norm_gradient(ctx: Any, gradient: Any, by_sum: Any) -> Any:
    total, weight = ctx.saved_tensors
    by_x, by_weight = _of_rms_norm(total, gradient, weight, ctx.eps, ctx.needs_input_grad[2], by_sum)
    return by_x, by_x, by_weight, None


def of_layer_norm(x: Any, gradient: Any, weight: Any, eps: float, wanted: Any, more: Any = None) -> Any:
    """Compute the gradients of a layer norm's input, gain and bias, the last two where they are wanted.

    Another gradient of the input, `more`, is added to the input's.
    """
    if not any(wanted):
        return _rows_gradient("layernorm_backward", gradient, x, weight, eps, more), None, None
    weight = x.new_ones(x.shape[-1:]) if weight is None else weight
    op = routed("norm_gradients", _norm_gradients, x, gradient, weight, more)
    by_x, *made = op("layernorm_gradients", x, gradient, weight, eps, more)
    return by_x, *(g if want else None for g, want in zip(made, wanted, strict=True))


def _of_rms_norm(x: Any, gradient: Any, weight: Any, eps: float, wanted: bool, more: Any = None) -> Any:
    """Compute the gradients of an RMS norm's input and, where it is wanted, gain; `more` is added to the input's."""
    if not wanted:
        return _rows_gradient("rms_norm_backward", gradient, x, weight, eps, more), None
    op = routed("norm_gradients", _norm_gradients, x, gradient, weight, more)
    return tuple(op("rms_norm_gradients", x, gradient, weight, eps, more))


def _embedding(input: Any, weight: Any) -> Any:
    if input.numel() == 0:
        return _lines_of(input, weight)
    host, arrays = weight.device.type != "cuda", (words_of(input), weight.contiguous())
    kernel = _of_table(weight.shape[-1], _name(weight.dtype), step_of(input), host)
    made = as_torch(kernel(*map(as_numpy, arrays))) if host else launched(kernel, *arrays)
    return made.reshape(*input.shape, weight.shape[-1])


def _lines_of(input: Any, weight: Any) -> Any:
    return weight.new_empty((*input.shape, weight.shape[-1]))


def _keep_lines(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.lines = inputs[1].shape[0]


def _embedding_gradient(ctx: Any, gradient: Any) -> Any:
    (lines,) = ctx.saved_tensors
    table = gradient.new_zeros((ctx.lines, gradient.shape[-1]))
    return None, table.index_add(0, lines.reshape(-1).long(), gradient.reshape(-1, gradient.shape[-1]))


def _register(
    name: str, run: Any, arguments: str, fake: Any, keep: Any = None, gradient: Any = None, twice: bool = False
) -> None:
    """Make an operator of torch, and the function of autograd that takes its place where torch only differentiates.

    Args:
        name, run: the operator's name and function.
        arguments: the arguments of its schema.
        fake: describes its results.
        keep, gradient: as in `learned`; None for an operator without a gradient.
        twice: whether the gradient has a gradient too, which a function of autograd would not have.
    """
    results = "(Tensor, Tensor)" if fake is _two_like else "Tensor[]" if fake is _with_sums else "Tensor"
    op = torch.library.custom_op(f"fireiron::{name}", run, mutates_args=(), schema=f"({arguments}) -> {results}")
    op.register_fake(fake)
    if gradient is not None:
        op.register_autograd(gradient, setup_context=keep)
        if not twice:
            learned(name, repeats(run), keep, gradient)


def _norm_gradients(name: str, input: Any, gradient: Any, weight: Any, eps: float, more: Any = None) -> Any:
    return list(_of_norm(name, input, gradient, weight, eps, more))


@repeats
def _of_norm(name: str, input: Any, gradient: Any, weight: Any, eps: float, more: Any) -> tuple[Any, ...]:
    """Compute the gradients of a norm's input, gain and, for a layer norm, bias, with sums in f32.

    One kernel does so. Of rows that are too wide, it computes the input's gradient and the rows' statistics, with which
    a second one sums over rows.
    """
    if input.numel() == 0:
        return tuple(_with_sums(name, input, gradient, weight, eps, more))
    width, host = input.shape[-1], input.device.type != "cuda"
    statistics, sums = (2, "layernorm_by_weights") if name.startswith("layernorm") else (1, "rms_norm_by_gain")
    given = [input, gradient, weight] + ([] if more is None else [*(None,) * statistics, more])
    flat = [None if x is None else _flat(x) for x in given]
    arrays, kinds = [x for x in flat if x is not None], tuple(map(_kind, flat))
    wide_rows = width > WIDEST_WITH_SUMS
    program = name.replace("_gradients", "_backward") if wide_rows else name
    kernel = _kernel(program, ((width, ""), *kinds), eps, host, statistics if wide_rows else 0)
    by_x, *others = _ran(kernel, arrays, host)
    if wide_rows:
        shape, types = tuple(arrays[0].shape), (_name(arrays[0].dtype), _name(arrays[1].dtype))
        others = _ran(_of_columns(sums, shape, types, host), [*arrays[:2], *others], host)
    return by_x.reshape(input.shape), *others


def _ran(kernel: Any, arrays: Sequence[Any], host: bool) -> Any:
    """Run a kernel on tensors, and list its results."""
    made = as_tuple(kernel(*map(as_numpy, arrays)) if host else launched(kernel, *arrays))
    return [as_torch(x) for x in made] if host else made


def _with_sums(name: str, input: Any, gradient: Any, weight: Any, eps: float, more: Any = None) -> Any:
    sums = 2 if name.startswith("layernorm") else 1
    return [_like(input), *(input.new_zeros(input.shape[-1:], dtype=wide(input.dtype)) for _ in range(sums))]


def _run_backward(name: str, arrays: Sequence[Any], weight: Any, eps: float, more: Any = None) -> Any:
    return _backward(name, weight, eps, more, *arrays)


@repeats
def _backward(name: str, weight: Any, eps: float, more: Any, *arrays: Any) -> Any:
    statistics = (None,) * (2 if name.startswith("layernorm") else 1)
    given = [*arrays] if name.endswith("softmax_backward") else [*arrays, weight]
    given += [] if more is None else [*statistics, more]
    return _run(name, given, None if eps < 0 else eps)


def _like_first(name: str, arrays: Sequence[Any], weight: Any, eps: float, more: Any = None) -> Any:
    return _like(arrays[0])


WIDEST_WITH_SUMS = 8192  # columns of the widest row whose gradients and sums fit into a block's registers
SUMS = "str name, Tensor input, Tensor gradient, Tensor weight, float eps, Tensor? more=None"
NORM = "Tensor input, Tensor? weight, float eps"
LAYER_NORM = "Tensor input, Tensor? weight, Tensor? bias, float eps"
ADD_NORM = "Tensor input, Tensor residual, Tensor weight, float eps"
ADD_LAYER_NORM = "Tensor input, Tensor residual, Tensor weight, Tensor bias, float eps"
BACK = "str name, Tensor[] arrays, Tensor? weight, float eps, Tensor? more=None"

_register("softmax", _softmax, "Tensor input", _like, _keep_result, _softmax_gradient)
_register("log_softmax", _log_softmax, "Tensor input", _like, _keep_result, _log_softmax_gradient)
_register("layer_norm", _layer_norm, LAYER_NORM, _like, _keep_norm, _layer_norm_gradient)
_register("rms_norm", _rms_norm, NORM, _like, _keep_norm, _rms_norm_gradient)
_register("add_layer_norm", _add_layer_norm, ADD_LAYER_NORM, _two_like, _keep_sum, _add_layer_norm_gradient)
_register("add_rms_norm", _add_rms_norm, ADD_NORM, _two_like, _keep_sum, _add_rms_norm_gradient)
_register(
    "embedding", _embedding, "Tensor input, Tensor weight", _lines_of, _keep_lines, _embedding_gradient, twice=True
)
_register("norm_gradients", _norm_gradients, SUMS, _with_sums)
_register("rows_backward", _run_backward, BACK, _like_first)
