"""Replace convolutions and pooling in torch's graphs by this package's operators (option `windows`)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import attrs

torch: Any = import_module("torch")


@attrs.frozen
class Operator:
    """Hold an operator of this package that takes the arguments of one of torch's operators.

    Args:
        label: name of the operator.
        call: the function.
        first: whether torch's operator has several results, and this operator returns the first of them.
    """

    label: str
    call: Callable[..., Any]
    first: bool = False


def own_operator(node: Any, name: str) -> Operator | None:
    """Return the operator for a call of a convolution or pooling of 16-bit floats; None for other calls.

    Args:
        node: torch's node of the call.
        name: name of torch's operator.
    """
    if any(n.meta["val"].dtype not in (torch.float16, torch.bfloat16) for n in node.all_input_nodes):
        return None
    if name == "convolution":
        transposed, groups = node.args[6], node.args[8]
        kind = "conv_transpose" if transposed else "conv"
        return None if transposed and groups != 1 else Operator(f"fireiron.{kind}", _convolution)
    if name in ("max_pool2d_with_indices", "max_pool3d_with_indices"):
        indices = any(n.target is operator.getitem and n.args[1] == 1 for n in node.users)
        return None if indices else Operator("fireiron.pool", _largest, True)
    if name in ("avg_pool2d", "avg_pool3d"):
        given = dict(enumerate(node.args)) | dict(node.kwargs)
        plain = not given.get(4, given.get("ceil_mode")) and not given.get(6, given.get("divisor_override"))
        return Operator("fireiron.pool", _mean) if plain else None
    return None


def _convolution(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, more: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    from fireiron.front import torch_conv

    if transposed:
        by = getattr(torch_conv, f"conv_transpose{len(stride)}d")
        return by(x, weight, bias, stride, padding, more, groups, dilation)
    return getattr(torch_conv, f"conv{len(stride)}d")(x, weight, bias, stride, padding, dilation, groups)


def _largest(
    x: Any, window: Sequence[int], stride: Sequence[int] = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Any:
    from fireiron.front import torch_pooling

    return getattr(torch_pooling, f"max_pool{x.dim() - 2}d")(x, window, stride or None, padding, dilation, ceil)


def _mean(
    x: Any, window: Sequence[int], stride: Sequence[int] = (), padding: Any = 0, ceil: bool = False, count: bool = True,
    divisor: None = None,
) -> Any:  # fmt: skip
    from fireiron.front import torch_pooling

    return getattr(torch_pooling, f"avg_pool{x.dim() - 2}d")(x, window, stride or None, padding, ceil, count)
