"""Promotion: the products of each chunk of K are summed in registers of their own, which are then added to the sums.

So sums of low precision stay short, and what prologs multiply operands by is multiplied with the sum of a chunk in
which it is the same for all products, once an element of C instead of once an element of A and B. The values that a
thread multiplies by are read before it waits for the chunk, so that they arrive meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import FALSE, Expr, Leaf, Var, as_expr, free, minimum, substitute
from fireiron.algebra.scalar import Arg, Binary, Cast, Scalar, renumbered
from fireiron.atoms.table import matching
from fireiron.base.errors import DecompositionError
from fireiron.kernel.context import Body, Context, State, buffer_of
from fireiron.kernel.ir import Buffer, Call, Compute, For, Region, View
from fireiron.kernel.pointwise import Visit, compute, operand_view, temporary, visit
from fireiron.kernel.reduce import fill
from fireiron.kernel.storage import register_storage
from fireiron.language.decompositions import Split
from fireiron.language.factors import factor
from fireiron.language.levels import RF, Thread
from fireiron.language.residual import promoted
from fireiron.language.tensor import Tensor


@attrs.frozen
class Promoted:
    """Hold what stands around the products of a chunk.

    Args:
        before: reads what its sums are multiplied by.
        begin: zeroes the sums, where the first products do not.
        after: adds them to the accumulators.
    """

    before: Body = ()
    begin: Body = ()
    after: Body = ()


@attrs.frozen
class Factor:
    """Say what the sums of a chunk are multiplied by for one operand.

    Args:
        tree: an expression of numbers alone, where there is no buffer.
        buffer: holds what this thread multiplies by, None where the tree reads no tensor.
        steps: loops over the thread's elements along which values differ, how many neighbours share one, and the step
            in the buffer from one to the next.
        body: fills the buffer.
    """

    tree: Scalar
    buffer: Buffer | None = None
    steps: tuple[tuple[Var, int, int], ...] = ()
    body: Body = ()

    def view(self, known: Mapping[Expr, Expr] | None = None) -> View:
        """View the value of the element that the loops are at, or that other variables stand for."""
        assert self.buffer is not None
        at = as_expr(0)
        for var, run, weight in self.steps:
            at = at + substitute(var, known or {}) // run * weight
        return View(self.buffer, at)

    def run(self, var: Var, extent: int) -> int:
        """Count the neighbours along a loop that share a value."""
        return next((run for one, run, _ in self.steps if one == var), extent)


def open_chunk(link: Split, state: State, context: Context) -> State:
    """Let the products of a chunk add to registers of their own.

    Raises:
        DecompositionError: `promote-place` where a loop above takes part of the accumulators at a time.
    """
    if link.promoted is None:
        return state
    assert state.output is not None
    residual = attrs.evolve(state.residual, operands=promoted(state.residual.operands, link.promoted))
    inside = attrs.evolve(state, residual=residual, begun=FALSE)
    window = state.windows["C"]
    sums = window.storage
    varied = frozenset[Leaf]().union(*(free(axis.offset) for axis in window.axes))
    outer = next((loop for loop in state.loops if loop.var in varied), None)
    if outer is not None:
        raise DecompositionError(
            "promote-place",
            f"the loop over {outer.var.name} visits parts of {sums.name} one after another, "
            "and promote() adds to all of it behind each chunk",
            fix="split and promote above the tile that loops",
            other=outer.link,
        )
    storage = register_storage("chunk", state.output, sums.memory, link.promoted, state, context, link.link)
    return inside.with_window("C", attrs.evolve(window, storage=storage))


def close_chunk(link: Split, state: State, inside: State, context: Context) -> Promoted:
    """Add the sums of a chunk, multiplied, to the accumulators; their owners are known by now.

    Args:
        link: the split.
        state: of the chunk, with the accumulators.
        inside: what `open_chunk` made of it.
        context: the kernel's.

    Raises:
        DecompositionError: `promote-scales` where chunks do not start where scales do; `opaque-fragment`.
    """
    if link.promoted is None:
        return Promoted()
    sums, part = state.windows["C"].storage, inside.windows["C"].storage
    owner = part.ownership
    if owner is None:  # the epilog says what is missing
        return Promoted()
    assert state.output is not None
    owner.agree("", part.name, "promote()")
    if sums.ownership is None:
        sums.ownership, sums.size = owner, part.size
    walk = visit(owner, state.output, context)
    offset, steps = sums.ownership.resolve(owner.access, sums.name, "promote()")
    register = substitute(offset, walk.renamed) + (steps(walk.index) if steps.size > 1 else 0)
    found = (_factor(role, sums.dtype, walk, link, state, context) for role in ("A", "B"))
    factors = [x for x in found if x is not None]
    into = View(buffer_of(sums), register, origin=walk.coordinates)
    value = View(buffer_of(part), walk.register, origin=walk.coordinates)
    scale, scaling = _product(factors, walk, link, sums.dtype, context)
    body = _add(into, value, scale, link, context)
    title = f"{sums.name} += {part.name}{'' if scale is None else ' scaled'}"
    body = (*scaling, *walk.around(body))
    after = Region(f"{title}: Pointwise({sums.memory})({state.level})", body, state.path, link.link)
    # Threads without a tile, and what lies beyond a tile's end, hold sums that no product begins.
    partial = bool(owner.written.guards or owner.written.limits)
    begin: Body = ()
    if partial or part.name not in context.zeroed:
        title = f"Init(0)({part.memory})({state.level})"
        begin = (Region(title, (fill(part, 0, context),), state.path, link.link),)
    return Promoted(tuple(s for f in factors for s in f.body), begin, (after,))


def _add(into: View, value: View, scale: View | None, link: Split, context: Context) -> Body:
    """Add an element of a chunk's sums, rounded once where it is multiplied."""
    kind = into.buffer.dtype
    tree = _cast(Arg(0, value.buffer.dtype), kind)
    if scale is None:
        total = Binary("add", Arg(1, kind), tree)
        return (Compute(into, total, (value, into), link=link.link),)
    body: Body = ()
    if value.buffer.dtype != kind:
        wide = View(temporary("chunk_value", kind, 1, context), as_expr(0), origin=value.origin)
        body, value = (Compute(wide, tree, (value,), link=link.link),), wide
    (atom, *_) = matching("MatMul", (1, 1, 1), (kind,) * 3, (RF,) * 3, Thread, context.arch)
    return (*body, Call(atom, (value, scale, into), link=link.link))


def _product(
    factors: list[Factor], walk: Visit, link: Split, dtype: DType, context: Context
) -> tuple[View | None, Body]:
    """Multiply what operands are multiplied by, each pair of values once."""
    if not factors:
        return None, ()
    if len(factors) == 1 and factors[0].buffer is not None:
        return factors[0].view(), ()
    runs = [(var, extent, min(f.run(var, extent) for f in factors)) for var, extent in walk.loops]
    known, loops, steps, count = _blocks(runs, context)
    buffer = temporary("scale", dtype, count, context)
    into = Factor(Arg(0, dtype), buffer, steps)
    times: Scalar | None = None
    inputs: list[View] = []
    for one in factors:
        tree = one.tree if one.buffer is None else Arg(len(inputs), dtype)
        inputs += () if one.buffer is None else (one.view(known),)
        times = tree if times is None else Binary("mul", times, tree)
    assert times is not None
    body = compute(into.view(known), times, tuple(inputs), None, context, link.link)
    return into.view(), _around(body, loops)


def _blocks(
    runs: list[tuple[Var, int, int]], context: Context
) -> tuple[dict[Expr, Expr], list[tuple[Var, int]], tuple[tuple[Var, int, int], ...], int]:
    """Number the runs of neighbours along loops; gives loops over them alone, and what stands for the old variables."""
    known, loops, steps, count = dict[Expr, Expr](), list[tuple[Var, int]](), list[tuple[Var, int, int]](), 1
    for var, extent, run in reversed(runs):
        trips = extent // run
        known[var] = as_expr(0)
        if trips > 1:
            new = context.variable(var.name, trips)
            loops.insert(0, (new, trips))
            known[var] = new * run
            steps.append((var, run, count))
            count *= trips
    return known, loops, tuple(steps), count


def _around(body: Body, loops: list[tuple[Var, int]]) -> Body:
    for var, trips in reversed(loops):
        body = (For(var, as_expr(trips), body, unroll=True),)
    return body


def _cast(tree: Scalar, dtype: DType) -> Scalar:
    return tree if tree.dtype == dtype else Cast(tree, dtype)


def _factor(role: str, dtype: DType, walk: Visit, link: Split, state: State, context: Context) -> Factor | None:
    """Find what an operand's prolog multiplies by, and read it for the elements that a thread owns."""
    operand = state.residual.operand(role)
    if operand is None or operand.ops is None:
        return None
    value = operand.ops
    tree = factor(value)
    assert tree is not None, "checked at the link"
    if not value.tensors:
        return Factor(_cast(tree, dtype))
    views = [_scale(tensor, role, walk, link, state, context) for tensor in value.tensors]
    places = [e for view in views for e in view.origin]
    known, loops, steps, count = _blocks([(v, n, _run(v, n, places)) for v, n in walk.loops], context)
    found = Factor(tree, temporary(f"{role.lower()}_scale", dtype, count, context), steps)
    moved = tuple(
        attrs.evolve(v, offset=substitute(v.offset, known), origin=tuple(substitute(e, known) for e in v.origin))
        for v in views
    )
    tree = _cast(renumbered(tree, {i + 1: i for i in range(len(views))}), dtype)
    body = compute(found.view(known), tree, moved, None, context, link.link)
    return attrs.evolve(found, body=_around(body, loops))


def _scale(tensor: Tensor, role: str, walk: Visit, link: Split, state: State, context: Context) -> View:
    """View the element of a tensor that belongs to this chunk and to the element of C that the loops are at.

    What lies beyond the end of C is multiplied too, by the tensor's last element.
    """
    window, output = state.whole[role], state.output
    assert output is not None and isinstance(link.size, int)
    places = {axis.dim: c for axis, c in zip(output.axes, walk.coordinates, strict=True)}
    at: list[Expr] = []
    for axis in window.axes:
        if axis.dim == "K" and axis.offset.divisor % link.size:
            raise DecompositionError(
                "promote-scales",
                f"chunks of {link.size} start at {axis.offset}, which {link.size} does not divide: "
                f"{tensor.name} may change inside them",
                fix=f"let the splits above take multiples of {link.size}",
            )
        at.append(places[axis.dim] if axis.dim in ("M", "N") else axis.offset)
    view = operand_view(tensor, tuple(at), window.storage.shape, state, context)
    inside = tuple(minimum(c, as_expr(n) - 1) for c, n in zip(view.origin, tensor.shape, strict=True))
    offset = as_expr(0)
    for c, stride in zip(inside, tensor.strides, strict=True):
        offset = offset + c * stride
    return attrs.evolve(view, offset=offset, origin=inside)


def _run(var: Var, extent: int, places: list[Expr]) -> int:
    """Count the neighbours along a loop that read the same place, wherever in it they are."""
    for run in range(extent, 1, -1):
        if extent % run:
            continue
        block, inner = Var(f"{var.name}_block", extent // run), Var(f"{var.name}_inner", run)
        if all(inner not in free(substitute(e, {var: block * run + inner})) for e in places):
            return run
    return 1
