"""Programs: steps are lowered one after another over the points that threads own; folds close what loops leave open.

A program has no operands with parts of their own: every tensor has a window, and so have the points themselves
(`POINTS`), whose axes are the dims. Tiles and splits descend all of them alike. Where a chain ends, each step is
computed by the threads that hold what it reads; what is folded over several threads becomes one value by the carriers
of `folds`.

A loop over chunks of a folded dim is lowered once for each phase: a step that needs a finished fold of that dim opens
another loop, and expressions that were not kept are computed again there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import attrs

from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import (
    Compare,
    Expr,
    Index,
    Var,
    affine,
    and_,
    as_expr,
    ceil_div,
    eq,
    free,
    lt,
    maximum,
    minimum,
    proves,
    simplest,
    substitute,
    terms_of,
)
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, Select, coordinates, placed, substituted
from fireiron.algebra.simplify import simplify
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import RegisterLoop
from fireiron.kernel.ir.statements import Compute, For, If, Region, View
from fireiron.kernel.lower.context import (
    Body,
    Context,
    Recur,
    State,
    descend,
    memory_view,
    register_view,
    units_of,
)
from fireiron.kernel.lower.flow import leading_loads
from fireiron.kernel.lower.folds import (
    Open,
    begin,
    close,
    condition_of,
    finish,
    note_places,
    open_fold,
    operands_of,
    together,
)
from fireiron.kernel.lower.grid_folds import Shared, over_grid
from fireiron.kernel.lower.maps import at_point, is_mapped, outside_of
from fireiron.kernel.lower.move import Copy, lower_copy, open_load
from fireiron.kernel.lower.own_points import Points, own_points
from fireiron.kernel.lower.pipeline import pipelined_loads, staged
from fireiron.kernel.lower.pointwise import compute, temporary
from fireiron.kernel.lower.roles import lower_specialised
from fireiron.kernel.lower.step_products import Product, lower_product
from fireiron.kernel.lower.storage import register_storage, tensor_window
from fireiron.kernel.lower.window import POINTS, Axis, Cut, IndexMap, Storage, Window, cut, cut_chunk
from fireiron.kernel.lower.window import substituted as substituted_window
from fireiron.language.decompositions import (
    ByCluster,
    Decomposition,
    Done,
    EachStep,
    Load,
    Own,
    Results,
    Split,
    Tile,
    Widest,
)
from fireiron.language.levels import GL, RF, SH, Block, Thread
from fireiron.language.online import Law, online
from fireiron.language.reach import common_conditions
from fireiron.language.residual import Operand, Residual, apply, move_of, named_reads, refs_by_role
from fireiron.language.steps import Dim, Program, Ref, Step, identity_of


@attrs.frozen
class Progress:
    """Say which steps of a program are lowered below a place, and what is open around it.

    Args:
        program: the whole program.
        active: the steps to lower below, in order.
        open: folds whose state loops around this place carry, by step.
        results: how outputs are stored.
        places: by register tensor, where the first point lies that a thread folded into it along each dim: once the
            loop around the points is left, nothing else tells which threads hold the same value.
        each: the chains of steps that have their own.
        placed: results that lie in shared memory, with the loads that say so.
        law: how the folds of the loop around this place follow each other, where it is one for all of them.
        spread: the dim of which blocks of the grid have parts each, and the folds over it, whose results only the last
            block to arrive has.
    """

    program: Program
    active: tuple[Step, ...]
    open: dict[str, Open]
    results: Results | None = None
    places: dict[str, Mapping[str, Expr]] = attrs.field(factory=dict[str, Mapping[str, Expr]])
    each: EachStep | None = None
    placed: dict[str, Load] = attrs.field(factory=dict[str, Load])
    law: Law | None = None
    spread: tuple[str, list[Shared]] | None = None

    def shares(self, step: Step) -> bool:
        """Say whether several blocks of the grid fold parts of a step."""
        return self.spread is not None and _folds(step, self.spread[0])

    def reads(self, role: str) -> bool:
        """Say whether a step below reads a tensor in the way that a role names."""
        return any(role in named_reads(self.program, step) for step in self.active)


def start_program(program: Program, state: State, context: Context) -> State:
    """Give every tensor of a program its window, and the points theirs."""
    windows: dict[str, Window] = {}
    for tensor in (*program.inputs, *program.outputs):
        tensor_window(tensor, state, context)  # parameters come in the caller's order
    maps, refs = dict(state.residual.maps), refs_by_role(program)
    for operand in state.residual.operands:
        storage = tensor_window(operand.tensor, state, context).storage
        outside = refs[operand.role].outside
        axes = tuple(
            Axis(dim, n, as_expr(0), map=IndexMap(maps[dim], as_expr(0), n, outside=outside) if dim in maps else None)
            for dim, n in zip(operand.dims, operand.tensor.shape, strict=True)
        )
        written = any(operand.tensor == t for t in program.outputs)
        windows[_stored(operand.role) if written else operand.role] = Window(storage, axes)
    extents = tuple(extent for _, extent in state.residual.sizes)
    points = Storage(
        POINTS, GL, f32, tuple(0 if e is None else e for e in extents), (0,) * len(extents), as_expr(1), state.level
    )
    windows[POINTS] = Window(points, tuple(Axis(d, 0 if e is None else e, as_expr(0)) for d, e in state.residual.sizes))
    return evolve(state, windows=windows, progress=Progress(program, program.steps, {}))


def _stored(name: str) -> str:
    """Name the window of an output in memory; the output's own name is its value in registers, where steps read it."""
    return f"store {name}"


def lower_results(link: Results, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur) -> Body:
    """Remember how outputs are stored."""
    assert state.progress is not None
    return recur(rest, evolve(state, progress=evolve(state.progress, results=link)), context)


def lower_program_split(
    link: Split, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur
) -> Body:
    """Lower the loops over chunks of one dim, a loop for each phase, with what comes between them."""
    progress = state.progress
    assert progress is not None
    phase = phases(progress.active, link.dim)
    if link.online:
        progress = _as_one_loop(progress, link.dim)
        state = evolve(state, progress=progress)
        phase = _of_one_loop(progress.active, link.dim)
    body: Body = ()
    for number in range(max(phase.values(), default=0) + 1):
        alone = tuple(s for s in progress.active if not _has(s, link.dim) and phase[s.name] == number)
        alone = () if context.role == "load" else alone
        made, state = _lower_active(evolve(state, progress=evolve(progress, active=alone)), context, recur, keep=True)
        state = evolve(state, progress=progress)
        body += made
        looped = _of_phase(progress, phase, number, link.dim)
        if looped:
            inner = evolve(state, progress=evolve(progress, active=looped))
            made, state = _lower_loop(link, rest, inner, context, recur)
            state = evolve(state, progress=progress)
            body += made
    return body


def phases(active: Sequence[Step], dim: str) -> dict[str, int]:
    """Number the steps by how many finished folds over a dim stand one behind another before them."""
    found: dict[str, int] = {}
    makers = {out.name: step for step in active for out in step.outs}
    for step in active:
        before = [makers[ref.name] for ref in step.reads if ref.name in makers]
        found[step.name] = max((found[s.name] + _folds(s, dim) for s in before), default=0)
    return found


def _as_one_loop(progress: Progress, dim: str) -> Progress:
    """Let all folds over a dim run in one loop, what leaves their sums behind it."""
    program, law = online(progress.program, dim)
    before = {s.name for s in progress.program.steps}
    names = {s.name for s in progress.active}
    made = {out.name for s in program.steps if s.name in names for out in s.outs}
    active = tuple(
        s for s in program.steps if s.name in names or (s.name not in before and s.reads[0].name in made)
    )  # fmt: skip
    return evolve(progress, program=program, active=active, law=law)


def _of_one_loop(active: Sequence[Step], dim: str) -> dict[str, int]:
    """Number the steps of a loop in which folds follow each other: 0 for what these need, 1 for all behind."""
    makers = {out.name: step for step in active for out in step.outs}
    strict = phases(active, dim)
    needed: set[str] = set()

    def need(step: Step) -> None:
        if step.name in needed:
            return
        needed.add(step.name)
        for ref in step.reads:
            if ref.name in makers:
                need(makers[ref.name])

    for step in active:
        if _folds(step, dim):
            need(step)
    return {
        s.name: 0 if s.name in needed and (_has(s, dim) or not strict[s.name]) else min(1, strict[s.name])
        for s in active
    }  # fmt: skip


def _has(step: Step, dim: str) -> bool:
    return any(d.name == dim for d in step.dims)


def _folds(step: Step, dim: str) -> bool:
    return any(d.name == dim for d in step.over)


def _of_phase(progress: Progress, phase: dict[str, int], number: int, dim: str) -> tuple[Step, ...]:
    """List the steps of one loop: folds and outputs of this phase, and the expressions that they are made of."""
    outputs = {t.name for t in progress.program.outputs}
    makers = {out.name: step for step in progress.active for out in step.outs}
    wanted: dict[str, Step] = {}

    def need(step: Step) -> None:
        # What has not the dim stands before the loop, unless it needs the value of a fold that moves in it.
        moves = progress.law is not None and number == 0 and phase[step.name] > 0
        if step.name in wanted or not (_has(step, dim) or moves) or _folds(step, dim):
            return
        wanted[step.name] = step
        for ref in step.reads:
            if ref.name in makers:
                need(makers[ref.name])

    for step in progress.active:
        if phase[step.name] != number or not _has(step, dim):
            continue
        if _folds(step, dim):
            wanted[step.name] = step
            for ref in step.reads:
                if ref.name in makers:
                    need(makers[ref.name])
        elif any(out.name in outputs for out in step.outs):
            need(step)
    return tuple(s for s in progress.active if s.name in wanted)


def _lower_loop(
    link: Split, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur
) -> tuple[Body, State]:
    """Lower one loop over chunks: folds over its dim are begun before it and closed behind it."""
    progress = state.progress
    assert progress is not None
    extent = state.residual.extents[link.dim]
    assert extent is not None
    part = cut_chunk(link.size, extent, link.ways)
    skipped, trips = _reached(link.dim, part, state, context)
    if context.role == "load" and link.specialised is not None:
        return lower_specialised(link, rest, state, context, recur, (skipped, trips)), state
    var = context.variable(link.dim.lower(), as_expr(part.trips))
    mine = [s for s in progress.active if _folds(s, link.dim) and s.name not in progress.open]
    opened = {s.name: open_fold(s, state, context, link.link) for s in mine}
    around = evolve(state, windows={**state.windows, **{k: w for o in opened.values() for k, w in o.windows.items()}})
    moving = {
        out.name: opened[s.name].windows[opened[s.name].roles[0]]
        for s in mine if progress.law is not None and s.name in progress.law.factors for out in s.outs
    }  # fmt: skip
    inside = evolve(
        evolve(around, windows={**around.windows, **moving}).under(link.words, link.link),
        loops=(*state.loops, RegisterLoop(var, trips, link.unrolled, link.link)),
        progress=evolve(progress, open={**progress.open, **opened}),
    )
    before: Body = ()
    ringed: Body = ()
    looped: Body = ()
    if link.specialised is not None:
        context.names.discard(var.name)
        ringed = lower_specialised(link, rest, evolve(inside, loops=state.loops), context, recur, (skipped, trips))
    elif link.stages == 1:
        looped = recur(rest, descend(inside, {link.dim: part}, {link.dim: skipped + var}), context)
    else:
        before, looped = _run_ahead(link, rest, part, var, (skipped, trips), around, inside, context, recur)
    for one in opened.values():  # places count from the first chunk that is visited
        if link.dim in one.places:
            one.places[link.dim] = one.places[link.dim] - skipped * part.size
    first: Body = tuple(x for o in opened.values() for x in begin(o, context))
    last: Body = ()
    for step in mine:
        made, around = _closed(opened[step.name], around, context, recur)
        last += made
    loop = ringed or (For(var, trips, looped, link.unrolled, link.together, kind="chunks"),)
    return (*before, *first, *loop, *last), around


def _reached(dim: str, part: Cut, state: State, context: Context) -> tuple[Expr, Expr]:
    """Give the first chunk that the folds of a loop need, and how many: others hold no point that their masks leave.

    All threads of a block take the same trips, and all blocks of a cluster: they meet in them.
    """
    progress = state.progress
    assert progress is not None
    begin, trips = as_expr(0), as_expr(part.trips)
    steps = [s for s in progress.active if _has(s, dim)]
    makers = {out.name: s for s in progress.active for out in s.outs}
    outputs = {t.name for t in progress.program.outputs}
    written = any(out.name in outputs for s in steps if not _folds(s, dim) for out in s.outs)
    if state.level != Block or context.joined > 1 or written:
        return begin, trips
    axes = {a.dim: a for a in state.windows[POINTS].axes}
    size = as_expr(part.size)
    for condition in common_conditions([s for s in steps if _folds(s, dim)], makers):
        dims = {v.name: v for v in free(condition) if isinstance(v, Var) and v.name in axes}
        split = affine(condition.right - condition.left, tuple(dims.values()))
        if split is None or dim not in dims:
            continue
        slopes, most = split
        slope = slopes.pop(dims[dim])
        for v, along in slopes.items():  # the most that the difference is at any point of the tile
            axis = axes[v.name]
            far = axis.offset if isinstance(along, int) and along < 0 else axis.offset + (as_expr(axis.size) - 1)
            most = most + far * along
        known = isinstance(slope, int) and all(
            isinstance(c, int) and (c <= 0 or isinstance(axes[v.name].size, int)) for v, c in slopes.items()
        )
        if not known or not isinstance(slope, int) or slope == 0 or any(axes[v].steps is not None for v in dims):
            continue
        if slope < 0:
            last = most if slope == -1 else (most - 1) // -slope + 1
            trips = minimum(trips, ceil_div(maximum(last - axes[dim].offset, 0), size))
        else:
            first = 1 - most if slope == 1 else (slope - most) // slope
            begin = maximum(begin, maximum(first - axes[dim].offset, 0) // size)
    return begin, trips if begin == as_expr(0) else maximum(trips - begin, 0)


def _run_ahead(
    link: Split,
    rest: Sequence[Decomposition],
    part: Cut,
    var: Var,
    reach: tuple[Expr, Expr],
    around: State,
    inside: State,
    context: Context,
    recur: Recur,
) -> tuple[Body, Body]:
    """Lower a trip whose loads run ahead by ring slots; gives what stands before the loop, and the trip."""
    assert inside.progress is not None
    loads = leading_loads(rest)
    pipelined_loads(link, loads)
    outside = around.under(link.words, link.link)

    def at(chunk: Expr, state: State) -> State:
        return descend(state, {link.dim: part}, {link.dim: reach[0] + chunk})

    read = [load for load in loads if inside.progress.reads(load.role)]
    inner = at(var, inside)
    for load in loads:
        moved = evolve(inner, residual=apply(load, inner.residual))
        inner = open_load(load, inner, context, link.stages, var) if load in read else moved
    body = recur(rest[len(loads) :], inner, context)

    def copies(chunk: Expr, ahead: bool) -> list[Copy]:
        place = at(chunk, inside if ahead else outside)
        return [lower_copy(x, place, inner.windows[x.role].storage, chunk, context, recur) for x in read]

    first, start, finish = staged(link, copies, var, reach[1])
    return first, (*start, *body, *finish)


def lower_program_parallel(
    link: Split, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur
) -> Body:
    """Give each unit its chunk of a dim; folds over it then find parts of their sums in several units."""
    level, extent = link.level, state.residual.extents[link.dim]
    assert level is not None and extent is not None
    part = cut_chunk(link.size, extent, link.ways)
    if level == Block and isinstance(link.reduce, ByCluster):
        below = descend(state.under(link.words, link.link), {link.dim: part}, {link.dim: context.way}, level)
        return recur(rest, below, context)
    if level == Block:
        return _over_blocks(link, part, rest, state, context, recur)
    ways = simplest(as_expr(part.trips))
    if not isinstance(ways, int):
        raise DecompositionError(
            "symbolic-tiles",
            f"{ways} chunks of {link.dim} cannot be given to {level}: their number is not known",
            fix=f'give the number of chunks: split("{link.dim}", ways=n)',
        )
    units = units_of(level, state, context, ways, None)
    if units.count != ways:
        raise DecompositionError(
            "parallel-units",
            f"{ways} chunks of {link.dim} go to {units.count} units of {level}",
            fix=f'split("{link.dim}", ways={units.count}).parallel({level})',
        )
    way = context.define(level.name.lower(), units.index, ways)
    inside = descend(state.under(link.words, link.link), {link.dim: part}, {link.dim: way}, level)
    inside = evolve(inside, position=units.position, width=units.width)
    return (Region(str(inside.residual), recur(rest, inside, context), inside.path, link.link),)


def _over_blocks(
    link: Split, part: Cut, rest: Sequence[Decomposition], state: State, context: Context, recur: Recur
) -> Body:
    """Give blocks of the grid their chunks of a dim; the last to arrive runs the steps that need a fold over it.

    Raises:
        DecompositionError: `grid-fold-read` where such a step has the dim itself: other blocks would have to wait.
    """
    progress = state.progress
    assert progress is not None
    behind: list[Step] = []
    for step in progress.active:
        reads = {ref.name for ref in step.reads}
        makers = [s for s in progress.active if any(out.name in reads for out in s.outs)]
        late = [s for s in makers if s in behind or _folds(s, link.dim)]
        if late and _has(step, link.dim):
            raise DecompositionError(
                "grid-fold-read",
                f"step {step.name} has {link.dim} and reads {late[0].name}, which only the last block to arrive knows",
                fix=f"let one block or a cluster have {link.dim}, or compute {step.name} by a kernel of its own",
                link=link.link,
            )
        if late:
            behind.append(step)
    shared: list[Shared] = []
    ahead = evolve(progress, active=tuple(s for s in progress.active if s not in behind), spread=(link.dim, shared))
    below = evolve(state.under(link.words, link.link), progress=ahead)
    body = recur(rest, descend(below, {link.dim: part}, {link.dim: context.way}, link.level), context)
    if not shared:
        return body
    # Whoever is last stands for the first block: it stores what one thread of all blocks stores.
    first: dict[Var, Expr] = {context.way: as_expr(0)} if isinstance(context.way, Var) else {}
    after = shared[0].state
    windows = {role: substituted_window(window, first) for role, window in after.windows.items()}
    after = evolve(after, windows=windows, progress=evolve(progress, active=tuple(behind)))
    stored: Body = ()

    def finished() -> Body:
        nonlocal after, stored
        for one in shared:
            one.opened.places = {dim: substitute(place, first) for dim, place in one.opened.places.items()}
            made, after = _with_results((), one.opened, after, context, recur)
            stored += made
        return (*stored, *_lower_active(after, context, recur)[0])

    return (*body, *over_grid(link, shared, context, state.loops, finished))


def lower_steps(state: State, context: Context, recur: Recur, each: EachStep | None = None) -> Body:
    """Lower the steps that are left at the end of a chain: by chains of their own, or over the points of threads."""
    assert state.progress is not None
    if context.role == "load":
        return ()
    return _lower_active(evolve(state, progress=evolve(state.progress, each=each)), context, recur)[0]


def _lower_active(state: State, context: Context, recur: Recur, keep: bool = False) -> tuple[Body, State]:
    """Lower steps one after another; gives the state in which their results can be read.

    Args:
        state: with the steps to lower.
        context: the kernel's.
        recur: lowers the chains of Moves and of steps.
        keep: whether later loops may read what no step here reads.
    """
    progress = state.progress
    assert progress is not None
    if not progress.active:
        return (), state
    _read_where_written(progress, state.link)
    outputs = {t.name for t in progress.program.outputs}
    pending: dict[str, Step] = {}  # expressions that are computed where they are read
    steps: list[Step] = []
    for step in progress.active:
        readers = [s for s in progress.active if any(r.name == step.outs[0].name for r in s.reads)]
        later = keep and any(
            r.name == step.outs[0].name for s in progress.program.steps if s not in progress.active for r in s.reads
        )
        alike = all(set(reader.dims) <= set(step.dims) for reader in readers)  # else computed once for many points
        apart = step.outs[0].name in outputs or step.outs[0].name in progress.placed
        if step.fold is None and not apart and len(readers) <= 1 and alike and not later:
            pending[step.outs[0].name] = step
            continue
        steps.append(_inlined(step, pending))
    state, products = _lower_products(steps, state, context, recur)
    plain = [x for s in steps for x in (products[s.name].sides if s.name in products else (s,))]
    state, loads = _auto_loads(plain, state, context)
    body: Body = ()
    ahead: dict[Load, int] = {}  # how much of the body stands before each load: it stands right before its first reader
    for step in steps:
        product = products.get(step.name)
        for part in (step,) if product is None else product.sides:
            read = named_reads(progress.program, part)
            ahead.update({link: len(body) for link in loads if link not in ahead and link.role in read})
            made, state = _lower_step(part, state, context, recur)
            body += made
        if product is not None:
            made, state = _finish_product(step, product, state, context, recur)
            body += made
    for link, place in reversed(ahead.items()):  # places rise: what stands before one stays where it is
        before, storage = loads[link]
        copied = lower_copy(link, before, storage, None, context, recur)
        body = (*body[:place], *copied.start, *copied.finish, *body[place:])
    return body, state


def _lower_products(
    steps: Sequence[Step], state: State, context: Context, recur: Recur
) -> tuple[State, dict[str, Product]]:
    """Lower the steps that have chains of their own: their atoms say who holds what the other steps read."""
    progress = state.progress
    assert progress is not None
    made: dict[str, Product] = {}
    for step in steps:
        links = None if progress.each is None else progress.each.of(step.name)
        if links is None:
            continue
        opened = progress.open.get(step.name)
        kept = opened is not None
        opened = opened or open_fold(step, state, context, state.link)
        if not kept:
            state = evolve(state, windows={**state.windows, **opened.windows})
            state = evolve(state, windows={**state.windows, step.outs[0].name: opened.windows[opened.roles[0]]})
        state, product = lower_product(step, opened, kept, links, steps, state, context, recur)
        places = {a.dim: a.offset for a in state.windows[POINTS].axes}
        if state.level.name == Thread.name:
            note_places(opened, {d.name: places[d.name] for d in step.dims}, state)
        else:
            window = state.windows[opened.roles[0]]
            owned = own_points(window, [d.name for d in step.kept], state, context)
            mine = {d.name: owned.first(d.name, POINTS) for d in step.kept}
            note_places(opened, {d.name: mine.get(d.name, places[d.name]) for d in step.dims}, owned.state)
        made[step.name] = product
    return state, made


def _finish_product(step: Step, product: Product, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Put what an atom computes behind what its sum is corrected by, and make one value of what units have summed."""
    opened, title = product.opened, f"{step.name}: {step.fold.name if step.fold else ''} by atoms"
    if product.kept:
        body = (*_corrected(step, opened, state, context), *product.body)
        return (Region(title, body, state.path, state.link),), state
    made, after = _closed(opened, state, context, recur)
    return (Region(title, (*product.begin, *product.body), state.path, state.link), *made), after


def _auto_loads(
    steps: Sequence[Step], state: State, context: Context
) -> tuple[State, dict[Load, tuple[State, Storage]]]:
    """Bring what threads read of global memory into registers by vectors, each thread its own elements."""
    progress = state.progress
    assert progress is not None
    loads: dict[Load, tuple[State, Storage]] = {}
    if state.level.name == Thread.name:
        return state, loads
    makers = {out.name for step in progress.program.steps for out in step.outs}
    for role in dict.fromkeys(role for s in steps for role in named_reads(progress.program, s)):
        window = state.windows.get(role)
        if window is None or window.storage.memory.registers or window.storage.name in makers or is_mapped(window):
            continue
        move = (Own(Thread), Tile(Widest(), unrolled=True), Done(None))
        link = Load(role, RF, move, link=state.link)
        before = state
        state = open_load(link, state, context)
        loads[link] = (before, state.windows[role].storage)
    return state, loads


def _read_where_written(progress: Progress, link: Link | None) -> None:
    """Refuse reads of a step's result at other dims than it is written at: a thread holds its own points alone.

    Raises:
        DecompositionError: `affine-read`.
    """
    written = {out.name: (out, step) for step in progress.program.steps for out in step.outs}
    for step in progress.active:
        for ref in step.reads:
            out, maker = written.get(ref.name, (ref, step))
            if ref.index != out.index:
                raise DecompositionError(
                    "affine-read",
                    f"step {step.name} reads {ref}, and step {maker.name} computes {out}",
                    fix=f"let step {step.name} read it at these dims, or compute {ref.name} by a kernel of its own",
                    link=link,
                )


def _inlined(step: Step, pending: dict[str, Step]) -> Step:
    """Put expressions in place of the reads of their results."""
    while any(ref.name in pending for ref in step.reads):
        reads: list[Ref] = []

        def number(ref: Ref, reads: list[Ref] = reads) -> int:
            if ref not in reads:
                reads.append(ref)
            return reads.index(ref)

        trees: list[Scalar] = []
        for ref in step.reads:
            maker = pending.get(ref.name)
            if maker is None:
                trees.append(Arg(number(ref), ref.dtype))
                continue
            numbers = {i: number(x) for i, x in enumerate(maker.reads)}
            trees.append(substituted(maker.body, [Arg(numbers[i], x.dtype) for i, x in enumerate(maker.reads)]))
        where = None if step.where is None else substituted(step.where, trees)
        step = attrs.evolve(step, body=substituted(step.body, trees), reads=tuple(reads), where=where)
    return step


def _lower_step(step: Step, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Lower one step; gives the state in which its results can be read."""
    progress = state.progress
    assert progress is not None
    link = state.link
    carried = progress.open.get(step.name)
    if carried is not None and progress.law is not None and step.name in progress.law.factors:
        return _lower_lead(step, carried, state, context, recur)
    if step.fold is not None:
        opened = carried or open_fold(step, state, context, link)
        known = evolve(progress, open={**progress.open, step.name: opened})
        windows = state.windows if carried is not None else {**state.windows, **opened.windows}
        inside = evolve(state, windows=windows, progress=known)
        main = over_points(step, inside, context, lambda at: _accumulate(step, opened, at, context))
        title = f"{step.name}: {step.fold.name} over {', '.join(d.name for d in step.over)}"
        if carried is not None:
            body = (*_corrected(step, carried, state, context), *main)
            return (Region(title, body, state.path, link),), state
        body = (*begin(opened, context), *main)
        made, after = _closed(opened, inside, context, recur)
        return (Region(title, body, state.path, link), *made), after
    (out,) = step.outs
    outputs = {t.name for t in progress.program.outputs}
    if state.level.name == Thread.name and out.name in outputs:
        main = over_points(step, state, context, lambda at: _assign(step, _stored(out.name), at, context, masked=True))
        mine = _stores_here(step, out, {}, state, context)
        main = main if proves(mine) else (If(mine, main),)
        return (Region(f"{step.name}", main, state.path, link),), state
    dtype = out.dtype
    placed = progress.placed.get(out.name)
    wanted = None if placed is not None else state.windows.get(out.name)  # as an atom takes it
    window = _held(step, state, context) if wanted is None else wanted
    owner = _owner(step.dims, state, required=False)
    if owner is not None and owner.storage.name in progress.places:
        progress.places[window.storage.name] = progress.places[owner.storage.name]
    role = f"{out.name} in registers"
    inside = evolve(state, windows={**state.windows, role: window})
    filled = wanted is not None or placed is not None
    main = over_points(step, inside, context, lambda at: _assign(step, role, at, context, filled=filled), wanted)
    body: Body = (Region(f"{step.name}: {dtype} in {window.storage.name}", main, state.path, link),)
    if placed is not None:
        body += _brought(out, window, placed, state, context, recur)
    after = evolve(state, windows={**state.windows, out.name: window})
    stored = _store(step, out, window, {}, state, context, recur) if out.name in outputs else ()
    return (*body, *stored), after


def _brought(out: Ref, window: Window, link: Load, state: State, context: Context, recur: Recur) -> Body:
    """Bring a result from the registers of its threads to the shared memory where atoms read it."""
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
    return (Region(title, recur(link.move, inner, context), inner.path, link.link, "load"),)


def _closed(opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Make a fold's results of the parts that threads hold, and store those that are outputs; gives the state behind.

    What blocks of the grid fold has its results later.
    """
    progress = state.progress
    assert progress is not None
    body = close(opened, state, context)
    if progress.spread is not None and progress.shares(opened.step):
        progress.spread[1].append(Shared(opened, state))
        return body, state
    return _with_results((*body, *finish(opened, state, context)), opened, state, context, recur)


def _with_results(body: Body, opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Let the steps behind read a fold's results, and store those that are outputs."""
    progress = state.progress
    assert progress is not None
    held = (*opened.storages, *(w.storage for w in opened.results.values()))
    progress.places.update({storage.name: opened.places for storage in held})
    after = evolve(state, windows={**state.windows, **opened.results})
    return (*body, *_stored_fold(opened.step, opened, after, context, recur)), after


def _held(step: Step, state: State, context: Context) -> Window:
    """Make registers for a step's result at this place."""
    (out,) = step.outs
    axes = tuple(Axis(d.name, _extent(d, state), as_expr(0)) for d in out.dims)
    like = Window(state.windows[POINTS].storage, axes)
    storage = register_storage(f"{out.name.lower()}_rf", like, RF, out.dtype, state, context, state.link)
    owner = None if state.level.name == Thread.name else _owner(step.dims, state, required=False)
    if owner is not None and _lies_as(owner, axes):  # registers in the order of those that it is made of
        storage.ownership, storage.size = owner.storage.ownership, owner.storage.size
    return Window(storage, axes)


def _lies_as(owner: Window, axes: tuple[Axis, ...]) -> bool:
    """Say whether a register tensor was made at this place, of these axes, by an atom or a load."""
    mine = tuple((a.dim, a.size, a.offset, a.steps) for a in axes)
    ownership = owner.storage.ownership
    return (
        tuple((a.dim, a.size, a.offset, a.steps) for a in owner.axes) == mine
        and owner.storage.shape == tuple(a.size for a in axes)
        and owner.storage.slots == 1
        and ownership is not None
        and not ownership.opaque
    )


def _extent(dim: Dim, state: State) -> Index:
    extent = state.residual.extents[dim.name]
    return 0 if extent is None else extent


def _stored_fold(step: Step, opened: Open, state: State, context: Context, recur: Recur) -> Body:
    """Store what a fold has found where it is an output."""
    progress = state.progress
    assert progress is not None
    outputs = {t.name for t in progress.program.outputs}
    body: Body = ()
    for out in step.outs:
        if out.name in outputs:
            body += _store(step, out, opened.results[out.name], opened.places, state, context, recur)
    return body


def _store(
    step: Step,
    out: Ref,
    window: Window,
    places: Mapping[str, Expr],
    state: State,
    context: Context,
    recur: Recur,
) -> Body:
    """Bring a result from registers to its output; of several threads that hold it, the first stores.

    Args:
        step: that computes it.
        out: the output.
        window: the result in registers.
        places: where a thread's first point lies along dims, as far as that is known already.
        state: the place in the tree.
        context: the kernel's.
        recur: lowers the chain of the Move.
    """
    progress = state.progress
    assert progress is not None
    results = progress.results
    target = state.windows[_stored(out.name)]
    move = move_of(state.residual, out.name, GL, window.storage.dtype)
    src, dst = move.operands
    dims = tuple(a.dim for a in window.axes)
    target, sizes = permuted(target, dims), move.extents
    move = evolve(
        move,
        sizes=tuple((dim, sizes[dim]) for dim in dims),
        operands=(evolve(src, memory=RF, dtype=window.storage.dtype, dims=dims), evolve(dst, dims=dims)),
    )
    links = (Own(Thread), Tile(Widest(), unrolled=True), Done(None)) if results is None else results.of(out.name)
    condition = _stores_here(step, out, places, state, context)
    inner = evolve(
        state,
        residual=move,
        windows={"src": window, "dst": target},
        whole={},
        progress=None,
    ).under(f"store {out.name}", state.link)
    body = recur(links, inner, context)
    if not proves(condition):
        body = (If(condition, body),)
    return (Region(f"store {out.name}: {move}", body, inner.path, state.link),)


def permuted(window: Window, dims: Sequence[str]) -> Window:
    """List a memory window's axes in another order: that in which registers hold the same dims."""
    places = [next(i for i, a in enumerate(window.axes) if a.dim == dim) for dim in dims]
    if places == sorted(places):
        return window
    storage = window.storage
    assert not isinstance(storage.strides, Layout)
    shape, strides = (tuple(found[i] for i in places) for found in (storage.shape, storage.strides))
    storage = attrs.evolve(storage, shape=shape, strides=strides)
    return evolve(window, axes=tuple(window.axes[i] for i in places), storage=storage)


def _stores_here(step: Step, out: Ref, places: Mapping[str, Expr], state: State, context: Context) -> Expr:
    """Say which of the threads that hold a value stores it: the one at the start of every dim that the value lacks."""
    missing = [d for d, _ in state.residual.sizes if d not in {x.name for x in out.dims}]
    if not missing:
        # All threads of a unit hold a single element: no lane tells them apart.
        alone = all(state.residual.extents[d.name] == 1 for d in out.dims)
        return lt(state.position, 1) if alone and state.position is not None else as_expr(1)
    progress = state.progress
    assert progress is not None
    points = state.windows[POINTS]
    firsts = {a.dim: a.offset for a in points.axes}
    owner = _owner(step.dims, state, required=False)
    if not places and owner is not None and owner.storage.name in progress.places:
        places = progress.places[owner.storage.name]
    elif not places and owner is not None and state.level.name != Thread.name:
        mine = [a.dim for a in owner.axes]
        inside = own_points(owner, mine, state, context)
        firsts |= {dim: inside.first(dim, POINTS) for dim in mine}
    firsts |= places
    return and_(*(eq(firsts[dim], 0) for dim in missing))


def _owner(dims: Sequence[Dim], state: State, required: bool = True) -> Window | None:
    """Find the register tensor whose threads compute a step: the one with most of the step's dims."""
    names = {d.name for d in dims}
    held = [
        w
        for role, w in state.windows.items()
        if role != POINTS and w.storage.memory.registers and w.storage.ownership is not None
    ]
    big = {d for d in names if state.residual.extents.get(d) not in (1, None) or d not in state.residual.extents}
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
    """Visit the points of a step that each thread owns, one after another, in loops that are unrolled.

    Args:
        step: whose points.
        state: the place in the tree.
        context: the kernel's.
        body: what is done at a point.
        owner: the register tensor that says whose points they are, None for the one with most of the step's dims.
    """
    progress = state.progress
    assert progress is not None
    owned: Points | None = None
    if state.level.name != Thread.name:
        owner = owner or _owner(step.dims, state)
        if owner is not None:
            owned = own_points(owner, [d.name for d in step.dims], state, context)
            state = owned.state
    if step.fold is not None and step.name in progress.open:
        axes = {a.dim: a.offset for a in state.windows[POINTS].axes}
        places = {d.name: axes[d.name] if owned is None else owned.first(d.name, POINTS) for d in step.dims}
        note_places(progress.open[step.name], places, state)
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
    return inner if owned is None else owned.around(inner)


def _views(step: Step, state: State, context: Context) -> tuple[Body, tuple[View, ...]]:
    """Say where the present point's reads lie; what may lie outside a tensor is first brought to a register."""
    progress = state.progress
    assert progress is not None
    found: list[View] = []
    before: Body = ()
    for role in named_reads(progress.program, step):
        window, present = at_point(state.windows[role], _coordinates(state))
        storage = window.storage
        if storage.memory.registers:
            view = register_view(context, window, state, f"step {step.name}")
        else:
            view = memory_view(window)
        if not proves(present):
            exists = _exists(step, state)
            held = View(temporary("at", storage.dtype, 1, context), as_expr(0))
            value = outside_of(state.windows[role])
            nothing = Constant(value if storage.dtype.kind == "float" else int(value), storage.dtype)
            present = present if exists is None else and_(present, exists)
            before += (
                Compute(held, nothing, link=state.link),
                Compute(held, Arg(0, storage.dtype), (view,), present, state.link),
            )
            view = held
        found.append(view)
    return before, tuple(found)


def _exists(step: Step, state: State) -> Expr | None:
    """Say whether the point is one of the step's: tiles may reach beyond the dims' ends."""
    mine = {d.name for d in step.dims}
    conditions = [_coarse(b.condition()) for a in state.windows[POINTS].axes if a.dim in mine for b in a.bounds]
    condition = and_(*conditions) if conditions else as_expr(1)
    return None if proves(condition) else condition


def _coarse(condition: Expr) -> Expr:
    """Ask of a whole vector what holds for all its elements alike: 8 a + b < 8 c, with b below 8, is 8 a < 8 c."""
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
    """Say where the present point lies, by dim."""
    progress = state.progress
    assert progress is not None
    axes = {a.dim: a for a in state.windows[POINTS].axes}
    return {dim: axes[dim.name].at(as_expr(0)) for dim in progress.program.dims}


def _placed(tree: Scalar, state: State) -> Scalar:
    """Let an expression's indices be those of the present point."""
    return simplify(placed(tree, _coordinates(state))) if coordinates(tree) else tree


def _accumulate(step: Step, opened: Open, state: State, context: Context) -> Body:
    """Fold one point into the state."""
    held = tuple(register_view(context, state.windows[name], state, f"step {step.name}") for name in opened.roles)
    trees = [_placed(tree, state) for tree in operands_of(step, len(held))]
    before, read = _views(step, state, context)
    views = (*held, *read)
    mask = _exists(step, state)
    present = condition_of(step)
    if present is not None:
        present = substitute(present, _coordinates(state))
        mask = present if mask is None else and_(mask, present)
        mask = None if proves(mask) else mask
    return (*before, *together(held, trees, views, mask, context, state.link))


def _assign(step: Step, role: str, state: State, context: Context, masked: bool = False, filled: bool = False) -> Body:
    """Compute one point of a pointwise step.

    Args:
        step: that is computed.
        role: the window of its result.
        state: at the point.
        context: the kernel's.
        masked: whether points that do not exist are left out.
        filled: whether they are 0: an atom reads them.
    """
    window = state.windows[role]
    before, views = _views(step, state, context)
    dst = (
        register_view(context, window, state, f"step {step.name}")
        if window.storage.memory.registers
        else memory_view(window)
    )
    tree = step.body
    kind = window.storage.dtype
    tree = _placed(tree if tree.dtype == kind else Cast(tree, kind), state)
    mask = _exists(step, state) if masked or filled or any(not v.buffer.memory.registers for v in views) else None
    zero: Body = ()
    if filled and mask is not None:
        zero = (Compute(dst, Constant(0.0 if kind.kind == "float" else 0, kind), link=state.link),)
    return (*before, *zero, *compute(dst, tree, views, mask, context, state.link))


def _lower_lead(step: Step, opened: Open, state: State, context: Context, recur: Recur) -> tuple[Body, State]:
    """Lower a fold whose value others need while it moves: fold a chunk, and say by what the others are corrected."""
    progress, link = state.progress, state.link
    assert progress is not None and progress.law is not None and step.fold is not None
    (out,), role = step.outs, opened.roles[0]
    title = f"{step.name}: {step.fold.name} over {', '.join(d.name for d in step.over)}"
    chunk = attrs.evolve(step, name=f"{step.name}_chunk", outs=(_beside(out, "chunk"),))
    part = open_fold(chunk, state, context, link)
    inside = evolve(
        state,
        windows={**state.windows, **part.windows},
        progress=evolve(progress, open={**progress.open, chunk.name: part}),
    )
    main = over_points(chunk, inside, context, lambda at: _accumulate(chunk, part, at, context))
    body: Body = (*begin(part, context), *main, *close(part, inside, context))
    body += finish(part, inside, context)
    note_places(opened, part.places, evolve(inside, guards=part.guards))
    opened.whole = True
    state = evolve(state, windows={**state.windows, **part.results})
    before = _beside(out, "before")
    made, state = _lower_step(Step(before.name, (before,), (out,), Arg(0, out.dtype)), state, context, recur)
    body += (*made, *_corrected(step, opened, state, context))
    update = Step(step.name, (out,), (out, *chunk.outs), step.fold.combine[0])
    body += over_points(update, state, context, lambda at: _assign(update, role, at, context), state.windows[role])
    (identity,) = identity_of(step.fold)
    nothing = Binary("eq", Arg(0, out.dtype), identity)
    for number, factor in enumerate(progress.law.factors[step.name]):
        known = attrs.evolve(_beside(out, f"factor{number or ''}"), dtype=factor.tree.dtype)
        tree = Select(nothing, Constant(0.0, factor.tree.dtype), factor.tree)
        made, state = _lower_step(Step(known.name, (known,), (before, out), tree), state, context, recur)
        body += made
    if not isfinite(identity.value):  # inf - inf is no number: what was folded of no points, or of such alone, is 0
        seen = _beside(out, "finite")
        tree = Select(nothing, Constant(0.0, out.dtype), Arg(0, out.dtype))
        made, state = _lower_step(Step(seen.name, (seen,), (out,), tree), state, context, recur)
        body += made
        state = evolve(state, windows={**state.windows, out.name: state.windows[seen.name]})
    return (Region(title, body, state.path, link),), state


def _beside(out: Ref, word: str) -> Ref:
    """Name a register tensor that goes with a fold's value."""
    return attrs.evolve(out, name=f"{out.name}_{word}", memory=RF)


def _corrected(step: Step, opened: Open, state: State, context: Context) -> Body:
    """Correct what a fold has summed by the factors of the folds whose values it needs."""
    progress = state.progress
    assert progress is not None
    found = () if progress.law is None else progress.law.corrected.get(step.name, ())
    if not found:
        return ()
    assert progress.law is not None
    role = opened.roles[0]
    adds = False
    factors: list[Ref] = []
    for lead, number in found:
        (out,) = next(s for s in progress.program.steps if s.name == lead).outs
        factor = progress.law.factors[lead][number]
        adds = factor.adds
        factors.append(attrs.evolve(_beside(out, f"factor{number or ''}"), dtype=factor.tree.dtype))
    kind = opened.fold.dtypes[0]
    tree: Scalar = Arg(0, kind)
    for i, factor in enumerate(factors, 1):
        by = Arg(i, factor.dtype) if factor.dtype == kind else Cast(Arg(i, factor.dtype), kind)
        tree = Binary("add" if adds else "mul", tree, by)
    pseudo = Step(f"{step.name}_corrected", step.outs, tuple(factors), tree)

    def of_point(at: State) -> Body:
        held = register_view(context, at.windows[role], at, f"step {step.name}")
        before, views = _views(pseudo, at, context)
        return (*before, *compute(held, tree, (held, *views), None, context, at.link))

    return over_points(pseudo, state, context, of_point, state.windows[role])
