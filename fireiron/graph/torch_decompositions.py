"""Torch's operators as smaller ones of torch, before graphs are imported.

Most are torch's own. Its losses of classes gather one number of each row, and their gradients scatter into a matrix of
zeros. Written by comparisons of each column's number with the row's class, they are points of the rows around them, as
the logarithm of softmax, and no matrix is stored for them.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from fireiron.graph.torch_convolutions import of_training
from fireiron.graph.torch_moves import moves

torch: Any = import_module("torch")

WHOLE = ("scaled_dot_product", "embedding_dense_backward")  # torch's operators that are not parted into others
# Operators that torch keeps whole, though others of a graph compute them.
SMALLER = ("elu", "leaky_relu", "hardtanh")
MEAN, SUM = 1, 2  # torch's numbers of reductions; 0 for none


@cache
def decompositions(train: bool) -> Mapping[Any, Any]:
    """Return by torch's operators the functions that part them into others; listing them takes 0.1 s.

    Args:
        train: whether the graph has a backward pass, which then computes again what is cheap, as the exponentials of a
            softmax.
    """
    listed: Any = import_module("torch._decomp")
    aten = torch.ops.aten
    usual = dict(listed.core_aten_decompositions())
    usual |= listed.get_decompositions([getattr(aten, name).default for name in SMALLER])
    usual |= moves(usual)
    if train:
        usual |= of_training()
        usual |= listed.get_decompositions([aten._log_softmax])
        norm = aten._native_batch_norm_legit_functional.default
        usual[norm] = _batch_norm(listed.decomposition_table[norm])
        alone = aten._native_batch_norm_legit.no_stats
        usual[alone] = _without_averages(usual[norm], listed.decomposition_table[alone])
    for name in ("nll_loss", "nll_loss2d"):
        forward, backward = getattr(aten, f"{name}_forward").default, getattr(aten, f"{name}_backward").default
        usual[forward] = _without_weights(_loss, usual[forward], 0)
        usual[backward] = _without_weights(_slope, usual[backward], 1)
    return {op: f for op, f in usual.items() if not any(name in str(op) for name in WHOLE)}


def _dim(x: Any) -> int:
    """Return the dim of the classes: of a single row the only one."""
    return 1 if x.dim() > 1 else 0


def _classes(x: Any, target: Any, ignored: int) -> tuple[Any, Any]:
    """Return which points are those of a row's class, and which rows count."""
    dim = _dim(x)
    rows = target.to(torch.int32)
    columns = torch.arange(x.shape[dim], dtype=torch.int32, device=x.device)
    columns = columns.reshape(-1, *[1] * (x.dim() - dim - 1))
    return columns == rows.unsqueeze(dim), rows != ignored


def _without_weights(made: Any, usual: Any, scores: int) -> Any:
    """Return `made` for calls without weights of classes, and `usual` for others.

    Args:
        made: takes the arguments of the operator.
        usual: torch's function for the operator.
        scores: position of the scores, behind which target and weights follow.
    """

    def call(*given: Any, **named: Any) -> Any:
        plain = not named and given[scores + 2] is None and given[scores].is_floating_point()
        return (made if plain else usual)(*given, **named)

    return call


def _loss(x: Any, target: Any, _: None, reduction: int, ignored: int) -> tuple[Any, Any]:
    """Compute the loss, and how many rows count."""
    chosen, counts = _classes(x, target, ignored)
    each = torch.where(counts, -torch.where(chosen, x, 0.0).sum(_dim(x)), 0.0)
    if reduction not in (MEAN, SUM):
        return each, x.new_zeros(())
    total, whole = counts.to(torch.float32).sum(), each.sum(dtype=torch.float32)
    return (whole / total if reduction == MEAN else whole).to(x.dtype), total.to(x.dtype)


def _slope(dy: Any, x: Any, target: Any, _: None, reduction: int, ignored: int, total: Any) -> Any:
    """Compute the gradient of the scores: at each row's class that of the loss, negative, and zeros elsewhere."""
    chosen, counts = _classes(x, target, ignored)
    each = -(dy / total if reduction == MEAN else dy)
    each = each if reduction in (MEAN, SUM) else each.unsqueeze(_dim(x))
    return torch.where(chosen & counts.unsqueeze(_dim(x)), each, 0.0)


def _batch_norm(usual: Any) -> Any:
    """Take the statistics of a batch by one pass over it: sums in f32 of differences from one point of each channel.

    Sums of the values themselves would lose what is small beside the mean. If the point lies k standard deviations from
    the mean, the variance is off by about k * k roundings.
    """

    def norm(
        input: Any,
        weight: Any,
        bias: Any,
        running_mean: Any,
        running_var: Any,
        training: bool,
        momentum: float,
        eps: float,
    ) -> Any:
        if not training or input.dim() < 2 or input.numel() == 0 or input.dtype == torch.float64:
            return usual(input, weight, bias, running_mean, running_var, training, momentum, eps)
        axes = [a for a in range(input.dim()) if a != 1]
        count = input.numel() // input.shape[1]
        point = input
        for a in axes:
            point = point.narrow(a, input.shape[a] // 2 if a else 0, 1)
        wide, point = input.to(torch.float32), point.to(torch.float32)
        moved = wide - point
        first = moved.sum(axes, keepdim=True) / count
        variance = ((moved * moved).sum(axes, keepdim=True) / count - first * first).clamp_min(0.0)
        mean, scale = first + point, torch.rsqrt(variance + eps)
        shape = [-1 if a == 1 else 1 for a in range(input.dim())]
        made = (wide - mean) * scale
        made = made if weight is None else made * weight.to(torch.float32).reshape(shape)
        made = made if bias is None else made + bias.to(torch.float32).reshape(shape)
        flat, spread = mean.reshape(-1), variance.reshape(-1) * (count / max(count - 1, 1))
        kept = [
            None if old is None else (momentum * new + (1 - momentum) * old.to(torch.float32)).to(old.dtype)
            for old, new in ((running_mean, flat), (running_var, spread))
        ]
        return made.to(input.dtype), flat, scale.reshape(-1), *kept

    return norm


def _without_averages(norm: Any, usual: Any) -> Any:
    """Return the norm that keeps no running averages, as instance norm."""

    def alone(input: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
        if not training:
            return usual(input, weight, bias, training, momentum, eps)
        return norm(input, weight, bias, None, None, training, momentum, eps)[:3]

    return alone
