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

torch: Any = import_module("torch")

WHOLE = ("scaled_dot_product", "embedding_dense_backward")  # torch's operators that are not parted into others
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
    if train:
        usual |= listed.get_decompositions([aten._log_softmax])
        norm = aten._native_batch_norm_legit_functional.default
        usual[norm] = _batch_norm(listed.decomposition_table[norm])
        alone = aten._native_batch_norm_legit.no_stats
        usual[alone] = _without_averages(usual[norm], listed.decomposition_table[alone])
    for name in ("nll_loss", "nll_loss2d"):
        forward, backward = getattr(aten, f"{name}_forward").default, getattr(aten, f"{name}_backward").default
        usual[forward], usual[backward] = _forward(usual[forward]), _backward(usual[backward])
    return {op: f for op, f in usual.items() if not any(name in str(op) for name in WHOLE)}


def _classes(x: Any, target: Any, ignored: int) -> tuple[Any, Any]:
    """Return which points are those of a row's class, and which rows count; classes are along dim 1, or alone."""
    dim = 1 if x.dim() > 1 else 0
    rows = target.to(torch.int32)
    columns = torch.arange(x.shape[dim], dtype=torch.int32, device=x.device)
    columns = columns.reshape(-1, *[1] * (x.dim() - dim - 1))
    return columns == rows.unsqueeze(dim), rows != ignored


def _forward(usual: Any) -> Any:
    def loss(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> tuple[Any, Any]:
        if weight is not None or not self.is_floating_point():
            return usual(self, target, weight, reduction, ignore_index)
        chosen, counts = _classes(self, target, ignore_index)
        dim = 1 if self.dim() > 1 else 0
        each = torch.where(counts, -torch.where(chosen, self, 0.0).sum(dim), 0.0)
        if reduction not in (MEAN, SUM):
            return each, self.new_zeros(())
        total = counts.to(torch.float32).sum()
        whole = each.sum(dtype=torch.float32)
        whole = whole / total if reduction == MEAN else whole
        return whole.to(self.dtype), total.to(self.dtype)

    return loss


def _backward(usual: Any) -> Any:
    def slope(
        grad_output: Any,
        self: Any,
        target: Any,
        weight: Any,
        reduction: int,
        ignore_index: int,
        total_weight: Any,
    ) -> Any:
        if weight is not None or not self.is_floating_point():
            return usual(grad_output, self, target, weight, reduction, ignore_index, total_weight)
        chosen, counts = _classes(self, target, ignore_index)
        dim = 1 if self.dim() > 1 else 0
        each = -(grad_output / total_weight if reduction == MEAN else grad_output)
        if reduction not in (MEAN, SUM):
            each = each.unsqueeze(dim)
        return torch.where(chosen & counts.unsqueeze(dim), each, 0.0)

    return slope


def _batch_norm(usual: Any) -> Any:
    """Take the statistics of a batch by one pass over it, as sums of what differs from one point of each channel."""

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
    def alone(input: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
        if not training:
            return usual(input, weight, bias, training, momentum, eps)
        return norm(input, weight, bias, None, None, training, momentum, eps)[:3]

    return alone
