"""Epilog: C accumulates in registers; then pointwise ops run on it, and a Move stores it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, Index, Var, and_, as_expr, lt, proves, substitute
from fireiron.algebra.scalar import Arg, Constant, parameters
from fireiron.base.errors import DecompositionError
from fireiron.kernel.added import added_in_bulk
from fireiron.kernel.context import Body, Context, Recur, State, buffer_of
from fireiron.kernel.ir import Compute, For, Region, View
from fireiron.kernel.reduce import add_constant, fill, gather, share
from fireiron.kernel.storage import fresh_window, register_storage, tensor_window
from fireiron.kernel.stream import hand_on
from fireiron.kernel.window import Window
from fireiron.language.decompositions import ByTma, Decomposition, Epilog
from fireiron.language.pointwise import Value
from fireiron.language.residual import apply, store_of
from fireiron.language.specs import MatMul


def lower_epilog(link: Epilog, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur) -> Body:
    """Lower the accumulator's life: Init, the rest of the chain, pointwise ops, the store.

    The compute atom at the end of the chain decides which thread owns which element, so the rest is lowered first.
    """
    output = state.windows["C"]
    if context.role != "math":  # it has no part in the accumulator's life
        below = attrs.evolve(state, residual=apply(link, state.residual)).under("epilog", link.link)
        return recur(rest, below, context)
    storage = register_storage("acc", output, link.memory, link.dtype, state, context, link.link)
    storage.seeded = link.init != 0
    window = fresh_window(storage, output)
    inside = attrs.evolve(state.with_window("C", window), residual=apply(link, state.residual)).under(
        "epilog", link.link
    )
    main = recur(rest, inside, context)
    parts = storage.partials
    partial = bool(parts) or context.stream is not None
    if storage.ownership is None:
        raise DecompositionError(
            "ownership-unknown",
            "nothing below epilog computes with the accumulator",
            fix="close the chain by an atom on C",
        )
    init = Region(
        f"Init({link.init:g})({link.memory})({state.level})",
        (fill(storage, 0 if partial else link.init, context),),
        inside.path,
        link.link,
    )
    window, gathered = gather(window, inside, context)
    bulk = next((p for p in parts if isinstance(p.reduce, ByTma)), None)
    value, stores = (link.value, link.store) if bulk is None else added_in_bulk(link, output, bulk)
    ops = _ops(value, output, window, state, context, link)
    move = store_of(state.residual, link.memory, link.dtype)
    store_state = attrs.evolve(
        state, residual=move, windows={"src": window, "dst": output}, path=f"{inside.path} > store", link=link.link
    )
    store = Region(f"store C: {move}", recur(stores, store_state, context), inside.path, link.link)
    start = (add_constant(window.storage, link.init, context),) if partial and link.init != 0 else ()
    begin = () if storage.name in context.zeroed else (init,)
    finish = (*start, *ops, store)
    if context.stream is not None:
        return (*begin, *main, *gathered, *hand_on(window, context.stream, finish, link.link, context))
    return (*begin, *main, *gathered, *share(window, parts, finish, context))


def initialise(state: State, context: Context) -> Body:
    """Zero a C that accumulates in memory, before its loop over K."""
    window = state.windows["C"]
    if state.level.size != 1:
        raise DecompositionError(
            "init-level",
            f"C accumulates in {window.storage.memory} over a split at level {state.level}: no thread owns its zeroes",
            fix="accumulate in registers by .epilog(...) above the split, or split below .to(Thread)",
        )
    body: Body = ()
    offset = window.linear()
    loops: list[tuple[Var, Index]] = []
    condition: Expr | None = None
    for i, axis in enumerate(window.axes):
        steps = window.steps_along(i)
        assert steps is not None
        var: Expr = as_expr(0)
        if axis.size != 1:
            var = context.variable("i", axis.size)
            loops.append((var, axis.size))
        offset = offset + steps(var)
        for bound in axis.bounds:
            one = bound.condition(axis.layout(var))
            condition = one if condition is None else and_(condition, one)
    zero = Constant(0.0 if window.storage.dtype.kind == "float" else 0, window.storage.dtype)
    mask = None if condition is None or proves(condition) else condition
    body = (Compute(View(buffer_of(window.storage), offset, origin=window.origin), zero, write=mask),)
    for var, extent in reversed(loops):
        body = (For(var, as_expr(extent), body, unroll=True),)
    return (Region(f"Init(0)({window.storage.memory})(Thread)", body, state.path, state.link),)


def _ops(value: Value, output: Window, window: Window, state: State, context: Context, link: Epilog) -> Body:
    if value.tree == Arg(0, link.dtype):
        return ()
    ownership = window.storage.ownership
    assert ownership is not None
    if value.tensors:
        named = ", ".join(dict.fromkeys(tensor.name for tensor in value.tensors))
        ownership.agree("", window.storage.name, f"an op that reads {named}")
    access = ownership.access
    fresh = {
        loop.var: context.variable(loop.var.name, extent)
        for loop, extent in zip(access.loops, access.extents, strict=True)
    }
    element = context.variable("e", access.count) if access.count > 1 else None
    index: Expr = as_expr(0) if element is None else element
    coordinates: list[Expr] = []
    condition: Expr = as_expr(1)
    rest = index
    locals_: list[Expr] = []
    for coordinate, steps, axis in zip(ownership.written.coordinates, access.elements, output.axes, strict=True):
        local = rest % steps.size
        locals_.append(local)
        at = substitute(coordinate, fresh) + steps(local)
        rest = rest // steps.size
        assert axis.steps is None and isinstance(axis.size, int)
        coordinates.append(axis.offset + at)
        condition = and_(condition, lt(at, axis.size), *(b.condition(at) for b in axis.bounds))
    written = ownership.written
    limits = (lt(substitute(x.offset, fresh) + x.steps(locals_[x.axis]), x.limit) for x in written.limits)
    condition = and_(condition, *limits, *(substitute(g, fresh) for g in written.guards))
    register = substitute(ownership.register(), fresh) + index
    dst = View(buffer_of(window.storage), register, origin=tuple(coordinates))
    inputs = [dst]
    # Tensors of ops broadcast over C as the caller has it.
    swapped = isinstance(context.spec, MatMul) and context.spec.swapped
    given = _exchanged(tuple(coordinates)) if swapped else tuple(coordinates)
    for tensor in value.tensors:
        source = tensor_window(tensor, state, context)
        picked = given[len(given) - len(tensor.shape) :]
        shared = tuple(as_expr(0) if extent == 1 else c for c, extent in zip(picked, tensor.shape, strict=True))
        if swapped and source.storage.tensor != tensor and len(shared) > 1:  # C, which swap() transposes
            shared = _exchanged(shared)
        inputs.append(View(buffer_of(source.storage), source.storage.address(shared), origin=shared))
    context.numbers.update((p.name, p.dtype) for p in parameters(value.tree))
    mask = None if not value.tensors or proves(condition) else condition
    body: Body = (Compute(dst, value.tree, tuple(inputs), mask, link.link),)
    if element is not None:
        body = (For(element, as_expr(access.count), body, unroll=True),)
    for loop, extent in reversed(list(zip(access.loops, access.extents, strict=True))):
        body = (For(fresh[loop.var], as_expr(extent), body, unroll=True),)
    title = f"Pointwise({link.memory})({state.level})"
    return (Region(title, body, f"{state.path} > epilog", link.link),)


def _exchanged(coordinates: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Name the place of a matrix's element in its transpose."""
    *batch, row, col = coordinates
    return (*batch, col, row)
