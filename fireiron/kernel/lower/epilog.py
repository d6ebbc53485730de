"""Epilog: C accumulates in registers; then pointwise ops run on it, and a Move stores it."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.expr import Expr, Index, Var, and_, as_expr, proves
from fireiron.algebra.scalar import Constant
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Compute, For, Region, View
from fireiron.kernel.lower.bulk_sum import added_in_bulk
from fireiron.kernel.lower.cluster_sum import meet
from fireiron.kernel.lower.context import Body, Context, Recur, State, buffer_of
from fireiron.kernel.lower.epilog_operands import lower_early
from fireiron.kernel.lower.parallel import of_tile
from fireiron.kernel.lower.pointwise import lower_ops
from fireiron.kernel.lower.reduce import add_constant, fill, gather, share
from fireiron.kernel.lower.row_fold import lower_rows
from fireiron.kernel.lower.storage import fresh_window, register_storage, tensor_window
from fireiron.kernel.lower.stream import hand_on
from fireiron.kernel.lower.window import Window
from fireiron.kernel.passes.bounds_after_rounding import round_first
from fireiron.language.decompositions import ByTma, Decomposition, Epilog
from fireiron.language.residual import apply, store_of
from fireiron.language.tensor import Tensor


def lower_epilog(link: Epilog, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur) -> Body:
    """Lower the accumulator's life: Init, the rest of the chain, pointwise ops, the store.

    The compute atom at the end of the chain decides which thread owns which element, so the rest is lowered first.
    """
    output = state.windows["C"]
    if context.role != "math":  # it has no part in the accumulator's life
        below = evolve(state, residual=apply(link, state.residual)).under("epilog", link.link)
        return recur(rest, below, context)
    storage = register_storage("acc", output, link.memory, link.dtype, state, context, link.link)
    storage.seeded = link.init != 0
    window = fresh_window(storage, output)
    inside = evolve(state.with_window("C", window), residual=apply(link, state.residual)).under("epilog", link.link)
    main = recur(rest, evolve(inside, output=output), context)
    parts = [of_tile(part, state.loops) for part in storage.partials]
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
        "init",
        storage.name,
    )
    window, gathered = gather(window, inside, context)
    early, ahead = lower_early(link, storage, output, inside, context)
    bulk = next((p for p in parts if isinstance(p.reduce, ByTma)), None)
    if bulk is not None:
        value, stores = added_in_bulk(link, output, bulk)
        link = evolve(link, value=value, store=stores)
    meeting = meet(window, parts, output, inside, state, link, context)
    window, output, inside, state = meeting.window, meeting.output, meeting.inside, meeting.state
    summed = window
    finish: Body = (add_constant(summed.storage, link.init, context),) if partial and link.init != 0 else ()
    for i, value in enumerate(link.values):
        title = f"Pointwise({link.memory})({state.level})"
        beside = link.outputs[i] if i < len(link.outputs) else None
        apart = beside is not None and beside.apart
        made, ops = lower_ops(value, window, output, inside, context, link.link, title, early, apart=apart)
        if beside is not None and beside.rows is not None:
            window = made
            finish += (*ops, lower_rows(beside, window, output, inside, context, link.link))
            continue
        tensor = None if beside is None else beside.tensor
        put = _store(link, i, tensor, made, output, inside, state, context, recur)
        if i + 1 == len(link.values):
            ops, put = round_first(ops, put, buffer_of(made.storage), context.arch)
        window = window if apart else made
        finish += (*ops, put)
    begin = () if storage.name in context.zeroed else (init,)
    if context.stream is not None:
        return (*begin, *ahead, *main, *gathered, *hand_on(summed, context.stream, finish, link.link, context))
    return (*begin, *ahead, *main, *gathered, *meeting.around(share(summed, parts, finish, context)))


def _store(
    link: Epilog,
    number: int,
    tensor: Tensor | None,
    window: Window,
    output: Window,
    inside: State,
    state: State,
    context: Context,
    recur: Recur,
) -> Region:
    """Lower the Move that takes what the ops made to C, or to a tensor beside it."""
    links, name, path = link.store, "C", f"{inside.path} > store"
    if tensor is not None:
        links, name, path = link.outputs[number].store, tensor.name, f"{inside.path} > store {tensor.name}"
        output = evolve(output, storage=tensor_window(tensor, state, context).storage)
    move = store_of(state.residual, link.memory, window.storage.dtype, tensor)
    windows = {"src": window, "dst": output}
    inner = evolve(state, residual=move, windows=windows, whole={}, path=path, link=link.link)
    return Region(f"store {name}: {move}", recur(links, inner, context), inside.path, link.link, "store", name)


def initialise(state: State, context: Context) -> Body:
    """Zero a C that accumulates in memory, before its loop over K."""
    window = state.windows["C"]
    if state.level.size != 1:
        raise DecompositionError(
            "init-level",
            f"C accumulates in {window.storage.memory} over a split at level {state.level}: no thread holds its zeros",
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
    return (
        Region(f"Init(0)({window.storage.memory})(Thread)", body, state.path, state.link, "init", window.storage.name),
    )
