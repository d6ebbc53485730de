"""Pointwise steps: values in registers of the threads that own the points, and copies of them in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.expr import Index, as_expr
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import Access, Ownership
from fireiron.kernel.ir.statements import Region
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.gathered_pairs import gathered_by_pairs
from fireiron.kernel.lower.idle_points import around
from fireiron.kernel.lower.own_points import own_points
from fireiron.kernel.lower.step_points import assign, at_points, each_point, new_dims, owner_of
from fireiron.kernel.lower.step_results import store_result
from fireiron.kernel.lower.storage import register_storage
from fireiron.kernel.lower.tree import tree
from fireiron.kernel.lower.window import POINTS, Axis, Window
from fireiron.language.decompositions import Load
from fireiron.language.folds import Dim
from fireiron.language.levels import RF, SH, Thread
from fireiron.language.residual import Operand, Residual
from fireiron.language.steps import Ref, Step


def lower_value(step: Step, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Compute a pointwise step's value in the threads that hold its points; return the state with its window."""
    progress, link = state.progress, state.link
    assert progress is not None
    (out,) = step.outs
    outputs = {t.name for t in progress.program.outputs}
    dtype = out.dtype
    placed = progress.placed.get(out.name)
    wanted = None if placed is not None else state.windows.get(out.name)  # with the ownership of an atom's operand
    window = held_at(step, state, context) if wanted is None else wanted
    owner = owner_of(step.dims, state, required=False)
    if owner is not None and owner.storage.name in progress.places:
        progress.places[window.storage.name] = progress.places[owner.storage.name]
    elif owner is not None and state.level.name != Thread.name and new_dims(step.dims, owner, state):
        # The result does not say which of the threads that hold it has the first point.
        inside = own_points(owner, [a.dim for a in owner.axes], state, context)
        progress.places[window.storage.name] = {a.dim: inside.first(a.dim, POINTS) for a in owner.axes}
    role = f"{out.name} in registers"
    inside = evolve(state, windows={**state.windows, role: window})
    filled = wanted is not None or placed is not None
    within, owned = at_points(step, inside, context, wanted)
    main = each_point(step, within, context, lambda at: assign(step, role, at, context, filled=filled))
    main = main if owned is None else around(owned, main, (), state, context)
    main = gathered_by_pairs(main, context) if wanted is not None else main
    body: Body = (Region(f"{step.name}: {dtype} in {window.storage.name}", main, state.path, link),)
    if placed is not None:
        body += _brought(out, window, placed, state, context, recur)
    after = evolve(state, windows={**state.windows, out.name: window})
    stored = store_result(step, out, window, {}, state, context, recur) if out.name in outputs else ()
    return (*body, *stored), after


def _brought(out: Ref, window: Window, link: Load, state: State, context: Context, recur: Recur) -> Body:
    """Store a result from registers to the shared memory from which atoms read it."""
    dims = tuple(d.name for d in out.dims)
    src, dst = (Operand(role, out.tensor, memory, out.dtype, dims) for role, memory in (("src", RF), ("dst", SH)))
    sizes = tuple((dim, state.residual.extents[dim]) for dim in dims)
    inner = evolve(
        state,
        residual=Residual("Move", state.level, sizes, (src, dst)),
        windows={"src": window, "dst": state.windows[out.name]},
        whole={},
        progress=None,
    ).under(f"load {out.name} to {link.memory}", link.link)
    title = f"load {window.storage.name} to {state.windows[out.name].storage.name}: {inner.residual}"
    return (Region(title, recur(tree(link.move), inner, context), inner.path, link.link, "load"),)


def held_at(step: Step, state: State, context: Context) -> Window:
    """Make registers for a step's result at this place."""
    (out,) = step.outs
    axes = tuple(Axis(d.name, _extent(d, state), as_expr(0)) for d in out.dims)
    like = Window(state.windows[POINTS].storage, axes)
    storage = register_storage(f"{out.name.lower()}_rf", like, RF, out.dtype, state, context, state.link)
    owner = None if state.level.name == Thread.name else owner_of(step.dims, state, required=False)
    places = None if owner is None else _places(owner, axes)
    if owner is not None and places is not None:  # registers in the order of its inputs
        made = owner.storage.ownership
        assert made is not None
        storage.ownership, storage.size = _reordered(made, places), owner.storage.size
        read = (state.windows.get(ref.name) for ref in step.reads)
        held = [w for w in (*read, owner) if w is not None and w.storage.memory.registers]
        dead = [w for w in held if _places(w, axes) is not None and not _read_later(w, step, state)]
        storage.follows = dead[0].storage.name if dead else ""
    return Window(storage, axes)


def _read_later(owner: Window, step: Step, state: State) -> bool:
    """Say whether a later step reads a register tensor."""
    assert state.progress is not None
    names = {role for role, window in state.windows.items() if window.storage is owner.storage}
    active = state.progress.active
    mine = next((i for i, s in enumerate(active) if s.name == step.name), len(active))
    return any(ref.name in names for s in active[mine + 1 :] for ref in s.reads)


def _places(owner: Window, axes: tuple[Axis, ...]) -> list[int] | None:
    """Find axes among the axes of a register tensor that an atom or a load made at this place; None if one is missing.

    Only axes of extent 1 may stand in another order.
    """

    def facts(a: Axis) -> object:
        return a.dim, a.size, a.offset, a.steps

    mine = [facts(a) for a in owner.axes]
    ownership = owner.storage.ownership
    if len(mine) != len(axes) or ownership is None or ownership.opaque or owner.storage.slots != 1:
        return None
    if any(facts(a) not in mine for a in axes) or owner.storage.shape != tuple(a.size for a in owner.axes):
        return None
    places = [mine.index(facts(a)) for a in axes]
    big = [i for i, a in zip(places, axes, strict=True) if a.size != 1]
    return places if big == sorted(big) else None


def _reordered(made: Ownership, places: Sequence[int]) -> Ownership:
    """Reorder the axes of an ownership."""
    if places == sorted(places):
        return made

    def of(access: Access) -> Access:
        coordinates, elements = ([x[i] for i in places] for x in (access.coordinates, access.elements))
        limits = tuple(evolve(x, axis=places.index(x.axis)) for x in access.limits)
        return evolve(access, coordinates=tuple(coordinates), elements=tuple(elements), limits=limits)

    return Ownership(of(made.access), of(made.written), made.threads, made.owner, made.opaque, made.link)


def _extent(dim: Dim, state: State) -> Index:
    extent = state.residual.extents[dim.name]
    return 0 if extent is None else extent
