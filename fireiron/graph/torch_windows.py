"""Convolutions and pooling of torch as nodes of a graph; torch runs those of f32, transposed ones, and gradients."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fireiron.front import pooling
from fireiron.graph.torch_nodes import Stays, is_tensor, name_of
from fireiron.graph.windows import lie_apart

if TYPE_CHECKING:
    from fireiron.graph.from_torch import Importer

torch: Any = import_module("torch")


def _ours(i: Importer, node: Any) -> bool:
    """Say whether kernels of this package compute a call: of one type of 16-bit floats, where the target has them."""
    kinds = {n.meta["val"].dtype for n in node.args[:2] if is_tensor(n)}
    return i.windows and len(kinds) == 1 and kinds <= {torch.float16, torch.bfloat16}


def _convolution(
    i: Importer, node: Any, x: int, filters: int, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, more: Sequence[int], groups: int,
) -> int:  # fmt: skip
    o, rank = i.ops, len(i.ops.shape(filters)) - 2
    if transposed or len(i.ops.shape(x)) != rank + 2:
        raise Stays("a transposed convolution")
    sizes = (tuple(sizes) * (rank if len(sizes) == 1 else 1) for sizes in (stride, padding, dilation))
    steps, pads, apart = sizes
    a: dict[str, Any] = {
        "stride": steps, "pads": tuple((n, n) for n in pads), "dilation": apart, "groups": groups,
    }  # fmt: skip
    product = lie_apart(o.shape(x)[2:], o.shape(filters)[2:], a)  # the graph's passes write it as a product
    if not product and not _ours(i, node):
        raise Stays("a convolution")
    return o.conv(x, filters, *([] if bias is None else [bias]), **a)


def _read(i: Importer, node: Any, *given: Any) -> tuple[Any, ...]:
    """Read the windows of a pooling."""
    name, x = name_of(node), node.args[0].meta["val"]
    if not _ours(i, node) or x.dim() != int(name[8]) + 2:
        raise Stays("pooling")
    window, stride, *rest = given
    return pooling.described(name[:10], x, window, stride or None, *rest)


def _largest(
    i: Importer, node: Any, x: int, window: Sequence[int], stride: Sequence[int] = (), padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> tuple[int, None]:  # fmt: skip
    if any(n.target is operator.getitem and n.args[1] == 1 for n in node.users):
        raise Stays("the places of the largest values")
    sizes, steps, pads, apart = _read(i, node, window, stride, padding, dilation, ceil_mode)
    return i.ops.max_pool(x, window=sizes, stride=steps, pads=pads, dilation=apart), None


def _mean(
    i: Importer, node: Any, x: int, window: Sequence[int], stride: Sequence[int] = (), padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> int:  # fmt: skip
    if divisor_override is not None:
        raise Stays("a mean with a divisor of its own")
    sizes, steps, pads, _ = _read(i, node, window, stride, padding, 1, ceil_mode)
    return i.ops.avg_pool(x, window=sizes, stride=steps, pads=pads, count_pad=count_include_pad)


def _parts(i: Importer, node: Any, x: int, size: Sequence[int]) -> int:
    """Take the means of equal parts of images."""
    sides = i.ops.shape(x)[2:]
    if len(sides) != len(size) or any(n % parts for n, parts in zip(sides, size, strict=True)) or not _ours(i, node):
        raise Stays("means of parts that are not equal")
    window = tuple(n // parts for n, parts in zip(sides, size, strict=True))
    if window == sides:
        o = i.ops
        return o.mean(x, axes=tuple(range(2, 2 + len(sides))), keepdims=True)
    return i.ops.avg_pool(x, window=window, stride=window, pads=((0, 0),) * len(sides), count_pad=True)


WINDOWS: Mapping[str, Callable[..., Any]] = {
    "convolution": _convolution,
    "max_pool2d_with_indices": _largest,
    "max_pool3d_with_indices": _largest,
    "avg_pool2d": _mean,
    "avg_pool3d": _mean,
    "_adaptive_avg_pool2d": _parts,
    "_adaptive_avg_pool3d": _parts,
}
