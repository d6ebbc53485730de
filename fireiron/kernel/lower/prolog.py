"""Prologs: pointwise ops on an operand's elements while they are in registers, before atoms read them.

Ops read further tensors as those of an epilog do: neighbours that a thread holds by one instruction, where the address
of the first is known to be aligned; else one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.algebra.dtypes import DType, i4, i8, u4, u8
from fireiron.algebra.expr import Expr, Var, affine, and_, as_expr, proves
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Custom, Scalar, children, number, with_children
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Buffer, Compute, For, View
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.pointwise import Visit, compute, element, load_vector, swapped, wide, widths
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.lower.window import Window
from fireiron.language.steps import Ref
from fireiron.language.value_steps import dims_of, exchanged, held, step_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def transform(
    count: int,
    into: Callable[[Expr], View],
    source: Callable[[Expr], View],
    local: Callable[[Expr], tuple[Expr, ...]],
    state: State,
    context: Context,
) -> Body:
    """Apply a Move's ops to a thread's elements; elements outside the tensor become 0, whatever the ops are.

    Args:
        count: the number of elements.
        into: a function from an element's number to the view of its result.
        source: a function from an element's number to its view, or to that of the byte that holds it.
        local: a function from an element's number to its index in the Move's tile along each dimension.
        state: the Move's lowering state.
        context: the kernel's facts.
    """
    value, window = state.ops, state.whole["src"]
    assert value is not None
    dims = dims_of(window.storage.shape)
    held_element = held("element", value.dtype, dims)
    step = step_of(value, held_element, held_element, exchanged(dims) if swapped(context) else dims)
    others = [ref for ref in step.reads if ref != held_element]
    pack = source(as_expr(0)).buffer.dtype.pack
    width, along = _neighbours(count, pack, local, others, window)
    inner = width if width > 1 else count
    trips = count // inner
    group = context.variable("v", trips) if trips > 1 else as_expr(0)
    e = context.variable("e", inner // pack) if inner > pack else as_expr(0)
    first = group * inner + e * pack
    walk = _at(first, local, window)
    if width > 1:  # all in one byte: a loop of one trip
        walk = attrs.evolve(walk, inner=e if isinstance(e, Var) else Var("e", 1), along=along, width=width)
    loads: Body = ()
    vectors: dict[Ref, Buffer] = {}
    for ref in others:
        if wide(ref, walk, window):
            vectors[ref] = temporary(f"{ref.name}_vec", ref.dtype, width, context)
            place = View(vectors[ref], as_expr(0), Layout(width, 1))
            read = element(ref, walk, window, state, context)
            loads += (load_vector(ref, read, place, walk, window, context, state.link),)
    body: Body = ()
    for half in range(pack):
        one = _at(first + half, local, window)
        inputs = tuple(
            source(first)
            if ref == held_element
            else View(vectors[ref], e * pack + half)
            if ref in vectors
            else element(ref, one, window, state, context)
            for ref in step.reads
        )
        tree = step.body if pack == 1 or held_element not in step.reads else _unpacked(step.body, half)
        mask = None if proves(one.condition) else one.condition
        target = into(first + half)
        if mask is not None and target != source(first):  # in place, missing elements are 0 already
            body += (Compute(target, number(0, value.dtype), link=state.link),)
        body += compute(target, tree, inputs, mask, context, state.link)
    if isinstance(e, Var):
        body = (For(e, as_expr(inner // pack), body, unroll=True),)
    body = (*loads, *body)
    return (For(group, as_expr(trips), body, unroll=True),) if isinstance(group, Var) else body


def _at(element_number: Expr, local: Callable[[Expr], tuple[Expr, ...]], window: Window) -> Visit:
    """Describe an element by its number: its coordinates in the whole tensor, and the conditions that it exists."""
    place = local(element_number)
    along = tuple(and_(*(b.holds(x) for b in axis.bounds)) for axis, x in zip(window.axes, place, strict=True))
    whole = tuple(axis.at(x) for axis, x in zip(window.axes, place, strict=True))
    return Visit(whole, place, element_number, and_(*along), (), along_axis=along)


def _neighbours(
    count: int, pack: int, local: Callable[[Expr], tuple[Expr, ...]], refs: Sequence[Ref], window: Window
) -> tuple[int, int]:
    """Choose how many elements a thread visits together, which one access of each such tensor loads, and their axis.

    Returns:
        The number of elements, 1 where no tensor's are neighbours; the axis along which they are neighbours.
    """
    width = count & -count
    while refs and width > 1 and width >= pack:
        outer, inner = Var("v", count // width), Var("e", width)
        steps = [affine(c, [inner]) for c in _at(outer * width + inner, local, window).coordinates]
        moved = [i for i, split in enumerate(steps) if split is None or split[0].get(inner, 0) != 0]
        if len(moved) == 1 and (split := steps[moved[0]]) is not None and split[0][inner] == 1:
            (along,) = moved
            if any(b.lower for b in window.axes[along].bounds):
                return 1, 0
            most = widths(refs, window)(along, width, split[1])
            return (most, along) if most >= pack else (1, 0)
        width //= 2
    return 1, 0


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
