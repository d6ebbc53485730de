"""Cross entropy with torch's arguments, and its gradient.

One kernel computes the losses of rows, and a second one their mean or sum; one kernel computes the gradient. Tensors on
the CPU are simulated.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from fireiron.algebra.expr import symbol
from fireiron.base.errors import CallError
from fireiron.base.link import here
from fireiron.front.cli.find import PRESETS
from fireiron.front.fallback import ready
from fireiron.front.moves import vector
from fireiron.front.program import program
from fireiron.front.torch_arguments import check_floats, rows_of, step_of, wide, words_of
from fireiron.front.torch_ops import as_numpy, as_torch, routed
from fireiron.front.torch_repeated import launched, repeats
from fireiron.jit.kernel import as_tuple
from fireiron.language import reductions, statistics, subscripts
from fireiron.language.decompositions import InOrder
from fireiron.language.functions import equal
from fireiron.language.levels import RF, Block, Warp
from fireiron.language.pointwise import Value, where
from fireiron.language.tensor import Matrix, tensor

torch: Any = import_module("torch")

NONE = -100  # the index that torch ignores by default
FARTHEST = 2**30  # kernels compare labels with numbers of smaller magnitude
MANY = 16384  # losses that more than one block adds
WAYS, WARPS, CHUNK = 32, 16, 8192  # blocks that add many losses; warps of a block; losses of one trip of a block


@program(x="m n", target="m")
def losses_of_rows(x: Value, target: Value, ignored: int = NONE) -> Value:
    """Compute -log(softmax(x)[target]) of each row: 0 if its target is ignored, NaN if x has no such column."""
    picked = subscripts.outside(x, float("nan"))[:, target]
    return where(equal(target, ignored), 0.0, statistics.logsumexp(x, "n") - picked)


@program(losses="r m", target="r m")
def total_of_losses(losses: Value, target: Value, ignored: int = NONE, mean: bool = True) -> tuple[Value, Value]:
    """Add losses, and count the targets that are not ignored; return the mean or the sum, and the count."""
    total = reductions.sum(losses, "m").named("total")
    count = reductions.sum(where(equal(target, ignored), 0.0, 1.0), "m").named("count")
    return total / count if mean else total, count


@program(x="m n", target="m", scale="m")
def gradients_of_rows(x: Value, target: Value, scale: Value, ignored: int = NONE) -> Value:
    """Compute the gradient of each row's cross entropy, times the gradient of its loss; 0 for ignored targets."""
    every = statistics.logsumexp(x, "n").named("every")
    softmax = statistics.softmax(x, "n", lse=every)
    slope = (softmax - where(equal(subscripts.index("n"), target), 1.0, 0.0)) * scale
    return where(equal(target, ignored), 0.0, slope)


@functools.lru_cache(maxsize=512)
def _of_rows(
    width: int, kind: str, step: int, ignored: int, out: str, scale: tuple[str, int] | None, host: bool
) -> Any:  # fmt: skip
    """Make the kernel of losses, or of their gradient.

    Args:
        width: number of columns.
        kind: element type of the rows.
        step: i32 from one target to the next; 2 where targets are i64, of which kernels read the low words.
        ignored: the target of rows that do not count.
        out: element type of the result.
        scale: for the gradient, the element type and the stride of the gradient of losses.
        host: whether the kernel is simulated.
    """
    rows, lines, arch = import_module(f"{PRESETS}.rows"), symbol("M"), "sm_89" if host else None
    x, target = Matrix(lines, width, kind, name="x"), tensor(lines, dtype="i32", name="target", strides=(step,))
    if scale is None:
        spec = losses_of_rows(x, target, ignored=ignored, out=out, arch=arch)
    else:
        slopes = tensor(lines, dtype=scale[0], name="scale", strides=scale[1:])
        spec = gradients_of_rows(x, target, slopes, ignored=ignored, out=out, arch=arch)
    return ready(rows.row(spec), host)


@functools.lru_cache(maxsize=512)
def _of_losses(kinds: tuple[str, str], step: int, ignored: int, mean: bool, many: bool, host: bool) -> Any:
    """Make the kernel that adds losses.

    Args:
        kinds: element types of losses and of the result.
        step, ignored, host: as in `_of_rows`.
        mean: whether to divide the sum by the number of targets that count.
        many: whether several blocks share the losses.
    """
    lines, (kind, out) = symbol("M"), kinds
    losses = tensor(1, lines, dtype=kind, name="losses")
    target = tensor(1, lines, dtype="i32", name="target", strides=(step * lines, step))
    arch = "sm_89" if host else None
    chain: Any = total_of_losses(losses, target, ignored=ignored, mean=mean, out=(out, kind), arch=arch)
    chain = chain.tile(r=1).to(Block)
    if many:
        chain = chain.split("m", ways=WAYS).parallel(Block, InOrder())
    chain = chain.split(m=CHUNK).split("m", ways=WARPS).parallel(Warp)
    chain = chain.load("losses", RF, vector(4 if kind == "float32" else 8)).load("target", RF, vector(4))
    return ready(chain.epilog(memory=RF).done(), host)


@repeats
def cross_entropy(input: Any, target: Any, reduction: str = "mean", ignore_index: int = NONE) -> Any:
    """Compute -log(softmax(input)[target]) of each row, as `torch.nn.functional.cross_entropy` does.

    Args:
        input: rows of logits; the classes lie along the last dim (in torch, along dim 1).
        target: the class of each row, in any type of integers. A row of class `ignore_index` has the loss 0, and does
            not count in a mean. The loss of a class that is no column is NaN.
        reduction: "mean", "sum", or "none" for one loss per row.
        ignore_index: the class of rows that do not count.

    Raises:
        CallError: `wrong-shape`; `bad-reduction`.
    """
    if tuple(target.shape) != tuple(input.shape[:-1]):
        raise CallError(
            "wrong-shape",
            f"target has the shape {list(target.shape)}, and input has {list(input.shape)}",
            fix=f"give a target of {list(input.shape[:-1])}: a class for each row",
            link=here(),
        )
    check_floats("cross_entropy", input)
    if target.numel() and not input.shape[-1]:
        raise CallError(
            "wrong-shape",
            f"input has the shape {list(input.shape)}: its rows hold no class",
            fix="give a logit for each class along the last dim",
            link=here(),
        )
    if reduction not in ("mean", "sum", "none"):
        raise CallError(
            "bad-reduction", f"no reduction is called {reduction!r}", fix='use "mean", "sum" or "none"', link=here()
        )
    if not -FARTHEST < ignore_index < FARTHEST:
        target = target.long()  # torch would convert the index to the type of narrower targets
        target, ignore_index = torch.where(target == ignore_index, NONE, target), NONE
    made, _ = routed("cross_entropy", _run, input, target)(input, target, ignore_index, reduction)
    return made


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _started(kernel: Any, host: bool, *arrays: Any) -> tuple[Any, ...]:
    if host:
        return tuple(map(as_torch, as_tuple(kernel(*map(as_numpy, arrays)))))
    return as_tuple(launched(kernel, *arrays))


def _run(input: Any, target: Any, ignored: int, reduction: str) -> tuple[Any, Any]:
    if input.numel() == 0:
        made, count = _fake(input, target, ignored, reduction)
        return made.fill_(torch.nan if reduction == "mean" else 0.0), count.zero_()
    host, kind, labels = input.device.type != "cuda", _name(input.dtype), words_of(target)
    sums, step = _name(wide(input.dtype)), step_of(target)
    single = reduction == "none"
    rows = _of_rows(input.shape[-1], kind, step, ignored, kind if single else sums, None, host)
    (losses,) = _started(rows, host, rows_of(input), labels)
    if single:
        return losses.reshape(target.shape), input.new_empty(0)
    total = _of_losses((sums, kind), step, ignored, reduction == "mean", losses.shape[0] > MANY, host)
    made, count = _started(total, host, losses[None], labels[None])
    return made.reshape(()), count.reshape(())


def _fake(input: Any, target: Any, ignored: int, reduction: str) -> tuple[Any, Any]:
    if reduction == "none":
        return input.new_empty(target.shape), input.new_empty(0)
    return input.new_empty(()), input.new_empty((), dtype=wide(input.dtype))


def _run_backward(input: Any, target: Any, scale: Any, ignored: int) -> Any:
    if input.numel() == 0:
        return torch.empty_like(input, memory_format=torch.contiguous_format)
    host, kind, labels = input.device.type != "cuda", _name(input.dtype), words_of(target)
    slopes = scale.reshape(-1).contiguous() if scale.dim() else scale.expand(labels.shape[0])
    step, stride = step_of(target), 1 if scale.dim() else 0
    kernel = _of_rows(input.shape[-1], kind, step, ignored, kind, (_name(scale.dtype), stride), host)
    (made,) = _started(kernel, host, rows_of(input), labels, slopes)
    return made.reshape(input.shape)


def _fake_backward(input: Any, target: Any, scale: Any, ignored: int) -> Any:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    input, target, ctx.ignored, ctx.reduction = inputs
    ctx.save_for_backward(input, target, output[1])
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, gradient: Any, _: Any) -> Any:
    input, target, count = ctx.saved_tensors
    scale = gradient / count if ctx.reduction == "mean" else gradient
    return torch.ops.fireiron.cross_entropy_backward(input, target, scale, ctx.ignored), None, None, None


_cross_entropy = torch.library.custom_op(
    "fireiron::cross_entropy",
    _run,
    mutates_args=(),
    schema="(Tensor input, Tensor target, int ignored, str reduction) -> (Tensor, Tensor)",
)
_cross_entropy.register_fake(_fake)
_cross_entropy.register_autograd(_gradient, setup_context=_keep)
torch.library.custom_op(
    "fireiron::cross_entropy_backward",
    _run_backward,
    mutates_args=(),
    schema="(Tensor input, Tensor target, Tensor scale, int ignored) -> Tensor",
).register_fake(_fake_backward)
