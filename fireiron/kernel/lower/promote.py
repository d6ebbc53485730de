"""Promotion: the products of each chunk of K are summed separately, and the chunk's sum is added to the accumulators.

So sums of low precision have few terms. Where a prolog multiplies all products of a chunk by the same factor, the
chunk's sum is multiplied by it: one multiplication for each element of C, not for each element of A and B. Factors are
loaded one chunk ahead.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from fireiron.algebra.expr import FALSE, Expr, Leaf, as_expr, free, substitute
from fireiron.algebra.scalar import Arg, Binary, as_type
from fireiron.atoms.table import matching
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import Call, Compute, Region, View
from fireiron.kernel.lower.context import Body, Context, State, buffer_of
from fireiron.kernel.lower.pointwise import visit
from fireiron.kernel.lower.registers import fill, temporary
from fireiron.kernel.lower.scales import factors_of, product_of, read_scales
from fireiron.kernel.lower.storage import register_storage
from fireiron.language.decompositions import Split
from fireiron.language.levels import RF, Thread
from fireiron.language.residual import promoted


@attrs.frozen
class Promoted:
    """Hold the code around the products of a chunk.

    Args:
        first: statements before the loop over chunks, which load the factors of the first chunk.
        begin: statements before the products, which set the sums of the chunk to zero, unless the first products do.
        ahead: statements that run while products run; they multiply this chunk's factors together, and load those of
            the next chunk.
        after: statements that add the sums to the accumulators.
    """

    first: Body = ()
    begin: Body = ()
    ahead: Body = ()
    after: Body = ()


def open_chunk(link: Split, state: State, context: Context) -> State:
    """Make separate registers for the sums of a chunk.

    Raises:
        DecompositionError: `promote-place` where a loop above visits only a part of the accumulators in each trip.
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
            f"the loop over {outer.var.name} takes parts of {sums.name} in turn, and promote() adds to all of it",
            fix="split and promote above the tile that loops",
            other=outer.link,
        )
    storage = register_storage("chunk", state.output, sums.memory, link.promoted, state, context, link.link)
    return inside.with_window("C", attrs.evolve(window, storage=storage))


def close_chunk(link: Split, k: Expr, at: Callable[[Expr], State], inside: State, context: Context) -> Promoted:
    """Add the sums of a chunk, times their factors, to the accumulators, whose ownership is known.

    Args:
        link: the split.
        k: the chunk's number in its loop.
        at: the lowering state of a chunk, with the accumulators.
        inside: the lowering state from `open_chunk`, with the chunk's sums.
        context: the kernel's facts.

    Raises:
        DecompositionError: `promote-scales` where a chunk may start inside a scale's group; `opaque-fragment`.
    """
    if link.promoted is None:
        return Promoted()
    state = at(k)
    sums, part = state.windows["C"].storage, inside.windows["C"].storage
    owner = part.ownership
    if owner is None:  # the epilog reports the missing owner
        return Promoted()
    assert state.output is not None
    owner.agree("", part.name, "promote()")
    if sums.ownership is None:
        sums.ownership, sums.size = owner, part.size
    walk = visit(owner, state.output, context)
    if owner.written.guards:  # named numbers have their ranges only in threads with a tile; others read too
        walk = attrs.evolve(walk, coordinates=tuple(context.expanded(c) for c in walk.coordinates))
    offset, steps = sums.ownership.resolve(owner.access, sums.name, "promote()")
    register = substitute(offset, walk.renamed) + (steps(walk.index) if steps.size > 1 else 0)
    into = View(buffer_of(sums), register, origin=walk.coordinates)
    value = View(buffer_of(part), walk.register, origin=walk.coordinates)
    factors = factors_of(sums.dtype, walk, link.size, state, context)
    first, following = (
        read_scales(factors, walk, link.size, at(chunk), context, link.link) for chunk in (as_expr(0), k + 1)
    )
    scale, scaling = product_of(factors, walk, sums.dtype, context, link.link)
    body = walk.around(_add(into, value, None if scale is None else scale.view(), link, context))
    title = f"{sums.name} += {part.name}{'' if scale is None else ' * scale'}"
    after = Region(f"{title}: Pointwise({sums.memory})({state.level})", body, state.path, link.link, "compute")
    # Threads without a tile, and elements beyond a tile's end, have sums that no product initialises.
    partial = bool(owner.written.guards or owner.written.limits)
    begin: Body = ()
    if partial or part.name not in context.zeroed:
        title = f"Init(0)({part.memory})({state.level})"
        begin = (Region(title, (fill(part, 0, context),), state.path, link.link, "init", part.name),)
    return Promoted(first, begin, (*scaling, *following), (after,))


def _add(into: View, value: View, scale: View | None, link: Split, context: Context) -> Body:
    """Add an element of a chunk's sums to its accumulator; with a factor by one rounding (a fused multiply-add)."""
    kind = into.buffer.dtype
    tree = as_type(Arg(0, value.buffer.dtype), kind)
    if scale is None:
        return (Compute(into, Binary("add", Arg(1, kind), tree), (value, into), link=link.link),)
    body: Body = ()
    if value.buffer.dtype != kind:
        wide = View(temporary("chunk_value", kind, 1, context), as_expr(0), origin=value.origin)
        body, value = (Compute(wide, tree, (value,), link=link.link),), wide
    (atom, *_) = matching("MatMul", (1, 1, 1), (kind,) * 3, (RF,) * 3, Thread, context.arch)
    return (*body, Call(atom, (value, scale, into), link=link.link))
