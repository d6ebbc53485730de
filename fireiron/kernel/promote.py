"""Promotion: the products of each chunk of K are summed in registers of their own, which are then added to the sums.

So sums of low precision stay short, and what prologs multiply operands by is multiplied with the sum of a chunk in
which it is the same for all products, once an element of C instead of once an element of A and B. The values that a
thread multiplies by are read before it waits for the chunk, so that they arrive meanwhile.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import FALSE, Expr, Leaf, Var, as_expr, free, minimum, substitute
from fireiron.algebra.scalar import Arg, Binary, Cast, Scalar
from fireiron.base.errors import DecompositionError
from fireiron.kernel.context import Body, Context, State, buffer_of
from fireiron.kernel.ir import Buffer, Compute, For, Region, View
from fireiron.kernel.pointwise import Visit, compute, operand_view, temporary, visit
from fireiron.kernel.reduce import fill
from fireiron.kernel.storage import register_storage
from fireiron.language.decompositions import Split
from fireiron.language.factors import factor
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
        tree: an expression, whose argument 1 is the buffer's element where there is one.
        buffer: holds what this thread multiplies by, None where the tree reads no tensor.
        runs: by loop over the thread's elements, how many neighbours share a value, and the step from one to the next.
        body: fills the buffer.
    """

    tree: Scalar
    buffer: Buffer | None = None
    runs: tuple[tuple[Var, int, int], ...] = ()
    body: Body = ()

    @property
    def view(self) -> tuple[View, ...]:
        """View the value of the element that the loops are at."""
        if self.buffer is None:
            return ()
        at = as_expr(0)
        for var, run, weight in self.runs:
            at = at + var // run * weight
        return (View(self.buffer, at),)


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
    factors = [_factor(role, sums.dtype, walk, link, state, context) for role in ("A", "B")]
    inputs = [View(buffer_of(sums), register, origin=walk.coordinates)]
    inputs.append(View(buffer_of(part), walk.register, origin=walk.coordinates))
    times: Scalar | None = None
    for found in factors:
        if found is not None:
            tree = found.tree if found.buffer is None else Arg(len(inputs), sums.dtype)
            times = tree if times is None else Binary("mul", times, tree)
            inputs += found.view
    value = _cast(Arg(1, part.dtype), sums.dtype)
    total = Binary("add", Arg(0, sums.dtype), value if times is None else Binary("mul", value, times))
    body = compute(inputs[0], total, tuple(inputs), None, context, link.link)
    title = f"{sums.name} += {part.name}{'' if times is None else ' scaled'}"
    after = Region(f"{title}: Pointwise({sums.memory})({state.level})", walk.around(body), state.path, link.link)
    # Threads without a tile, and what lies beyond a tile's end, hold sums that no product begins.
    partial = bool(owner.written.guards or owner.written.limits)
    begin: Body = ()
    if partial or part.name not in context.zeroed:
        title = f"Init(0)({part.memory})({state.level})"
        begin = (Region(title, (fill(part, 0, context),), state.path, link.link),)
    return Promoted(tuple(s for f in factors if f is not None for s in f.body), begin, (after,))


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
    runs = [(var, extent, _run(var, extent, places)) for var, extent in walk.loops]
    count, known, loops = 1, dict[Expr, Expr](), list[tuple[Var, int]]()
    steps: list[tuple[Var, int, int]] = []
    for var, extent, run in reversed(runs):
        trips = extent // run
        if trips == 1:
            known[var] = as_expr(0)
            continue
        new = context.variable(var.name, trips)
        loops.insert(0, (new, trips))
        known[var] = new * run
        steps.append((var, run, count))
        count *= trips
    buffer = temporary(f"{role.lower()}_scale", dtype, count, context)
    at = as_expr(0)
    for var, run, weight in steps:
        at = at + substitute(var, known) // run * weight
    moved = tuple(
        attrs.evolve(v, offset=substitute(v.offset, known), origin=tuple(substitute(e, known) for e in v.origin))
        for v in views
    )
    into = View(buffer, at)
    body = compute(into, _cast(tree, dtype), (into, *moved), None, context, link.link)
    for var, trips in reversed(loops):
        body = (For(var, as_expr(trips), body, unroll=True),)
    return Factor(tree, buffer, tuple(steps), body)


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
