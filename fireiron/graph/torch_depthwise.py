"""Depthwise convolutions of a training step as the operator of this package, which has kernels for its gradients.

Plans leave convolutions of training to torch. In Dynamo's graph depthwise ones are replaced by `fireiron.conv`, whose
gradients AOTAutograd traces; plans then run the operators as they run torch's.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any

from fireiron.front.convolutions import MOST_TAPS

torch: Any = import_module("torch")

_RANKS: Mapping[Any, int] = {torch.conv2d: 2, torch.conv3d: 3}
_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


def keep_depthwise(module: Any) -> None:
    """Replace depthwise convolutions of 16-bit images that lie channels last on a GPU.

    Args:
        module: the graph that Dynamo traced.
    """
    import_module("fireiron.front.torch_conv")  # makes the operator
    for node in list(module.graph.nodes):
        rank = _RANKS.get(node.target) if node.op == "call_function" else None
        if rank is None:
            continue
        given: dict[str, Any] = dict(zip(_NAMES, node.args, strict=False)) | dict(node.kwargs)
        if not _taken(given, rank):
            continue
        stride, padding, dilation = (_each(given.get(name, usual), rank) for name, usual in _USUAL)
        x, weight = given["input"], given["weight"]
        kind = str(_value(weight).dtype).removeprefix("torch.")
        arguments = (
            x, weight, given.get("bias"), None, None, stride, [n for n in padding for _ in range(2)], dilation,
            given["groups"], "", kind,
        )  # fmt: skip
        with module.graph.inserting_before(node):
            made = module.graph.call_function(torch.ops.fireiron.conv.default, arguments)
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)
    module.recompile()


_USUAL = (("stride", 1), ("padding", 0), ("dilation", 1))


def _taken(given: Mapping[str, Any], rank: int) -> bool:
    """Say whether the operator has the gradients of a call of torch's convolution, and reads its images in place."""
    x, weight, groups = _value(given["input"]), _value(given["weight"]), given.get("groups", 1)
    if x is None or weight is None or x.dim() != rank + 2 or isinstance(given.get("padding", 0), str):
        return False
    filters, part, *taps = weight.shape
    alike = x.dtype == weight.dtype and x.dtype in (torch.float16, torch.bfloat16)
    deep = part == 1 and isinstance(groups, int) and 1 < groups == filters and prod(taps) <= MOST_TAPS
    return alike and deep and on_gpu(x) and x.is_contiguous(memory_format=_LAST[rank])


def on_gpu(x: Any) -> bool:
    """Say whether a tensor lies on a GPU; on a CPU, torch's own convolution is faster than the simulator."""
    return x.device.type == "cuda"


def _value(node: Any) -> Any:
    """Return the description of a node's result; None where there is none."""
    return getattr(node, "meta", {}).get("example_value")


def _each(sizes: Any, rank: int) -> list[int]:
    """Return a number for each side."""
    found: Sequence[int] = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return [*found] * (rank if len(found) == 1 else 1)
