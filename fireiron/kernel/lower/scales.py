"""Scales of a chunk's sums: the factors of prologs, which multiply each element of C that a thread owns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, Var, as_expr, free, minimum, substitute
from fireiron.algebra.scalar import Arg, Binary, Scalar, as_type, renumbered
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.check.promote import served
from fireiron.kernel.ir.statements import Buffer, For, View
from fireiron.kernel.lower.context import Body, Context, State
from fireiron.kernel.lower.pointwise import Visit, compute, element_of, swapped
from fireiron.kernel.lower.registers import temporary
from fireiron.language.factors import factor
from fireiron.language.pointwise import Value
from fireiron.language.tensor import Tensor
from fireiron.language.value_steps import dims_of, exchanged, repeated


@attrs.frozen
class Held:
    """Hold values in registers, one for each run of elements with the same value.

    Args:
        buffer: the registers.
        steps: for each loop over a thread's elements along which values differ: how many neighbours share a value, and
            the distance in registers from one value to the next.
    """

    buffer: Buffer
    steps: tuple[tuple[Var, int, int], ...]

    def view(self, known: Mapping[Expr, Expr] | None = None) -> View:
        """Return the view of the value for the current element, or for the element at other loop variables."""
        at = as_expr(0)
        for var, run, weight in self.steps:
            at = at + substitute(var, known or {}) // run * weight
        return View(self.buffer, at)

    def run(self, var: Var, extent: int) -> int:
        """Return the number of neighbours along a loop that share a value."""
        return next((run for one, run, _ in self.steps if one == var), extent)


@attrs.frozen
class Factor:
    """Hold the factor that an operand's prolog multiplies by.

    Args:
        role: the operand's role.
        value: the prolog's expression.
        tree: the factor, with the argument numbers of `value`.
        held: the registers of the factor's values; None where it reads no tensor.
    """

    role: str
    value: Value
    tree: Scalar
    held: Held | None


def factors_of(dtype: DType, walk: Visit, chunk: Index, state: State, context: Context) -> tuple[Factor, ...]:
    """Find the factors of the operands' prologs, and make registers for them.

    Args:
        dtype: element type of the registers.
        walk: the loops over the elements of C that a thread owns.
        chunk: extent of a chunk of K.
        state: the lowering state of a chunk.
        context: the kernel's facts.

    Raises:
        DecompositionError: `promote-scales` where a chunk may start inside a scale's group.
    """
    found: list[Factor] = []
    for operand in state.residual.operands[:2]:
        if operand.ops is None:
            continue
        tree, role = factor(operand.ops), operand.role
        assert tree is not None, "checked at the link"
        held = None
        if operand.ops.tensors:
            places = [e for t in operand.ops.tensors for e in _element(t, role, walk, chunk, state, context).origin]
            runs = [(var, extent, _run(var, extent, places)) for var, extent in walk.loops]
            held = _registers(f"{role.lower()}_scale", dtype, runs, context)
        found.append(Factor(role, operand.ops, tree, held))
    return tuple(found)


def read_scales(
    factors: Sequence[Factor], walk: Visit, chunk: Index, state: State, context: Context, link: Link | None
) -> Body:
    """Load the factors of a chunk's sums."""
    body: Body = ()
    for one in factors:
        if one.held is None:
            continue
        known, loops = _blocks(one.held, walk, context)
        views = [_element(t, one.role, walk, chunk, state, context) for t in one.value.tensors]
        inputs = tuple(
            attrs.evolve(v, offset=substitute(v.offset, known), origin=tuple(substitute(e, known) for e in v.origin))
            for v in views
        )
        tree = as_type(renumbered(one.tree, {i + 1: i for i in range(len(views))}), one.held.buffer.dtype)
        body += _around(compute(one.held.view(known), tree, inputs, None, context, link), loops)
    return body


def product_of(
    factors: Sequence[Factor], walk: Visit, dtype: DType, context: Context, link: Link | None
) -> tuple[Held | None, Body]:
    """Multiply the operands' factors, each pair of values once; the factors' registers are then free."""
    if not factors:
        return None, ()
    helds = [one.held for one in factors if one.held is not None]
    runs = [(var, extent, min((h.run(var, extent) for h in helds), default=extent)) for var, extent in walk.loops]
    made = _registers("scale", dtype, runs, context)
    known, loops = _blocks(made, walk, context)
    times: Scalar | None = None
    for one in factors:
        tree = as_type(one.tree, dtype) if one.held is None else Arg(helds.index(one.held), dtype)
        times = tree if times is None else Binary("mul", times, tree)
    assert times is not None
    inputs = tuple(held.view(known) for held in helds)
    return made, _around(compute(made.view(known), times, inputs, None, context, link), loops)


def _registers(name: str, dtype: DType, runs: Sequence[tuple[Var, int, int]], context: Context) -> Held:
    """Make a register for each run of neighbours."""
    count, steps = 1, list[tuple[Var, int, int]]()
    for var, extent, run in reversed(runs):
        if extent > run:
            steps.append((var, run, count))
            count *= extent // run
    return Held(temporary(name, dtype, count, context), tuple(steps))


def _blocks(held: Held, walk: Visit, context: Context) -> tuple[dict[Expr, Expr], list[tuple[Var, int]]]:
    """Make loops over runs of neighbours; return the values of the full loops' variables, and the loops."""
    known, loops = dict[Expr, Expr](), list[tuple[Var, int]]()
    for var, extent in walk.loops:
        run = held.run(var, extent)
        known[var] = as_expr(0)
        if extent > run:
            new = context.variable(var.name, extent // run)
            loops.append((new, extent // run))
            known[var] = new * run
    return known, loops


def _around(body: Body, loops: Sequence[tuple[Var, int]]) -> Body:
    for var, trips in reversed(loops):
        body = (For(var, as_expr(trips), body, unroll=True),)
    return body


def _element(tensor: Tensor, role: str, walk: Visit, chunk: Index, state: State, context: Context) -> View:
    """Return the view of a scale tensor's element for a chunk and the current element of C.

    Elements beyond the end of C, and chunks after the last one, are multiplied by the tensor's last element.
    """
    window, output, operand = state.whole[role], state.output, state.residual.operand(role)
    assert output is not None and operand is not None
    varies = served(tensor, operand, swapped(context)) > 0
    places = {axis.dim: c for axis, c in zip(output.axes, walk.coordinates, strict=True)}
    at: list[Expr] = []
    for axis in window.axes:
        if axis.dim == "K" and varies and (not isinstance(chunk, int) or axis.offset.divisor % chunk):
            raise DecompositionError(
                "promote-scales",
                f"{tensor.name} may change inside chunks of {chunk} that start at {axis.offset}",
                fix=f"let the splits above take multiples of {chunk}",
            )
        at.append(places[axis.dim] if axis.dim in ("M", "N") else axis.offset)
    dims = dims_of(window.storage.shape)
    ref = repeated(tensor, exchanged(dims) if swapped(context) else dims)
    view = element_of(ref, dict(zip(dims, at, strict=True)), state, context)
    inside = tuple(minimum(c, as_expr(n) - 1) for c, n in zip(view.origin, tensor.shape, strict=True))
    offset = as_expr(0)
    for c, stride in zip(inside, tensor.strides, strict=True):
        offset = offset + c * stride
    return attrs.evolve(view, offset=offset, origin=inside)


def _run(var: Var, extent: int, places: Sequence[Expr]) -> int:
    """Return the number of neighbours along a loop that read the same element."""
    for run in range(extent, 1, -1):
        if extent % run:
            continue
        block, inner = Var(f"{var.name}_block", extent // run), Var(f"{var.name}_inner", run)
        if all(inner not in free(substitute(e, {var: block * run + inner})) for e in places):
            return run
    return 1
