"""Results of steps: folds are closed, and outputs are stored, each value by one of the threads that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fireiron.algebra.expr import Expr, and_, as_expr, as_int, eq, lt, proves, substitute
from fireiron.algebra.layout import Layout
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import If, Region
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.folds.atomics import added
from fireiron.kernel.lower.folds.bulk import adding_store
from fireiron.kernel.lower.folds.state import Open, Shared, finish
from fireiron.kernel.lower.folds.threads import close, side_by_side
from fireiron.kernel.lower.maps import by_points, is_mapped
from fireiron.kernel.lower.own_points import own_points
from fireiron.kernel.lower.step_points import owner_of
from fireiron.kernel.lower.tree import tree
from fireiron.kernel.lower.window import POINTS, Window
from fireiron.language.decompositions import Done, Own, Tile, Widest
from fireiron.language.levels import GL, RF, Thread
from fireiron.language.residual import move_of
from fireiron.language.steps import Ref, Step


def closed(opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Compute a fold's results from the threads' parts, and store outputs; return the state after it.

    Results of folds over blocks of the grid are computed later, by the last block.
    """
    progress = state.progress
    assert progress is not None
    body = close(opened, state, context)
    if progress.spread is not None and progress.shares(opened.step):
        progress.spread[1].append(Shared(opened, state))
        return body, state
    return with_results((*body, *finish(opened, state, context)), opened, state, context, recur)


def closed_together(waiting: Sequence[Open], state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Close folds that do not read each other: each carrier's exchanges stand side by side, behind one barrier."""
    progress = state.progress
    assert progress is not None
    if len(waiting) == 1 or not all(as_int(opened.storages[0].size) == 1 for opened in waiting):
        body: Body = ()
        for opened in waiting:  # side by side, states of many registers would be in flight at once
            made, state = closed(opened, state, context, recur)
            body += made
        return body, state
    body = side_by_side([close(opened, state, context) for opened in waiting])
    for opened in waiting:
        if progress.spread is not None and progress.shares(opened.step):
            progress.spread[1].append(Shared(opened, state))
        else:
            body, state = with_results((*body, *finish(opened, state, context)), opened, state, context, recur)
    return body, state


def with_results(body: Body, opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Make a fold's results readable for later steps, and store outputs."""
    progress = state.progress
    assert progress is not None
    held = (*opened.storages, *(w.storage for w in opened.results.values()))
    progress.places.update({storage.name: opened.places for storage in held})
    after = evolve(state, windows={**state.windows, **opened.results})
    return (*body, *_stored_fold(opened.step, opened, after, context, recur)), after


def _stored_fold(step: Step, opened: Open, state: State, context: Context, recur: Recur) -> Body:
    """Store a fold's result if it is an output."""
    progress = state.progress
    assert progress is not None
    outputs = {t.name for t in progress.program.outputs}
    body: Body = ()
    for out in step.outs:
        if out.name in outputs:
            body += store_result(step, out, opened.results[out.name], opened.places, state, context, recur)
    return body


def store_result(
    step: Step,
    out: Ref,
    window: Window,
    places: Mapping[str, Expr],
    state: State,
    context: Context,
    recur: Recur,
) -> Body:
    """Store a result from registers to its output; of several threads with the same value, the first one stores.

    Args:
        step: the step that computes the result.
        out: the output.
        window: the result in registers.
        places: the coordinates of a thread's first point along dims, as far as they are known.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        recur: a function that lowers the chain of the Move.
    """
    progress = state.progress
    assert progress is not None
    results = progress.results
    target = state.windows[stored_name(out.name)]
    move = move_of(state.residual, out.name, GL, window.storage.dtype)
    src, dst = move.operands
    dims = tuple(a.dim for a in window.axes)
    target = by_points(target, state.windows[POINTS], dims) if is_mapped(target) else permuted(target, dims)
    sizes = state.residual.extents
    move = evolve(
        move,
        sizes=tuple((dim, sizes[dim]) for dim in dims),
        operands=(evolve(src, memory=RF, dtype=window.storage.dtype, dims=dims), evolve(dst, dims=dims)),
        adds=step.adds,
    )
    links = (Own(Thread), Tile(Widest(), unrolled=True), Done(None)) if results is None else results.of(out.name)
    links = added(step.into, out.dtype, context, state.link) if step.adds else links
    condition = stores_here(step, out, places, state, context)
    adds = progress.adds
    if adds is not None and out.name in adds.outputs:
        links = adding_store(links, out.dtype, out.name, adds)
        condition = substitute(condition, adds.first)
    inner = evolve(
        state,
        residual=move,
        windows={"src": window, "dst": target},
        whole={},
        progress=None,
    ).under(f"store {out.name}", state.link)
    body = recur(tree(links), inner, context)
    if not proves(condition):
        body = (If(condition, body),)
    return (Region(f"store {out.name}: {move}", body, inner.path, state.link),)


def stored_name(name: str) -> str:
    """Return the role of an output's window in memory; the output's own name is the role of its registers."""
    return f"store {name}"


def permuted(window: Window, dims: Sequence[str]) -> Window:
    """Reorder a memory window's axes to the order in which registers hold the same dims."""
    places = [next(i for i, a in enumerate(window.axes) if a.dim == dim) for dim in dims]
    if places == sorted(places):
        return window
    storage = window.storage
    assert not isinstance(storage.strides, Layout)
    shape, strides = (tuple(found[i] for i in places) for found in (storage.shape, storage.strides))
    storage = attrs.evolve(storage, shape=shape, strides=strides)
    return evolve(window, axes=tuple(window.axes[i] for i in places), storage=storage)


def _elsewhere(step: Step, lacking: list[str], state: State, context: Context) -> dict[str, Expr]:
    """Find a thread's first points along dims that the owner of a step lacks, by a register tensor that has them.

    Example: of two results of topk, the second one's owner is the first one, which has no folded dim.
    """
    assert state.progress is not None
    wide = [d for d in state.progress.program.dims if d.name in lacking and state.residual.extents[d.name] != 1]
    other = owner_of([*step.dims, *wide], state, required=False) if wide else None
    mine = {a.dim for a in other.axes} if other is not None else set[str]()
    if other is None or not {d.name for d in wide} <= mine:
        return {}
    inside = own_points(other, [a.dim for a in other.axes], state, context)
    return {d.name: inside.first(d.name, POINTS) for d in wide}


def stores_here(step: Step, out: Ref, places: Mapping[str, Expr], state: State, context: Context) -> Expr:
    """Return the condition that a thread stores a value which several hold: at the start of all dims it lacks."""
    missing = [d for d, _ in state.residual.sizes if d not in {x.name for x in out.dims}]
    if not missing:
        # All threads of a unit hold the same single element.
        alone = all(state.residual.extents[d.name] == 1 for d in out.dims)
        return lt(state.position, 1) if alone and state.position is not None else as_expr(1)
    progress = state.progress
    assert progress is not None
    points = state.windows[POINTS]
    firsts = {a.dim: a.offset for a in points.axes}
    owner = owner_of(step.dims, state, required=False)
    if not places and owner is not None and owner.storage.name in progress.places:
        places = progress.places[owner.storage.name]
    elif not places and owner is not None and state.level.name != Thread.name:
        mine = [a.dim for a in owner.axes]
        inside = own_points(owner, mine, state, context)
        firsts |= {dim: inside.first(dim, POINTS) for dim in mine}
        firsts |= _elsewhere(step, [dim for dim in missing if dim not in mine], state, context)
    firsts |= places
    return and_(*(eq(firsts[dim], 0) for dim in missing))
