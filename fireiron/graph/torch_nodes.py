"""What the nodes of torch's graphs say: operators, element types, and how tensors lie in memory."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

from importlib import import_module
from typing import Any

from fireiron.algebra.dtypes import DType
from fireiron.base.errors import FireironError
from fireiron.graph.trace_types import kind_of
from fireiron.graph.views import VECTOR_NBYTES, View, dense, order_of

torch: Any = import_module("torch")

SPREAD = 16  # how many times a tensor's elements its span may be


class Stays(Exception):
    """Say that an operator has no node, so that torch runs it."""


def is_tensor(x: Any) -> bool:
    """Say whether the result of a node of torch's graph is a tensor or several tensors."""
    return isinstance(x, torch.fx.Node) and isinstance(x.meta.get("val"), torch.Tensor | list | tuple)


def torch_kind(dtype: Any) -> DType:
    """Return the element type for one of torch's.

    Raises:
        Stays: for a type that kernels do not have.
    """
    try:
        return kind_of(dtype)
    except FireironError:
        raise Stays(f"elements of {dtype}") from None


def name_of(node: Any) -> str:
    """Name the operator of a call."""
    return str(getattr(node.target, "overloadpacket", node.target)).removeprefix("aten.")


def is_pure(target: Any) -> bool:
    """Say whether an operator is pure: equal arguments give equal results, and it changes no tensor."""
    schema = getattr(target, "_schema", None)
    return schema is not None and not schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def takes_as_traced(target: Any) -> bool:
    """Say whether an operator may need tensors that lie as traced: a user's operator, or torch's group norm."""
    space = getattr(target, "namespace", "aten")
    return space not in ("aten", "prims", "fireiron") or "native_group_norm" in str(target)


def order_in_memory(tensor: Any) -> tuple[int, ...] | None:
    """Return the axes of a tensor in the order of its memory; None for the shape's order and for tensors with gaps."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    order = order_of(View(0, 0, shape, strides))
    if order is None:
        return None
    plain = dense(shape, order)
    return order if all(n == 1 or s == t for n, s, t in zip(shape, strides, plain, strict=True)) else None


def has_padded_lines(tensor: Any) -> bool:
    """Say whether a tensor lies as our results with padded lines do."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if len(shape) < 2 or strides[-1] != 1 or strides[-2] <= shape[-1]:
        return False
    rows = dense((*shape[:-1], strides[-2]))
    whole = strides[-2] * tensor.element_size() % VECTOR_NBYTES == 0
    return whole and all(n == 1 or s == t for n, s, t in zip(shape, strides, rows, strict=True))


def strides_with_gaps(tensor: Any) -> tuple[int, ...] | None:
    """Return the strides of a tensor with gaps, such as a slice; None where elements overlap or the gaps are large."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    least = 1
    for step, extent in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if step < least or (least == 1 and step != 1):
            return None
        least = step * extent
    return (
        tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
        if least <= SPREAD * tensor.numel()
        else None
    )
