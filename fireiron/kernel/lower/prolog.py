"""Prologs: pointwise ops on an operand's elements while they are in registers, before atoms read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fireiron.algebra.dtypes import DType, i4, i8, u4, u8
from fireiron.algebra.expr import Expr, and_, as_expr, proves
from fireiron.algebra.scalar import Arg, Custom, Scalar, children, number, with_children
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Compute, View
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.pointwise import compute, element_of, swapped
from fireiron.language.value_steps import dims_of, exchanged, held, step_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def transform(
    into: View, source: View, local: tuple[Expr, ...], state: State, context: Context, half: int | None = None
) -> Body:
    """Apply a Move's ops to one element; elements outside the tensor become 0, whatever the ops are.

    Args:
        into: the view of the result.
        source: the element, or the byte that holds it.
        local: the element's index in the Move's tile along each dimension.
        state: the Move's lowering state.
        context: the kernel's facts.
        half: for packed elements, which of the byte's two elements it is.
    """
    value, window = state.ops, state.whole["src"]
    assert value is not None
    dims = dims_of(window.storage.shape)
    element = held("element", value.dtype, dims)
    step = step_of(value, element, element, exchanged(dims) if swapped(context) else dims)
    tree = step.body if half is None or element not in step.reads else _unpacked(step.body, half)
    at: list[Expr] = []
    conditions: list[Expr] = []
    for axis, index in zip(window.axes, local, strict=True):
        at.append(axis.at(index))
        conditions += [b.holds(index) for b in axis.bounds]
    condition = and_(*conditions) if conditions else as_expr(1)
    mask = None if proves(condition) else condition
    places: dict[Expr, Expr] = dict(zip(dims, at, strict=True))
    inputs = tuple(source if r == element else element_of(r, places, state, context) for r in step.reads)
    body = compute(into, tree, inputs, mask, context, state.link)
    if mask is None or into == source:  # in place, missing elements are 0 already
        return body
    zero = number(0, value.dtype)
    return (Compute(into, zero, link=state.link), *body)


def _unpacked(tree: Scalar, half: int) -> Scalar:
    """Replace reads of an element in an expression by one of the two elements of a byte.

    Raises:
        DecompositionError: `packed-access` where more than two elements share a byte.
    """
    if isinstance(tree, Arg) and tree.index == 0:
        if tree.dtype not in (i4, u4):
            raise DecompositionError(
                "packed-access",
                f"ops take single elements, and {tree.dtype.pack} of {tree.dtype} share a byte",
                fix="convert bits before the kernel",
            )
        return _nibble(tree.dtype, half)
    return with_children(tree, tuple(_unpacked(x, half) for x in children(tree)))


def _nibble(dtype: DType, half: int) -> Custom:
    """Take the lower or the upper four bits of a byte."""
    signed = dtype.signed
    kind = i8 if signed else u8
    if signed:
        source = "(signed char)(x << 4) >> 4" if half == 0 else "(signed char)x >> 4"
    else:
        source = "x & 15" if half == 0 else "x >> 4"

    return Custom(
        f"{dtype}_{'low' if half == 0 else 'high'}", source, ("x",), (Arg(0, u8),), kind, _NIBBLES[signed, half]
    )


def _low(x: Array) -> Array:
    return x & 15


def _high(x: Array) -> Array:
    return x >> 4


def _signed_low(x: Array) -> Array:
    return ((x & 15).astype("int8") ^ 8) - 8


def _signed_high(x: Array) -> Array:
    return ((x >> 4).astype("int8") ^ 8) - 8


_NIBBLES = {(False, 0): _low, (False, 1): _high, (True, 0): _signed_low, (True, 1): _signed_high}
