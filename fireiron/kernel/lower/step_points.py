"""Points of a step: the threads that compute them, the loops over points, and the reads at the current point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fireiron.algebra.branches import without_branches
from fireiron.algebra.expr import (
    Compare,
    Element,
    Expr,
    Var,
    and_,
    as_expr,
    free,
    lt,
    operands,
    proves,
    simplest,
    substitute,
    terms_of,
)
from fireiron.algebra.fused import fused
from fireiron.algebra.scalar import (
    Arg,
    Cast,
    Coordinate,
    Scalar,
    Select,
    as_type,
    coordinates,
    located,
    number,
    placed,
    prints,
    with_children,
)
from fireiron.algebra.simplify import simplify
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import Compute, For, If, View
from fireiron.kernel.lower.context import Body, Context, State, descend, memory_view, register_view
from fireiron.kernel.lower.folds.state import Open, condition_of, note_places, operands_of, together
from fireiron.kernel.lower.lane_reads import alike, from_lane, moved_read
from fireiron.kernel.lower.maps import at_point, is_mapped, outside_of
from fireiron.kernel.lower.own_points import Points, own_points
from fireiron.kernel.lower.pointwise import compute
from fireiron.kernel.lower.registers import temporary
from fireiron.kernel.lower.window import POINTS, Axis, Window, cut
from fireiron.language.folds import Dim
from fireiron.language.levels import GL, Thread
from fireiron.language.residual import named_reads, refs_by_role
from fireiron.language.steps import Program, Step

IDEMPOTENT = ("max", "min")  # folds that may count a point twice


def _dims_of_inputs(program: Program) -> set[str]:
    given = {t.name for t in program.inputs}
    return {d.name for step in program.steps for ref in step.reads if ref.name in given for d in ref.dims}


def new_dims(dims: Sequence[Dim], owner: Window, state: State) -> list[str]:
    """List the dims of a step that the register tensor which determines its threads does not have."""
    has = {a.dim for a in owner.axes}
    return [d.name for d in dims if d.name not in has and state.residual.extents[d.name] != 1]


def owner_of(dims: Sequence[Dim], state: State, required: bool = True) -> Window | None:
    """Find the register tensor whose owners compute a step: the tensor with the most of the step's dims."""
    names = {d.name for d in dims}
    held = [
        w
        for role, w in state.windows.items()
        if role != POINTS and w.storage.memory.registers and w.storage.ownership is not None
    ]
    big = {d for d in names if state.residual.extents.get(d) not in (1, None) or d not in state.residual.extents}
    fits = [w for w in held if big <= {a.dim for a in w.axes}]
    if not fits and state.progress is not None:
        # Dims that no input has: a thread computes all points along them.
        big &= _dims_of_inputs(state.progress.program)
        fits = [w for w in held if big <= {a.dim for a in w.axes}]
    if fits:
        return max(fits, key=lambda w: len({a.dim for a in w.axes} & names))
    if required and big:
        raise DecompositionError(
            "ownership-unknown",
            f"no register tensor says which thread computes the points of {', '.join(sorted(big))}",
            fix="load an operand of these dims into registers, load(x, RF, vector()), or tile to Thread",
        )
    return None


def over_points(
    step: Step, state: State, context: Context, body: Callable[[State], Body], owner: Window | None = None
) -> Body:
    """Make unrolled loops over the points of a step that each thread owns.

    Args:
        step: the step.
        state: the lowering state (the place in the tree).
        context: the kernel's facts.
        body: a function that makes the code for a point.
        owner: the register tensor whose owners compute the points; None for the tensor with the most of the step's
            dims.
    """
    state, owned = at_points(step, state, context, owner)
    inner = each_point(step, state, context, body)
    return inner if owned is None else owned.around(inner)


def at_points(step: Step, state: State, context: Context, owner: Window | None = None) -> tuple[State, Points | None]:
    """Return the state inside the thread that computes a step's points, and the loops and guards around its code."""
    progress = state.progress
    assert progress is not None
    owned: Points | None = None
    if state.level.name != Thread.name:
        owner = owner or owner_of(step.dims, state)
        if owner is not None:
            owned = own_points(owner, [d.name for d in step.dims], state, context)
            state = owned.state
    if step.fold is not None and step.name in progress.open:
        axes = {a.dim: a.offset for a in state.windows[POINTS].axes}
        places = {d.name: axes[d.name] if owned is None else owned.first(d.name, POINTS) for d in step.dims}
        if owned is not None:
            _require_apart(step, owned, axes, state)
            _require_once(step, owner, state)
        note_places(progress.open[step.name], places, state)
    return state, owned


def each_point(step: Step, state: State, context: Context, body: Callable[[State], Body]) -> Body:
    """Make unrolled loops over the points of a thread."""
    loops: list[tuple[Var, int]] = []
    extents = {a.dim: a.size for a in state.windows[POINTS].axes}
    for dim in (d.name for d in step.dims):
        size = extents[dim]
        assert isinstance(size, int)
        if size == 1:
            continue
        var = context.variable(dim.lower(), size)
        loops.append((var, size))
        state = evolve(state, loops=(*state.loops, RegisterLoop(var, as_expr(size), True, state.link)))
        state = descend(state, {dim: cut(1, size)}, {dim: var})
    inner = body(state)
    for var, size in reversed(loops):
        inner = (For(var, as_expr(size), inner, unroll=True),)
    return inner


def _require_apart(step: Step, owned: Points, axes: Mapping[str, Expr], state: State) -> None:
    """Raise an error for register loops along kept and folded dims at once: each trip would need a separate state."""
    moved = {loop.var: {d for d, at in axes.items() if loop.var in free(at)} for loop in owned.loops}
    folded = {d.name for d in step.over}
    for dims in moved.values():
        if dims & folded and dims & {d.name for d in step.kept}:
            raise DecompositionError(
                "fold-registers",
                f"a thread's registers go through {', '.join(sorted(dims))} irregularly, and {step.name} folds "
                + ", ".join(sorted(dims & folded)),
                fix="load tiles whose vectors divide evenly among the threads",
                link=state.link,
            )


def _require_once(step: Step, owner: Window | None, state: State) -> None:
    """Raise an error where a thread's registers go through a point twice, and the fold would count it twice."""
    ownership = None if owner is None else owner.storage.ownership
    if owner is None or ownership is None or step.fold is None or step.fold.plain in IDEMPOTENT:
        return
    names = {d.name for d in step.dims}
    if ownership.repeats([i for i, axis in enumerate(owner.axes) if axis.dim in names]):
        dims = ", ".join(d.name for d in step.dims)
        raise DecompositionError(
            "fold-registers",
            f"a thread's registers of {owner.storage.name} go through points of {dims} several times, and {step.name} "
            "would count them each time",
            fix=f"compute {step.name} by a kernel of its own, or load tiles that divide evenly among the threads",
            link=state.link,
        )


def views_at(step: Step, state: State, context: Context) -> tuple[Body, tuple[View, ...]]:
    """Return views of the current point's reads; an element that may lie outside a tensor is first loaded."""
    progress = state.progress
    assert progress is not None
    found: list[View] = []
    before: Body = ()
    written = {out.name: out for s in progress.program.steps for out in s.outs}
    for role, ref in zip(named_reads(progress.program, step), step.reads, strict=True):
        out = written.get(ref.name)
        if out is not None and moved_read(ref, out):
            passed, view = from_lane(ref, out, _coordinates(state), state, context, f"step {step.name}")
            before += passed
            found.append(view)
            continue
        beside = _beside(role, state, context)
        if beside is not None:
            found.append(beside)
            continue
        window, present = at_point(state.windows[role], _coordinates(state))
        storage = window.storage
        if storage.memory.registers:
            view = register_view(context, window, state, f"step {step.name}")
        else:
            view = memory_view(window)
        if not proves(present):
            there = exists(step, state)
            held = View(temporary("at", storage.dtype, 1, context), as_expr(0))
            value = outside_of(state.windows[role])
            nothing = number(value, storage.dtype)
            present = present if there is None else and_(present, there)
            before += (
                Compute(held, nothing, link=state.link),
                Compute(held, Arg(0, storage.dtype), (view,), present, state.link),
            )
            view = held
        found.append(view)
    return before, tuple(found)


def gathers(e: Expr) -> bool:
    """Say whether an index reads an array of indices."""
    return isinstance(e, Element) or any(map(gathers, operands(e)))


def _beside(role: str, state: State, context: Context) -> View | None:
    """Find a read's element in registers that hold another read of the tensor. Example: `x[d]` and `x[d ^ 1]`.

    Returns:
        The view; None where the thread does not hold the element at every point of every tile, or where the element may
        lie outside the tensor.
    """
    assert state.progress is not None
    mapped = state.windows[role]
    if mapped.storage.memory.registers or not is_mapped(mapped):
        return None
    refs = refs_by_role(state.progress.program)
    places, index = _coordinates(state), refs[role].index
    if any(gathers(e) for e in index):  # the thread that holds it is known only at run time
        return None
    for other, ref in refs.items():
        held = state.windows.get(other)
        if ref.name != refs[role].name or held is None or not held.storage.memory.registers:
            continue
        if is_mapped(held) or held.storage.ownership is None or any(a.bounds for a in held.axes):
            continue
        own, wanted = ([substitute(as_expr(e), places) for e in at] for at in (ref.index, index))
        here, there = ([context.expanded(e) for e in at] for at in (own, wanted))
        if not alike(here, there, {loop.var for loop in state.loops}):
            continue
        moved = [read - mine for mine, read in zip(own, wanted, strict=True)]
        axes = tuple(Axis(a.dim, 1, a.at(as_expr(0)) + simplest(m)) for a, m in zip(held.axes, moved, strict=True))
        try:
            return register_view(context, evolve(held, axes=axes), state, role)
        except DecompositionError:
            continue  # another thread holds it: it is read from memory
    return None


def in_registers(views: Sequence[View]) -> bool:
    """Say whether all reads lie in registers."""
    return all(view.buffer.memory.registers for view in views)


def folded_dims(state: State) -> frozenset[str] | None:
    """Return the dims whose missing points an online loop must mask (those that its steps fold); None for all.

    Values at missing points of other dims are never used: they are neither stored nor combined with others.
    """
    progress = state.progress
    if progress is None or progress.law is None:
        return None
    return frozenset(d.name for s in progress.active for d in s.over)


def exists(step: Step, state: State, dims: frozenset[str] | None = None) -> Expr | None:
    """Return the condition that the point exists: tiles may reach beyond the ends of dims.

    Args:
        step: the step.
        state: the lowering state at the point.
        dims: the dims to check; None for all.
    """
    mine = {d.name for d in step.dims if dims is None or d.name in dims}
    conditions = [_coarse(b.condition()) for a in state.windows[POINTS].axes if a.dim in mine for b in a.bounds]
    condition = and_(*conditions) if conditions else as_expr(1)
    return None if proves(condition) else condition


def _lacks_reads(step: Step, state: State) -> bool:
    """Say whether a read from memory may lie beyond the end of a dim."""
    progress = state.progress
    assert progress is not None
    for role in named_reads(progress.program, step):
        window, _ = at_point(state.windows[role], _coordinates(state))  # reads through maps have guards of their own
        memory = window.storage.memory
        bounds = [b.condition() for axis in window.axes for b in axis.bounds]
        if not memory.registers and (memory != GL or not all(map(proves, bounds))):
            return True
    return False


def _coarse(condition: Expr) -> Expr:
    """Simplify conditions that hold for all elements of a vector alike: 8 a + b < 8 c with b < 8 becomes 8 a < 8 c."""
    if not isinstance(condition, Compare) or condition.op != "<":
        return condition
    difference = condition.left - condition.right
    for width in (16, 8, 4, 2):
        small = as_expr(0)
        for term, weight in terms_of(difference)[0]:
            if (term * weight).divisor % width:
                small = small + term * weight
        low, high = small.range
        rest = difference - small
        if low == 0 and high is not None and 0 < high < width and rest.divisor % width == 0:
            return lt(rest, 0)
    return condition


def _coordinates(state: State) -> dict[Expr, Expr]:
    """Return the coordinates of the current point, by dim."""
    progress = state.progress
    assert progress is not None
    axes = {a.dim: a for a in state.windows[POINTS].axes}
    return {dim: axes[dim.name].at(as_expr(0)) for dim in progress.program.dims}


def at_place(tree: Scalar, state: State) -> Scalar:
    """Replace the dims in an expression's indices by the current point's coordinates."""
    if prints(tree):
        tree = located(tree, tuple(_coordinates(state)))
    return simplify(placed(tree, _coordinates(state))) if coordinates(tree) else tree


def accumulate(step: Step, opened: Open, state: State, context: Context) -> Body:
    """Fold one point into the state."""
    held = tuple(register_view(context, state.windows[name], state, f"step {step.name}") for name in opened.roles)
    trees = [fused(without_branches(at_place(tree, state))) for tree in operands_of(step, len(held))]
    before, read = views_at(step, state, context)
    views = (*held, *read)
    plain = in_registers(views) and not any(map(prints, trees))  # a point that does not exist is not printed
    mask = exists(step, state, _masked_dims(step, state) if plain else None)
    if mask is not None and len(held) == 1 and plain and _differs_by_point(mask, state):
        # All threads compute the point, and keep the state where the point does not exist: without branches, points
        # are computed side by side. The new state has a name of its own, since NVRTC makes a branch of a choice between
        # expressions. A state of several scalars has choices of its own, and takes a branch.
        kind = held[0].buffer.dtype
        after = View(temporary("next", kind, 1, context), as_expr(0))
        before += together((after,), trees, views, None, context, state.link)
        trees, views, mask = [Select(Coordinate(mask), Arg(1, kind), Arg(0, kind))], (*held, after), None
    present = condition_of(step)
    if present is not None:
        present = substitute(present, _coordinates(state))
        mask = present if mask is None else and_(mask, present)
        mask = None if proves(mask) else mask
    return (*before, *together(held, trees, views, mask, context, state.link))


def guarded_once(body: Body) -> Body:
    """Check a condition that is the same for all points of a thread once, around the loops over points.

    Loops over several results and several points read elements several times; inside separate conditions each read
    would be converted again.
    """
    loops: list[For] = []
    inner = body
    while len(inner) == 1 and isinstance(loop := inner[0], For) and loop.unroll:
        loops.append(loop)
        inner = loop.body
    masks = {s.write if isinstance(s, Compute) else None for s in inner}
    mask = masks.pop()
    if len(loops) < 2 or masks or mask is None or not free(mask).isdisjoint(x.var for x in loops):
        return body
    out: Body = tuple(evolve(s, write=None) for s in inner if isinstance(s, Compute))
    for loop in reversed(loops):
        out = (evolve(loop, body=out),)
    return (If(mask, out),)


def _masked_dims(step: Step, state: State) -> frozenset[str]:
    """Return the dims whose missing points a fold of registers must mask: those that it folds.

    Results at missing points of a kept dim are never used, and only a block's last tile has them: a choice at each
    point costs all tiles a branch.
    """
    found = folded_dims(state)
    return frozenset(d.name for d in step.over) if found is None else found


def _differs_by_point(condition: Expr, state: State) -> bool:
    """Say whether a condition may hold for some of a thread's points, and not for others.

    In online loops, where only the last chunk has missing points, the condition counts as the same for all points.
    """
    assert state.progress is not None
    return state.progress.law is None and not free(condition).isdisjoint(x.var for x in state.loops if x.unrolled)


def assign(step: Step, role: str, state: State, context: Context, masked: bool = False, filled: bool = False) -> Body:
    """Compute one point of a pointwise step.

    Args:
        step: the step.
        role: the role of the result's window.
        state: the lowering state at the point.
        context: the kernel's facts.
        masked: whether missing points are skipped.
        filled: whether missing points are set to 0, since an atom reads them.
    """
    window = state.windows[role]
    before, views = views_at(step, state, context)
    dst = (
        register_view(context, window, state, f"step {step.name}")
        if window.storage.memory.registers
        else memory_view(window)
    )
    tree = step.body
    kind = window.storage.dtype
    tree = fused(without_branches(at_place(as_type(tree, kind), state)))
    lacks = _lacks_reads(step, state)
    filled = filled or (lacks and not masked and window.storage.memory.registers)  # later steps may read all points
    mask = exists(step, state) if masked or filled or lacks else None
    zero: Body = ()
    if filled and mask is not None and in_registers(views):  # no other element is read
        mask = exists(step, state, folded_dims(state))
        tree, mask = tree if mask is None else _or_zero(tree, mask), None
    elif filled and mask is not None:
        zero = (Compute(dst, number(0, kind), link=state.link),)
    return (*before, *zero, *compute(dst, tree, views, mask, context, state.link))


def _or_zero(tree: Scalar, mask: Expr) -> Scalar:
    """Select 0 for missing points before the last conversion, so that one instruction can convert two neighbours."""
    if isinstance(tree, Cast):
        return with_children(tree, (_or_zero(tree.x, mask),))
    return Select(Coordinate(mask), tree, number(0, tree.dtype))
